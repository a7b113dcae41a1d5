// What the arithmetic units of this machine can deliver, for the percentages in reports.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "baltoro/types.h"

namespace baltoro {

// FLOPs a second of num_threads threads that multiply and add on registers alone, in the arithmetic
// that the leaf table of `isa` uses for weight products under these activations; the best of a few
// passes. Takes a tenth of a second. Throws as make_cpu_backend.
double measure_cpu_peak(const std::optional<std::string>& isa, int num_threads,
                        Activations activations);
// The same at this moment: one pass, of 5 to 30 ms.
double cpu_peak_now(const std::optional<std::string>& isa, int num_threads,
                    Activations activations);

// Loops over memory with the registers of the leaf table of `isa`. Throws as make_cpu_backend.
struct MemoryLoops {
  // The sum of n values, a multiple of 128.
  float (*sum)(const float* x, std::int64_t n);
  // x = factor x in place, n values.
  void (*scale)(float* x, float factor, std::int64_t n);
};
MemoryLoops cpu_memory_loops(const std::optional<std::string>& isa);

}  // namespace baltoro
