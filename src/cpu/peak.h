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

// x = factor x in place, n values, with the registers of the leaf table of `isa`. Throws as
// make_cpu_backend.
using UpdateLoop = void (*)(float* x, float factor, std::int64_t n);
UpdateLoop cpu_update_loop(const std::optional<std::string>& isa);

}  // namespace baltoro
