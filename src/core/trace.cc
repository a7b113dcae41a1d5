#include "core/trace.h"

#include <atomic>

namespace baltoro {
namespace {

std::atomic<TraceSink*> g_sink{nullptr};

}  // namespace

void set_trace_sink(TraceSink* sink) noexcept { g_sink.store(sink, std::memory_order_release); }

TraceSink* trace_sink() noexcept { return g_sink.load(std::memory_order_acquire); }

}  // namespace baltoro
