#include "plan/inventory.h"

#include "plan/arithmetic.h"

namespace baltoro::plan {
namespace {

double gate_parameters(OutputGate gate, double hidden, double rank, double width) {
  switch (gate) {
    case OutputGate::kNone:
      return 0;
    case OutputGate::kLowRank:
      return hidden * rank + rank * width;
    case OutputGate::kFull:
      return hidden * width;
  }
  return 0;
}

}  // namespace

MixerParameters kda_parameters(const PlanModel& model) {
  const KdaConfig& kda = model.config.kda;
  const double d = real(model.config.hidden_size);
  const double keys = real(kda.key_width());
  const double values = real(kda.value_width());
  MixerParameters result;
  result.unsplit = d * real(kda.decay_rank) + d * real(kda.num_heads);
  result.projections = result.unsplit + d * (2 * keys + 2 * values) +
                       real(kda.decay_rank) * real(kda.decay_width()) +
                       gate_parameters(kda.output_gate, d, real(kda.gate_rank), values);
  result.core = real(kda.conv_width) * (2 * keys + values);
  return result;
}

MixerParameters attention_parameters(const PlanModel& model) {
  const MlaConfig& mla = model.config.mla;
  const MlaShape shape = mla_shape(model.config.mla);
  const double d = real(model.config.hidden_size);
  const double queries = real(mla.num_heads * mla.qk_dim());
  const double q_rank = real(mla.q_lora_rank);
  const double kv_rows = real(shape.cache_width());
  const bool is_gqa = mla.kind == MlaKind::kGqa;
  MixerParameters result;
  result.unsplit = d * q_rank + (is_gqa ? 0 : d * kv_rows);
  const double up = q_rank > 0 ? q_rank * queries : d * queries;
  result.projections =
      d * q_rank + up + d * kv_rows +
      gate_parameters(mla.output_gate, d, real(mla.gate_rank), real(mla.value_width())) +
      d * real(mla.value_width());
  result.core = is_gqa ? 0 : real(shape.kv_b_rows() * shape.kv_rank);
  return result;
}

double expert_parameters(const PlanModel& model) {
  return model.expert_matrices * real(model.expert_width()) *
         real(model.config.moe.expert_ffn_size);
}

double layer_parameters(const PlanModel& model, const LayerSpec& layer, Part part) {
  const ModelConfig& config = model.config;
  const double d = real(config.hidden_size);
  const bool is_kda = layer.mixer == MixerKind::kKda;
  const bool is_moe = layer.ffn == FfnKind::kMoe;
  switch (part) {
    case Part::kKdaProj:
      return is_kda ? kda_parameters(model).projections : 0;
    case Part::kKdaState:
      return is_kda ? kda_parameters(model).core : 0;
    case Part::kAttnProj:
      return is_kda ? 0 : attention_parameters(model).projections;
    case Part::kAttnCore:
      return is_kda ? 0 : attention_parameters(model).core;
    case Part::kRouter:
      return is_moe ? real(config.moe.num_experts) *
                          (config.moe.router_reads_latent ? real(config.moe.latent_size) : d)
                    : 0;
    case Part::kLatent:
      return is_moe ? 2 * d * real(config.moe.latent_size) : 0;
    case Part::kRouted:
      return is_moe ? real(config.moe.num_experts) * expert_parameters(model) : 0;
    case Part::kShared:
      return is_moe ? 3 * d * real(config.moe.shared_ffn_size()) : 0;
    case Part::kDense:
      return is_moe ? 0 : 3 * d * real(config.intermediate_size);
    default:
      return 0;
  }
}

double part_parameters(const PlanModel& model, Part part) {
  const double table = real(model.config.vocab_size) * real(model.config.hidden_size);
  if (part == Part::kEmbed) return model.config.tie_word_embeddings ? 0 : table;
  if (part == Part::kHead) return table;
  double sum = 0;
  for (const LayerSpec& layer : model.config.layers) sum += layer_parameters(model, layer, part);
  return sum;
}

double total_parameters(const PlanModel& model) {
  double sum = 0;
  for (const Part part : kAllParts) sum += part_parameters(model, part);
  return sum;
}

double active_parameters(const PlanModel& model) {
  double sum = 0;
  for (const Part part : kAllParts) {
    if (part == Part::kEmbed || part == Part::kRouted) continue;
    sum += part_parameters(model, part);
  }
  return sum +
         real(model.num_moe() * model.config.moe.experts_per_token) * expert_parameters(model);
}

double part_bytes(const PlanModel& model, Part part) {
  return part_parameters(model, part) * format_bytes(part_format(model.formats, part));
}

double total_bytes(const PlanModel& model) {
  double sum = 0;
  for (const Part part : kAllParts) sum += part_bytes(model, part);
  return sum;
}

double rest_bytes(const PlanModel& model) {
  return total_bytes(model) - part_bytes(model, Part::kEmbed) - part_bytes(model, Part::kRouted);
}

double cache_bytes_per_token(const PlanModel& model) {
  return real(model.num_attn() * model.config.mla.cache_width()) * format_bytes(model.formats.kv);
}

double state_bytes_per_sequence(const PlanModel& model) {
  return real(model.num_kda() * kda_shape(model.config.kda).state_elements()) *
         format_bytes(model.formats.state);
}

double conv_bytes_per_sequence(const PlanModel& model) {
  if (model.num_kda() == 0) return 0;
  return real(model.num_kda() * kda_shape(model.config.kda).conv_elements()) *
         format_bytes(model.formats.conv);
}

}  // namespace baltoro::plan
