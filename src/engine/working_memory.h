// What a model takes beside its weights, before it is loaded.
#pragma once

#include <cstdint>

#include "baltoro/engine.h"
#include "model/config.h"
#include "model/sequence_state.h"
#include "ops/backend.h"

namespace baltoro {

// Activations and scratch of a pass, and the state of one sequence of 2,048 tokens, where `backend`
// keeps them.
std::uint64_t working_bytes(const EngineOptions& options, const ModelConfig& config,
                            Backend& backend);

// How KDA states and latents are kept. Throws Error{kUnsupported} where the model has no latents to
// keep in fp8.
StateFormat state_format(const EngineOptions& options, const ModelConfig& config);

}  // namespace baltoro
