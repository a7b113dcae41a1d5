// Op timings: each op entry opens a TraceZone; where a sink is set it learns name, layer and
// duration. Off costs one load.
#pragma once

#include <chrono>
#include <cstdint>

namespace baltoro {

struct TraceEvent {
  const char* name;
  int layer;
  std::int64_t start_ns;  // steady clock
  std::int64_t duration_ns;
};

// Receives events on the thread that ran the op. One sink at a time; nullptr turns tracing off.
class TraceSink {
 public:
  virtual ~TraceSink() = default;
  virtual void record(const TraceEvent& event) = 0;
};
void set_trace_sink(TraceSink* sink) noexcept;
TraceSink* trace_sink() noexcept;

class TraceZone {
 public:
#ifdef BALTORO_TRACE
  TraceZone(const char* name, int layer) : sink_(trace_sink()), name_(name), layer_(layer) {
    if (sink_ != nullptr) start_ns_ = now_ns();
  }
  ~TraceZone() {
    if (sink_ != nullptr) sink_->record({name_, layer_, start_ns_, now_ns() - start_ns_});
  }
#else
  TraceZone(const char*, int) {}
#endif
  TraceZone(const TraceZone&) = delete;
  TraceZone& operator=(const TraceZone&) = delete;

#ifdef BALTORO_TRACE
 private:
  static std::int64_t now_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  TraceSink* sink_;
  const char* name_;
  int layer_;
  std::int64_t start_ns_ = 0;
#endif
};

}  // namespace baltoro
