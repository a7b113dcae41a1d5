// What the machine's memory can deliver, for the percentages in reports.
#pragma once

namespace baltoro {

// Bytes a second that num_threads threads read from a buffer far beyond the caches, the best of a
// few passes. Takes a fraction of a second. Throws Error{kOutOfMemory}.
double measure_read_bandwidth(int num_threads);

}  // namespace baltoro
