// Work of each part on one device: the ops' cost() functions, cut by the layout.
#include <algorithm>
#include <cmath>

#include "ops/embed.h"
#include "ops/expert_mlp.h"
#include "ops/glu_mlp.h"
#include "ops/head.h"
#include "ops/linear.h"
#include "ops/mix_norm.h"
#include "ops/route.h"
#include "plan/arithmetic.h"
#include "plan/inventory.h"
#include "plan/knee_formulas.h"
#include "plan/placement.h"
#include "plan/scan.h"
#include "plan/step.h"

namespace baltoro::plan {
namespace {

// The shape of a matrix for cost(); its bytes come from the format that the plan gives it.
WeightView matrix(std::int64_t rows, std::int64_t cols) {
  return {nullptr, nullptr, WeightFormat::kBf16, rows, cols};
}

DType activation_dtype(Format format) {
  const double bytes = format_bytes(format);
  return bytes >= 4 ? DType::kF32 : bytes >= 2 ? DType::kBf16 : DType::kU8;
}

class Builder {
 public:
  Builder(const Scenario& scenario, const StepShape& shape)
      : model_(scenario.model),
        config_(scenario.model.config),
        hardware_(scenario.hardware),
        layout_(scenario.layout),
        workload_(scenario.workload),
        shape_(shape),
        dtype_(activation_dtype(scenario.model.formats.activation)),
        value_(real(static_cast<std::int64_t>(dtype_bytes(dtype_)))) {
    const std::int64_t groups = layout_.attention_groups();
    sequences_ = ceil_div(shape.sequences, groups);
    prompts_ = ceil_div(shape.prompts, groups);
    rows_ = sequences_ * shape.query_tokens + prompts_ * shape.prompt_tokens;
    width_ = real(config_.hidden_size);
    tile_rows_ = scenario.efficiency.tile_rows;
  }

  StepWork build() {
    embed_and_head();
    if (model_.num_kda() > 0) kda();
    if (model_.num_attn() > 0) attention();
    mixes();
    if (model_.num_moe() > 0) {
      router_and_latent();
      routed();
      if (config_.moe.num_shared_experts > 0) shared();
    }
    if (model_.num_dense() > 0) dense();
    pipeline();
    return work_;
  }

 private:
  PartWork& at(Part part) { return work_[index_of(part)]; }
  double row_bytes() const { return real(rows_) * width_ * value_; }
  Group tensor_group() const { return {layout_.tp, hardware_.scale_up_domain}; }

  // Adds `calls` of an op whose weights and FLOPs are cut into `parts`.
  void add(Part part, const Cost& cost, double calls, double parts) {
    PartWork& work = at(part);
    work.calls = std::max(work.calls, calls);
    work.rows = std::max(work.rows, real(rows_));
    work.flops += calls * cost.flops / parts;
    work.executed_flops += calls * cost.executed_flops / parts;
    work.activation_bytes += calls * cost.activation_bytes;
  }

  // The part's matrices on this device, each read once.
  void add_weights(Part part) { at(part).weight_bytes += device_part_bytes(model_, layout_, part); }

  // FLOPs of `parameters` on each row; the input [rows, d] read, `outputs` values a row written.
  Cost products(double parameters, double inputs, double outputs) const {
    Cost cost = linear_cost(rows_, matrix(1, 1), dtype_);
    cost.flops *= parameters;
    cost.executed_flops = cost.flops;
    cost.activation_bytes = real(rows_) * (inputs + outputs) * value_;
    return cost;
  }

  void embed_and_head() {
    const double tp = real(layout_.tp);
    const Cost embed = embed_cost(rows_, config_.hidden_size, WeightFormat::kBf16, dtype_);
    add(Part::kEmbed, embed, 1, 1);
    at(Part::kEmbed).weight_bytes =
        embed.weight_bytes / 2 * format_bytes(model_.formats.embed) / tp;
    at(Part::kEmbed).network = all_reduce(tensor_group(), row_bytes(), switch_adds());
    const std::int64_t rows =
        (sequences_ * shape_.query_tokens + prompts_) * (layout_.attention_dp ? layout_.tp : 1);
    const std::int64_t vocabulary = ceil_div(config_.vocab_size, layout_.tp);
    add(Part::kHead, head_cost(rows, matrix(vocabulary, config_.hidden_size), dtype_), 1, 1);
    at(Part::kHead).rows = real(rows);
    add_weights(Part::kHead);
    // Each rank's largest logit and its id.
    constexpr double kPair = 8;
    at(Part::kHead).network = all_gather(tensor_group(), real(rows * layout_.tp) * kPair);
  }

