// What the machine's memory can deliver, for the percentages in reports.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/buffer.h"
#include "core/parallel.h"
#include "cpu/peak.h"

namespace baltoro {

// Beyond most last-level caches; where one is larger, others share it.
constexpr std::int64_t kMemoryProbeBytes = std::int64_t{512} << 20;

// Threads that visit a buffer, over and over. The buffer grows to the largest size asked for and
// stays. One caller at a time. `isa` as in EngineOptions: reading takes wide registers.
class MemoryProbe {
 public:
  // Throws as make_cpu_backend and ThreadPool.
  MemoryProbe(const std::optional<std::string>& isa, int num_threads);

  // Bytes a second that the threads read from so many bytes (at least 1) at this moment: the mean
  // of the passes of some ten milliseconds, after one that does not count. What fits into a cache
  // shows that cache. Throws Error{kOutOfMemory}.
  double read(std::int64_t bytes);
  // The same for x = a x in place: bytes read and written a second.
  double update(std::int64_t bytes);

 private:
  template <typename Visit>
  double passes(std::int64_t bytes, const Visit& visit);

  MemoryLoops loops_;
  ThreadPool pool_;
  Buffer buffer_;
};

// The best of a few such measurements, in a buffer of its own.
double measure_read_bandwidth(const std::optional<std::string>& isa, int num_threads,
                              std::int64_t bytes = kMemoryProbeBytes);
double measure_update_bandwidth(const std::optional<std::string>& isa, int num_threads,
                                std::int64_t bytes);

}  // namespace baltoro
