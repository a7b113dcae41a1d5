// Names of the tensors of a released checkpoint. The text model stands under `language_model.` (K3)
// or without a prefix (Kimi Linear).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace baltoro {

constexpr std::string_view kTextPrefix = "language_model.";

class TensorNames {
 public:
  explicit TensorNames(bool with_prefix) : prefix_(with_prefix ? kTextPrefix : "") {}

  // "language_model.lm_head"
  std::string top(std::string_view name) const { return prefix_ + std::string(name); }
  // "language_model.model.embed_tokens"
  std::string model(std::string_view name) const { return prefix_ + "model." + std::string(name); }
  // "language_model.model.layers.7." + name
  std::string layer(std::int64_t layer_idx, std::string_view name) const {
    return prefix_ + "model.layers." + std::to_string(layer_idx) + "." + std::string(name);
  }
  // "language_model.model.layers.7.block_sparse_moe.experts.3.w1"
  std::string expert(std::int64_t layer_idx, std::int64_t expert_idx, std::string_view name) const {
    return layer(layer_idx, "block_sparse_moe.experts.") + std::to_string(expert_idx) + "." +
           std::string(name);
  }

 private:
  std::string prefix_;
};

}  // namespace baltoro
