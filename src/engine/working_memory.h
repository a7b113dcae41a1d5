// What a model takes beside its weights, before it is loaded.
#pragma once

#include <cstdint>

#include "baltoro/engine.h"
#include "model/config.h"
#include "ops/backend.h"

namespace baltoro {

// Activations and scratch of a pass, and the state of one sequence of 2,048 tokens, where `backend`
// keeps them.
std::uint64_t working_bytes(const EngineOptions& options, const ModelConfig& config,
                            Backend& backend);

// How KDA states are kept.
DType state_dtype(const EngineOptions& options);

}  // namespace baltoro