  // Split by heads: `projections` of which `unsplit` may be whole on every rank.
  void mixer(Part part, const MixerParameters& parameters, double layers, double width) {
    const double parts = real(layout_.attention_tp());
    const double whole = layout_.replicate_small ? parameters.unsplit : 0;
    const double mine = (parameters.projections - whole) / parts + whole;
    // Outputs of the first products, and the second product's input.
    add(part, products(mine, 2 * width_, width / parts), layers, 1);
    add_weights(part);
    const Group group = {layout_.attention_tp(), hardware_.scale_up_domain};
    at(part).network = all_reduce(group, row_bytes(), switch_adds()) * layers;
  }

  void kda() {
    const double layers = real(model_.num_kda());
    const KdaShape shape = kda_shape(model_.config.kda);
    const double values = real(shape.value_channels());
    const double gate = config_.kda.output_gate == OutputGate::kNone ? 0 : values;
    const double outputs = real(2 * shape.key_channels() + shape.decay_channels()) + 2 * values +
                           gate + real(shape.num_heads);
    mixer(Part::kKdaProj, kda_parameters(model_), layers, outputs);

    const double parts = real(layout_.attention_tp());
    Cost cost = kda_mix_cost(shape, sequences_ * shape_.query_tokens, sequences_, dtype_);
    cost += kda_mix_cost(shape, prompts_ * shape_.prompt_tokens, prompts_, dtype_, Origin::kPrompt);
    cost.activation_bytes /= parts;
    add(Part::kKdaState, cost, layers, parts);
    add_weights(Part::kKdaState);
    PartWork& work = at(Part::kKdaState);
    work.cache_bytes = 2 * real(sequences_ + prompts_) *
                       (state_bytes_per_sequence(model_) + conv_bytes_per_sequence(model_)) / parts;
    if (prompts_ > 0 && hardware_.scan_chunk_seconds) {
      work.scan_seconds =
          layers * scan_seconds(real(shape.num_heads) / parts, prompts_, shape_.prompt_tokens,
                                hardware_.processors.value, hardware_.scan_chunk_seconds.value);
    }
  }

  // Attention of one generated sequence: its rows one after the other, the cache read once.
  Cost decode_attention(const MlaShape& shape) const {
    const std::int64_t start = shape_.context - shape_.query_tokens;
    if (real(shape_.query_tokens) > absorbed_limit(shape)) {
      return mla_prefill_cost(shape, shape_.query_tokens, start, dtype_, DType::kU8);
    }
    Cost cost;
    for (std::int64_t i = 0; i < shape_.query_tokens; ++i) {
      Cost row = mla_decode_cost(shape, start + i, dtype_, DType::kU8);
      row.state_bytes -= cost.state_bytes;
      cost += row;
    }
    return cost;
  }

  void attention() {
    const double layers = real(model_.num_attn());
    const MlaShape shape = mla_shape(model_.config.mla);
    const double values = real(shape.num_heads * shape.v_head_dim);
    const double gate = config_.mla.output_gate == OutputGate::kNone ? 0 : values;
    const double outputs = real(shape.num_heads * shape.qk_dim() + shape.cache_width()) + gate +
                           values + 2 * real(config_.mla.q_lora_rank);
    mixer(Part::kAttnProj, attention_parameters(model_), layers, outputs);

    const double parts = real(layout_.attention_tp());
    Cost cost;
    if (sequences_ > 0) {
      const Cost one = decode_attention(shape);
      for (double Cost::*field :
           {&Cost::flops, &Cost::executed_flops, &Cost::activation_bytes, &Cost::state_bytes}) {
        cost.*field += one.*field * real(sequences_);
      }
    }
    if (prompts_ > 0) {
      const Cost one =
          mla_prefill_cost(shape, shape_.prompt_tokens, shape_.prompt_start, dtype_, DType::kU8);
      for (double Cost::*field :
           {&Cost::flops, &Cost::executed_flops, &Cost::activation_bytes, &Cost::state_bytes}) {
        cost.*field += one.*field * real(prompts_);
      }
    }
    cost.activation_bytes /= parts;
    add(Part::kAttnCore, cost, layers, parts);
    add_weights(Part::kAttnCore);
    PartWork& work = at(Part::kAttnCore);
    work.cache_bytes =
        layers * cost.state_bytes * format_bytes(model_.formats.kv) / cache_cuts(model_, layout_);
    work.network = context_parallel(shape) * layers;
  }

