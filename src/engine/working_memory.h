// What a model takes beside its weights, before it is loaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "baltoro/engine.h"
#include "model/config.h"
#include "model/sequence_state.h"
#include "ops/backend.h"

namespace baltoro {

// Bytes.
struct WorkingMemory {
  std::uint64_t pass = 0;             // activations and scratch
  std::vector<std::uint64_t> states;  // [L] each layer's part of a sequence of 2,048 tokens

  // With the states of layers [begin, end).
  std::uint64_t with_states(std::size_t begin, std::size_t end) const;
  std::uint64_t total() const { return with_states(0, states.size()); }
};

// What passes on `backend` take, and states that it keeps.
WorkingMemory working_memory(const EngineOptions& options, const ModelConfig& config,
                             Backend& backend);

// Of states of these sizes, those of a sequence of 2,048 tokens, which plans allow for: its own and
// that of its last block boundary.
std::uint64_t planned_state_bytes(const StateBytes& bytes);

// How KDA states and latents are kept. Throws Error{kUnsupported} where the model has no latents to
// keep in fp8.
StateFormat state_format(const EngineOptions& options, const ModelConfig& config);

}  // namespace baltoro
