#include "measure/model_work.h"

#include "model/model_stats.h"
#include "ops/kda.h"
#include "ops/mla.h"
#include "plan/routing.h"

namespace baltoro {
namespace {

double kda_flops(const ModelConfig& config, const PassShape& shape) {
  const auto layers = static_cast<double>(config.num_layers_of(MixerKind::kKda));
  if (layers == 0) return 0;
  return layers * kda_mix_cost(kda_shape(config.kda), shape.tokens, 1, DType::kF32).flops;
}

double mla_flops(const ModelConfig& config, const PassShape& shape) {
  const auto layers = static_cast<double>(config.num_layers_of(MixerKind::kMla));
  if (layers == 0) return 0;
  const MlaShape mla = mla_shape(config.mla);
  double flops = 0;
  if (shape.origin == Origin::kPrompt) {
    flops = mla_prefill_cost(mla, shape.tokens, shape.depth, DType::kF32, DType::kBf16).flops;
  } else {
    for (std::int64_t t = 0; t < shape.tokens; ++t) {
      flops += mla_decode_cost(mla, shape.depth + t, DType::kF32, DType::kBf16).flops;
    }
  }
  // kv_b is among the parameters.
  const bool has_kv_b = mla.kind != MlaKind::kGqa;
  const double kv_b = has_kv_b ? static_cast<double>(mla.kv_b_rows() * mla.kv_rank) : 0;
  return layers * (flops - 2 * kv_b * static_cast<double>(shape.tokens));
}

double weight_bytes(const ModelConfig& config, const EngineInfo& info, std::int64_t tokens) {
  const auto one_token = static_cast<double>(info.decode_weight_bytes);
  if (config.moe.num_experts == 0) return one_token;
  const auto chosen = static_cast<double>(compute_model_stats(config).active_expert_bytes);
  const auto per_token = static_cast<double>(config.moe.experts_per_token);
  const double touched = plan::distinct_experts(static_cast<double>(config.moe.num_experts),
                                                per_token, static_cast<double>(tokens)) /
                         per_token;
  return one_token + chosen * (touched - 1);
}

}  // namespace

Work pass_work(const ModelConfig& config, const EngineInfo& info, const PassShape& shape) {
  const ModelStats stats = compute_model_stats(config);
  const auto batch = static_cast<double>(shape.batch);
  const auto tokens = static_cast<double>(shape.tokens);
  const auto depth = static_cast<double>(shape.depth);
  const Component head_part = config.tie_word_embeddings ? Component::kEmbedding : Component::kHead;
  const auto head = static_cast<double>(stats[head_part].parameters);
  const double body = static_cast<double>(stats.active_parameters) - head;
  Work work;
  work.flops =
      batch * (2 * (tokens * body + head) + kda_flops(config, shape) + mla_flops(config, shape));
  work.updated = batch * 2 * static_cast<double>(info.state_bytes);
  work.bytes = weight_bytes(config, info, shape.batch * shape.tokens) + work.updated +
               batch * ((depth + tokens) * static_cast<double>(info.cache_bytes_per_token));
  return work;
}

}  // namespace baltoro
