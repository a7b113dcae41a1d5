// Sizes that follow from a configuration alone: tensors, parameters and bytes by component, state
// and cache. What `inspect` prints.
#pragma once

#include <array>
#include <cstdint>

#include "model/config.h"
#include "model/tensor_inventory.h"

namespace baltoro {

struct ComponentStats {
  std::int64_t num_tensors = 0;
  std::int64_t parameters = 0;
  std::int64_t bytes = 0;
};

struct ModelStats {
  std::array<ComponentStats, kNumComponents> components;  // indexed by Component
  std::int64_t num_tensors = 0;
  std::int64_t total_bytes = 0;
  std::int64_t text_parameters = 0;
  std::int64_t vision_parameters = 0;
  // Parameters that one token meets: all of the text model but the input embedding (a lookup) and
  // the experts that were not chosen.
  std::int64_t active_parameters = 0;
  std::int64_t active_bytes = 0;               // the weights of active_parameters, scales included
  std::int64_t active_expert_bytes = 0;        // of them, routed experts
  std::int64_t expert_bytes = 0;               // one routed expert
  std::int64_t mla_cache_bytes_per_token = 0;  // bf16 cache, all layers
  std::int64_t kda_state_bytes = 0;            // f32 recurrent state of a sequence, all layers
  std::int64_t kda_conv_bytes = 0;             // bf16 convolution history of a sequence

  const ComponentStats& operator[](Component component) const {
    return components[static_cast<std::size_t>(component)];
  }
};

// Throws as tensor_inventory.h does.
ModelStats compute_model_stats(const ModelConfig& config);

}  // namespace baltoro
