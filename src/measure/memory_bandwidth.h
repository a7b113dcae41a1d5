// What the machine's memory can deliver, for the percentages in reports.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace baltoro {

// Beyond most last-level caches; where one is larger, others share it.
constexpr std::int64_t kMemoryProbeBytes = std::int64_t{512} << 20;

// Bytes a second that num_threads threads read from a buffer of `bytes` (at least 1), over and over,
// the best of a few passes: a buffer that fits into a cache shows that cache. Takes a fraction of a
// second. `isa` as in EngineOptions: reading takes wide registers. Throws Error{kOutOfMemory}.
double measure_read_bandwidth(const std::optional<std::string>& isa, int num_threads,
                              std::int64_t bytes = kMemoryProbeBytes);
// The same for x = a x in place: bytes read and written a second.
double measure_update_bandwidth(const std::optional<std::string>& isa, int num_threads,
                                std::int64_t bytes);

}  // namespace baltoro
