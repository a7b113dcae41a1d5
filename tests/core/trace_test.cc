#include "core/trace.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace baltoro {
namespace {

class Recorder final : public TraceSink {
 public:
  void record(const TraceEvent& event) override { events.push_back(event); }
  std::vector<TraceEvent> events;
};

#ifdef BALTORO_TRACE
TEST(Trace, ZonesReachTheSinkThatIsSetAndNoOther) {
  Recorder recorder;
  { const TraceZone unseen("before", 1); }
  set_trace_sink(&recorder);
  {
    const TraceZone outer("outer", 2);
    const TraceZone inner("inner", 3);
  }
  set_trace_sink(nullptr);
  { const TraceZone unseen("after", 4); }
  ASSERT_EQ(recorder.events.size(), 2u);
  EXPECT_EQ(recorder.events[0].name, std::string("inner"));
  EXPECT_EQ(recorder.events[1].layer, 2);
  EXPECT_LE(recorder.events[1].start_ns, recorder.events[0].start_ns);
  EXPECT_GE(recorder.events[1].duration_ns, recorder.events[0].duration_ns);
}
#endif

}  // namespace
}  // namespace baltoro