  // Queries of dcp ranks' heads gathered, partial outputs and their log sums (f32) exchanged.
  Traffic context_parallel(const MlaShape& shape) const {
    if (layout_.dcp == 1) return {};
    const bool is_gqa = shape.kind == MlaKind::kGqa;
    const double heads = real(shape.num_heads) * real(layout_.dcp) / real(layout_.attention_tp());
    const double query = is_gqa ? real(shape.qk_dim()) : real(shape.cache_width());
    const double partial = is_gqa ? real(shape.v_head_dim) : real(shape.kv_rank);
    const double rows = real(sequences_ * shape_.query_tokens + prompts_ * shape_.prompt_tokens);
    const Group group = {layout_.dcp, hardware_.scale_up_domain};
    Traffic traffic = all_gather(group, rows * heads * query * value_);
    traffic += all_gather(group, rows * heads * (partial + 1) * sizeof(float));
    return traffic;
  }

  void mixes() {
    const std::int64_t rows = layout_.sequence_parallel ? ceil_div(rows_, layout_.tp) : rows_;
    const std::int64_t sublayers = 2 * config_.num_layers;
    for (std::int64_t j = 0; j <= sublayers; ++j) {
      const auto sources = static_cast<int>(mix_sources(config_, j));
      const Cost cost = mix_norm_cost(rows, config_.hidden_size, sources, j > 0, dtype_);
      add(Part::kMix, cost, 1, 1);
      at(Part::kMix).weight_bytes += cost.weight_bytes;
    }
    at(Part::kMix).calls = real(sublayers + 1);
  }

  // Rows of a matrix that is cut `cuts` ways: those of all tensor ranks, where each has its own.
  std::int64_t cut_rows(double cuts) const {
    return rows_ * (layout_.attention_dp && cuts > 1 ? layout_.tp : 1);
  }

  void router_and_latent() {
    const double layers = real(model_.num_moe());
    const MoeConfig& moe = config_.moe;
    const std::int64_t input = moe.router_reads_latent ? moe.latent_size : config_.hidden_size;
    const double router_cuts = weight_cuts(layout_, Part::kRouter);
    add(Part::kRouter,
        route_cost(cut_rows(router_cuts), matrix(moe.num_experts, input),
                   static_cast<int>(moe.experts_per_token), dtype_),
        layers, router_cuts);
    add_weights(Part::kRouter);
    if (moe.latent_size == 0) return;
    const double cuts = weight_cuts(layout_, Part::kLatent);
    const bool splits_rows = layout_.replicate_latent && layout_.sequence_parallel;
    const std::int64_t rows = cut_rows(cuts);
    Cost cost = linear_cost(rows, matrix(moe.latent_size, config_.hidden_size), dtype_);
    cost += linear_cost(rows, matrix(config_.hidden_size, moe.latent_size), dtype_);
    add(Part::kLatent, cost, layers, splits_rows ? real(layout_.tp) : cuts);
    add_weights(Part::kLatent);
  }

  void routed() {
    const double layers = real(model_.num_moe());
    const MoeConfig& moe = config_.moe;
    const bool spread = layout_.ep > 1;
    // Tokens of the ranks that share one set of experts.
    const std::int64_t tokens =
        spread ? shape_.tokens() : rows_ * (layout_.attention_dp ? layout_.tp : 1);
    const double parts = weight_cuts(layout_, Part::kRouted);
    const std::vector<double> chances =
        popularity(workload_.routing, moe.num_experts, moe.experts_per_token);
    const double distinct = distinct_experts(chances, real(tokens));
    const std::int64_t z = model_.expert_width();
    const ExpertWeights expert = {matrix(moe.expert_ffn_size, z), matrix(moe.expert_ffn_size, z),
                                  matrix(z, moe.expert_ffn_size)};
    Cost cost =
        expert_mlp_cost(tokens, static_cast<int>(moe.experts_per_token), distinct, expert, dtype_);
    const double matrices = model_.expert_matrices / 3.0;
    cost.flops *= matrices;
    const double rows = real(tokens * moe.experts_per_token);
    cost.executed_flops =
        rows > 0 ? cost.flops * padded_rows(rows, distinct, tile_rows_) / rows : 0;
    cost.activation_bytes /= real(layout_.ep);
    add(Part::kRouted, cost, layers, parts);
    PartWork& work = at(Part::kRouted);
    work.rows = distinct > 0 ? rows / distinct : 0;
    work.weight_bytes =
        layers * distinct * expert_parameters(model_) * format_bytes(model_.formats.routed) / parts;
    skew(work, chances, rows, distinct);
    route_messages(work, layers);
  }

