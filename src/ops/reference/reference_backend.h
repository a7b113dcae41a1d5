// The executable specification: scalar, double accumulation, one plain function per step of the
// specification. Every other backend is tested against it.
#pragma once

#include <memory>

#include "ops/backend.h"

namespace baltoro {

// Activations are stored as f32 in both modes; the MLA cache as bf16 or f32. Within an op nothing
// is rounded but at the rounding points of Activations::kBf16; between ops values are f32. The KDA
// state is f32 after each generated token and after each block of a prompt.
std::unique_ptr<Backend> make_reference_backend(Activations activations);

}  // namespace baltoro
