#include "model/model_stats.h"

#include <initializer_list>

#include "core/error.h"

namespace baltoro {
namespace {

// Each size of a configuration is bounded, their product over layers and experts is not.
std::int64_t product(std::initializer_list<std::int64_t> factors) {
  std::int64_t result = 1;
  for (std::int64_t factor : factors) {
    if (__builtin_mul_overflow(result, factor, &result)) {
      fail(ErrorCode::kBadModel, "config.json: the model's size exceeds 2^63 bytes");
    }
  }
  return result;
}

void add(std::int64_t& sum, std::int64_t value) {
  if (__builtin_add_overflow(sum, value, &sum)) {
    fail(ErrorCode::kBadModel, "config.json: the model's size exceeds 2^63 bytes");
  }
}

void count(ModelStats& stats, const TensorSpec& tensor, std::int64_t copies) {
  ComponentStats& component = stats.components[static_cast<std::size_t>(tensor.component)];
  component.num_tensors += copies;
  add(component.parameters, product({copies, tensor.parameters()}));
  add(component.bytes, product({copies, tensor.bytes()}));
}

void count_layer(ModelStats& stats, const ModelConfig& config, std::int64_t layer_idx) {
  // All experts of a layer have one size: the first stands for them.
  for (const TensorSpec& tensor : layer_tensors(config, layer_idx, 0, 1)) {
    const bool expert = tensor.component == Component::kExperts;
    count(stats, tensor, expert ? config.moe.num_experts : 1);
  }
}

void count_active(ModelStats& stats, const ModelConfig& config) {
  const ComponentStats& experts = stats[Component::kExperts];
  for (Component component : {Component::kKda, Component::kMla, Component::kNorms,
                              Component::kDenseFfn, Component::kMoeFixed, Component::kHead}) {
    stats.active_parameters += stats[component].parameters;
    stats.active_bytes += stats[component].bytes;
  }
  if (config.tie_word_embeddings) {
    stats.active_parameters += stats[Component::kEmbedding].parameters;
    stats.active_bytes += stats[Component::kEmbedding].bytes;
  }
  const std::int64_t num_experts = config.moe.num_experts;
  if (num_experts == 0) return;
  const std::int64_t chosen = config.moe.experts_per_token;
  stats.expert_bytes = experts.bytes / (num_experts * config.num_layers_of(FfnKind::kMoe));
  stats.active_expert_bytes = experts.bytes / num_experts * chosen;
  stats.active_parameters += experts.parameters / num_experts * chosen;
  stats.active_bytes += stats.active_expert_bytes;
}

}  // namespace

ModelStats compute_model_stats(const ModelConfig& config) {
  ModelStats stats;
  for (const TensorSpec& tensor : embedding_tensors(config)) count(stats, tensor, 1);
  for (std::int64_t i = 0; i < config.num_layers; ++i) count_layer(stats, config, i);
  for (const TensorSpec& tensor : end_tensors(config)) count(stats, tensor, 1);
  for (const TensorSpec& tensor : vision_tensors(config)) count(stats, tensor, 1);

  for (int i = 0; i < kNumComponents; ++i) {
    const auto component = static_cast<Component>(i);
    const ComponentStats& part = stats[component];
    const bool vision = component == Component::kVisionTower || component == Component::kProjector;
    stats.num_tensors += part.num_tensors;
    add(stats.total_bytes, part.bytes);
    add(vision ? stats.vision_parameters : stats.text_parameters, part.parameters);
  }
  count_active(stats, config);

  const KdaConfig& kda = config.kda;
  const std::int64_t num_kda = config.num_layers_of(MixerKind::kKda);
  const std::int64_t num_mla = config.num_layers_of(MixerKind::kMla);
  stats.mla_cache_bytes_per_token = product({num_mla, config.mla.cache_width(), 2});
  stats.kda_state_bytes = product({num_kda, kda.num_heads, kda.head_dim_k, kda.head_dim_v, 4});
  if (num_kda > 0) {
    stats.kda_conv_bytes =
        product({num_kda, kda.conv_width - 1, 2 * kda.key_width() + kda.value_width(), 2});
  }
  return stats;
}

}  // namespace baltoro
