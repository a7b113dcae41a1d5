#include "plan/model.h"

#include <fmt/ranges.h>

#include "core/error.h"

namespace baltoro::plan {

PlanModel model_from_config(const ModelConfig& config, std::string name) {
  PlanModel model;
  model.name = std::move(name);
  model.config = config;
  model.formats.kv = Format::kBf16;  // as the engine caches
  if (config.layout.mxfp4_experts) model.formats.routed = Format::kMxfp4;
  if (config.layout.mxint8_trunk) {
    for (Format* format : {&model.formats.attn, &model.formats.shared, &model.formats.dense,
                           &model.formats.latent}) {
      *format = Format::kMxint8;
    }
  }
  return model;
}

void check_model(const PlanModel& model) {
  const ModelConfig& config = model.config;
  std::vector<std::string> problems;
  if (model.num_kda() > 0 && config.kda.num_heads == 0) {
    problems.push_back("a KDA layer without KDA sizes; the rule is attention in every layer");
  }
  if (model.num_attn() > 0 && config.mla.num_heads == 0) {
    problems.push_back("an attention layer without its sizes; the rule is KDA in every layer");
  }
  if (model.num_dense() > 0 && config.intermediate_size == 0) {
    problems.push_back("a dense layer of width 0; set ff");
  }
  if (model.num_moe() > 0) {
    const MoeConfig& moe = config.moe;
    if (moe.num_experts == 0 || moe.expert_ffn_size == 0) {
      problems.push_back("a MoE layer without experts; set N, K and m");
    } else if (moe.experts_per_token > moe.num_experts) {
      problems.push_back(fmt::format("K = {} exceeds N = {}; the rule is K <= N",
                                     moe.experts_per_token, moe.num_experts));
    }
  }
  if (model.num_attn() > 0) {
    const MlaConfig& mla = config.mla;
    if (mla.kind == MlaKind::kGqa && mla.num_kv_heads > 0 &&
        mla.num_heads % mla.num_kv_heads != 0) {
      problems.push_back(fmt::format("{} key and value heads do not divide H = {}",
                                     mla.num_kv_heads, mla.num_heads));
    }
    if (mla.kind == MlaKind::kMqa && mla.qk_nope_dim != mla.kv_lora_rank) {
      problems.push_back(fmt::format("d_n = {} differs from c = {}; mqa needs them equal",
                                     mla.qk_nope_dim, mla.kv_lora_rank));
    }
  }
  if (problems.empty()) return;
  fail(ErrorCode::kUsage, "{}: {}", model.name, fmt::join(problems, "; "));
}

std::int64_t mix_sources(const ModelConfig& config, std::int64_t sublayer) {
  const std::int64_t block = config.attn_res_sublayers;
  if (block == 0) return 1;
  return 1 + sublayer / block + (sublayer % block > 0 ? 1 : 0);
}

}  // namespace baltoro::plan