  void skew(PartWork& work, const std::vector<double>& chances, double rows, double distinct) {
    if (layout_.ep == 1 || rows == 0) return;
    const double ranks = real(layout_.ep);
    work.load_skew = std::max(placement_skew(chances, layout_.ep, layout_.redundant_experts),
                              chance_skew(rows / ranks, layout_.ep));
    // Distinct experts of the fullest rank: the same law for the missed ones, and no more than a
    // rank has.
    const double all = real(config_.moe.num_experts);
    const double mean = distinct / ranks;
    const double spread = chance_skew(mean / std::max(1e-9, 1 - distinct / all), layout_.ep);
    work.weight_skew = std::min(spread, all / distinct);
  }

  // Messages of the routed experts: dispatch and combine where ranks have tokens of their own, else
  // the sum over tensor ranks.
  void route_messages(PartWork& work, double layers) {
    if (!layout_.has_all_to_all()) {
      work.network = ffn_sum() * layers;
      return;
    }
    const std::int64_t cuts = layout_.expert_tp();
    const Group group = {layout_.ep, std::max<std::int64_t>(1, hardware_.scale_up_domain / cuts)};
    AllToAll message;
    message.num_experts = config_.moe.num_experts;
    message.per_token = config_.moe.experts_per_token;
    message.tokens_per_rank = real(shape_.tokens()) / real(layout_.stage_devices()) * real(cuts);
    for (const Format format : {model_.formats.dispatch, model_.formats.combine}) {
      message.row_bytes = real(model_.expert_width()) * format_bytes(format);
      work.network += all_to_all(group, message, workload_.dedup) * layers;
    }
    // Tensor ranks share their rows' results; with shared experts, in their sum.
    const bool has_shared = config_.moe.num_shared_experts > 0;
    if (!has_shared && !layout_.attention_dp) work.network += ffn_sum() * layers;
  }

  // What follows a product cut over tensor ranks: a sum of all rows, or, where each rank has its
  // own sequences, their gathering before and scattering after.
  Traffic ffn_sum() const {
    if (!layout_.attention_dp) return all_reduce(tensor_group(), row_bytes(), switch_adds());
    return all_gather(tensor_group(), row_bytes() * real(layout_.tp)) * 2;
  }

  void gated_mlp(Part part, std::int64_t width, double layers) {
    const std::int64_t rows = rows_ * (layout_.attention_dp ? layout_.tp : 1);
    const WeightView up = matrix(width, config_.hidden_size);
    const WeightView down = matrix(config_.hidden_size, width);
    add(part, glu_mlp_cost(rows, up, up, down, dtype_), layers, real(layout_.tp));
    at(part).rows = real(rows);
    add_weights(part);
  }

  void shared() {
    const double layers = real(model_.num_moe());
    gated_mlp(Part::kShared, config_.moe.shared_ffn_size(), layers);
    if (layout_.has_all_to_all()) at(Part::kShared).network = ffn_sum() * layers;
  }

  void dense() {
    const double layers = real(model_.num_dense());
    gated_mlp(Part::kDense, config_.intermediate_size, layers);
    at(Part::kDense).network = ffn_sum() * layers;
  }

  void pipeline() {
    const std::vector<std::int64_t> begins = stage_begins(config_.num_layers, layout_.pp);
    const double cut = layout_.sequence_parallel ? real(layout_.tp) : 1;
    const bool inside = layout_.devices() <= hardware_.scale_up_domain;
    PartWork& work = at(Part::kPipeline);
    for (std::size_t i = 1; i + 1 < begins.size(); ++i) {
      const double bytes = real(mix_sources(config_, 2 * begins[i])) * row_bytes() / cut;
      work.calls += 1;
      work.network += inside ? Traffic{bytes, 0, 1, 0} : Traffic{0, bytes, 0, 1};
    }
  }

  bool switch_adds() const { return hardware_.in_switch_reduction; }

  const PlanModel& model_;
  const ModelConfig& config_;
  const Hardware& hardware_;
  const Layout& layout_;
  const Workload& workload_;
  const StepShape& shape_;
  DType dtype_;
  double value_;                // bytes of an activation
  std::int64_t sequences_ = 0;  // of one rank
  std::int64_t prompts_ = 0;
  std::int64_t rows_ = 0;
  double width_ = 0;
  double tile_rows_ = 1;
  StepWork work_;
};

}  // namespace

StepWork step_work(const Scenario& scenario, const StepShape& microbatch) {
  return Builder(scenario, microbatch).build();
}

}  // namespace baltoro::plan
