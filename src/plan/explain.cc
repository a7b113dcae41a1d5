#include "plan/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/error.h"
#include "plan/arithmetic.h"
#include "plan/inventory.h"
#include "plan/moe_line.h"
#include "plan/placement.h"

namespace baltoro::plan {
namespace {

struct Text {
  const char* what;
  const char* flops;
  const char* weights;
  const char* cache;
  const char* network;
  const char* source;
};

// In the order of Part. FLOPs and weights are of one layer and the whole model; `cuts` divide them.
constexpr std::array<Text, kNumParts> kTexts = {{
    {"the input embedding: one row a token", "0", "t d w", "", "all-reduce t d a over tp",
     "src/ops/embed.h embed_cost"},
    {"matrices of KDA: q, k, v, decay, beta, gate, output",
     "2 t (2 d P_k + [2 + gate] d P_v + d r + r P_k + d H)", "parameters x w", "",
     "all-reduce t d a after the output matrix", "src/ops/linear.h linear_cost"},
    {"short convolution, decay, delta rule, output norm and gate of KDA",
     "decode t (7 H d_h^2 + 2 W channels); prefill executes H (6 d_h^2 + 3 C d_h + C^2), C = 64",
     "W channels w", "2 B (H d_h^2 w_state + 3 channels w_conv)", "",
     "src/ops/kda.h kda_mix_cost; Kimi Linear report eq. 13; scan: fit to FlashKDA's runs"},
    {"matrices of MLA (or GQA): queries, latent, gate, output",
     "2 t (d r_q + r_q H (d_n + s) + d (c + s) + [gate] d H d_v + H d_v d)", "parameters x w", "",
     "all-reduce t d a after the output matrix", "src/ops/linear.h linear_cost"},
    {"attention over the cache, with its up-projection",
     "decode 2 B (H c (d_n + d_v) + S H (2 c + s)); prefill causal pairs x 2 H (d_n + s + d_v)",
     "H c (d_n + d_v) w", "B S (c + s) w_kv, whole on every tp rank unless dcp cuts it",
     "dcp: queries gathered, partial outputs exchanged",
     "src/ops/mla.h mla_decode_cost, mla_prefill_cost"},
    {"residual adds, Attention Residuals and norms between sub-layers",
     "t d (4 + 4 n_src + 1) a mix; n_src = 1 + floor(j / R) + (j mod R > 0)", "3 d x 4 B a mix", "",
     "", "src/ops/mix_norm.h mix_norm_cost; activations t d a (n_src + 3) a mix"},
    {"the router, which reads the model's width", "2 t d N", "d N w", "", "",
     "src/ops/route.h route_cost"},
    {"projections to and from the latent of the routed experts", "4 t d l", "2 d l w", "", "",
     "src/ops/linear.h linear_cost; K3 has them whole on every tp rank unless replicate=none"},
    {"routed experts", "2 M t K l m, M matrices an expert",
     "D(t) M l m w; D(t) = sum_i (1 - (1 - p_i)^t), uniform N (1 - (1 - K/N)^t)", "",
     "ep with tokens of their own: (t/E) K l (b_d + b_c) (E-1)/E; else all-reduce t d a",
     "src/ops/expert_mlp.h expert_mlp_cost; an expert is missed by a token with chance 1 - p_i"},
    {"shared experts", "6 t d m n_s", "3 d m n_s w", "", "with an all-to-all: gather and scatter",
     "src/ops/glu_mlp.h glu_mlp_cost"},
    {"dense FFN of the first layers", "6 t d ff", "3 d ff w", "", "all-reduce t d a",
     "src/ops/glu_mlp.h glu_mlp_cost"},
    {"the head, one row of each sequence (all rows in verify)", "2 rows d V", "d V w", "",
     "the largest logit of each rank", "src/ops/head.h head_cost"},
    {"sends between pipeline stages", "0", "0", "",
     "n_src(2 layers done) t d a: the sources of Attention Residuals travel along",
     "n_src as of mix; Megatron-Bridge 5130 saw 4 and 7 rows"},
    {"fixed time beside the roofline: launches and their order", "0", "0", "", "",
     "layers x the machine's layer_seconds"},
}};

std::string cut_text(const Scenario& scenario, Part part) {
  const double cuts = weight_cuts(scenario.layout, part);
  return cuts > 1 ? fmt::format(" / {:g} ranks", cuts) : std::string();
}

std::string layers_text(double layers) {
  return layers > 1 ? fmt::format(" x {:g} layers", layers) : std::string();
}

// Attention and KDA by their own laws, products as 2 x rows x parameters.
std::string flop_numbers(const Scenario& scenario, const Step& step, Part part) {
  const PlanModel& model = scenario.model;
  const PartWork& work = step.work_of(part);
  const StepShape shape = microbatch_of(step.shape, scenario.layout).shape;
  const std::string end = fmt::format("{}{} = {}FLOP", layers_text(work.calls),
                                      cut_text(scenario, part), with_prefix(work.flops));
  if (part == Part::kRouted) {
    const double rows = work.flops * weight_cuts(scenario.layout, part) / work.calls /
                        (2 * expert_parameters(model));
    const std::int64_t k = model.config.moe.experts_per_token;
    return fmt::format("2 x {} matrices x {:.6g} tokens x {} x {} x {}{}", model.expert_matrices,
                       rows / real(k), k, model.expert_width(), model.config.moe.expert_ffn_size,
                       end);
  }
  if (part == Part::kKdaState) {
    const KdaShape kda = kda_shape(model.config.kda);
    return fmt::format("{:.6g} tokens x (7 x {} heads x {} x {} + 2 x {} x {} channels){}",
                       work.rows, kda.num_heads, kda.head_dim_k, kda.head_dim_v, kda.conv_width,
                       kda.conv_channels(), end);
  }
  if (part == Part::kAttnCore) {
    const MlaShape mla = mla_shape(model.config.mla);
    if (mla.kind == MlaKind::kLatent && shape.prompts == 0 && shape.query_tokens == 1) {
      const std::int64_t groups = scenario.layout.attention_groups();
      return fmt::format("2 x {} x {} x ({} x ({} + {}) + {} x (2 x {} + {})){}",
                         ceil_div(shape.sequences, groups), mla.num_heads, mla.kv_rank,
                         mla.nope_dim, mla.v_head_dim, shape.context, mla.kv_rank, mla.rope_dim,
                         end);
    }
    return fmt::format(
        "{} sequences of {} rows at {} tokens, {} prompts of {} rows after {}; "
        "{} heads, c {}, s {}, d_n {}, d_v {}{}",
        shape.sequences, shape.query_tokens, shape.context, shape.prompts, shape.prompt_tokens,
        shape.prompt_start, mla.num_heads, mla.kv_rank, mla.rope_dim, mla.nope_dim, mla.v_head_dim,
        end);
  }
  if (part == Part::kMix) {
    return fmt::format("{:.6g} rows x {} in {:g} mixes = {}FLOP", work.rows,
                       model.config.hidden_size, work.calls, with_prefix(work.flops));
  }
  return fmt::format("2 x {:.6g} rows x {} parameters{} = {}FLOP", work.rows,
                     with_prefix(part_parameters(model, part)), cut_text(scenario, part),
                     with_prefix(work.flops));
}

std::string weight_numbers(const Scenario& scenario, const Step& step, Part part) {
  const PlanModel& model = scenario.model;
  const PartWork& work = step.work_of(part);
  const double bytes = format_bytes(part_format(model.formats, part));
  const std::string result = fmt::format("{}B", with_prefix(work.weight_bytes));
  if (part == Part::kRouted) {
    const double distinct = work.weight_bytes * weight_cuts(scenario.layout, part) /
                            (real(model.num_moe()) * expert_parameters(model) * bytes);
    return fmt::format("D = {:.4g}: {:.4g} x {} x {} x {} x {:g} B{}{} = {}", distinct, distinct,
                       model.expert_matrices, model.expert_width(),
                       model.config.moe.expert_ffn_size, bytes, layers_text(work.calls),
                       cut_text(scenario, part), result);
  }
  const double parameters = part_parameters(model, part);
  if (part == Part::kEmbed || part == Part::kMix || parameters == 0) return result;
  return fmt::format("{} parameters x {:g} B{} = {}", with_prefix(parameters), bytes,
                     cut_text(scenario, part), result);
}

std::string cache_numbers(const Scenario& scenario, const Step& step, Part part) {
  const PlanModel& model = scenario.model;
  const PartWork& work = step.work_of(part);
  const std::string result = fmt::format("{}B", with_prefix(work.cache_bytes));
  if (part == Part::kKdaState) {
    return fmt::format("2 x ({}B state + {}B conv a sequence), at this device's share = {}",
                       with_prefix(state_bytes_per_sequence(model)),
                       with_prefix(conv_bytes_per_sequence(model)), result);
  }
  return fmt::format("{:g} B a token of all layers{} = {}", cache_bytes_per_token(model),
                     cache_cuts(model, scenario.layout) > 1
                         ? fmt::format(" / {:g} ranks", cache_cuts(model, scenario.layout))
                         : std::string(),
                     result);
}

std::string time_numbers(const Scenario& scenario, const PartTime& time) {
  std::string text;
  const auto add = [&](const char* name, double seconds) {
    if (seconds <= 0) return;
    text += fmt::format("{}{} {}s", text.empty() ? "" : ", ", name, with_prefix(seconds));
  };
  add("compute", time.compute);
  add("HBM", time.memory);
  add("scan", time.scan);
  add("fixed", time.fixed);
  add("net", time.network);
  add("of it hidden", time.hidden);
  return fmt::format("{} = {}s, bound by {} ({})", text.empty() ? "nothing" : text,
                     with_prefix(time.seconds()), bound_name(time.bound),
                     efficiency_name(scenario.efficiency.kind));
}

}  // namespace

std::string with_prefix(double value) {
  if (value == 0) return "0 ";
  constexpr std::array kPrefixes = {"n", "u", "m", "", "k", "M", "G", "T", "P", "E"};
  const int power =
      std::clamp(static_cast<int>(std::floor(std::log10(std::abs(value)) / 3)), -3, 6);
  return fmt::format("{:.3g} {}", value / std::pow(1000.0, power),
                     kPrefixes[static_cast<std::size_t>(power + 3)]);
}

Explanation explain(const Scenario& scenario, const Step& step, Part part) {
  if (scenario.layout.experts_on_host) {
    fail(ErrorCode::kUsage, "experts=host has no step to explain; the rule is experts=gpu");
  }
  const Text& text = kTexts[index_of(part)];
  const PartWork& work = step.work_of(part);
  if (work.bytes() == 0 && step.time_of(part).seconds() == 0) {
    fail(ErrorCode::kUsage, "{} in this layout has no {}", scenario.model.name, part_name(part));
  }
  Explanation result{part, text.what, {}, text.source};
  const MmaPath path = mma_path(scenario.hardware, part_format(scenario.model.formats, part));
  if (work.flops > 0) {
    result.terms.push_back({"FLOPs", text.flops, flop_numbers(scenario, step, part)});
  }
  if (work.weight_bytes > 0) {
    result.terms.push_back({"weight bytes", text.weights, weight_numbers(scenario, step, part)});
  }
  if (work.cache_bytes > 0) {
    result.terms.push_back({"cache bytes", text.cache, cache_numbers(scenario, step, part)});
  }
  if (work.activation_bytes > 0) {
    result.terms.push_back({"activation bytes", "inputs read once, outputs written once",
                            with_prefix(work.activation_bytes) + "B"});
  }
  if (work.network.bytes() > 0) {
    result.terms.push_back(
        {"network bytes", text.network,
         fmt::format("{}B inside of the domain, {}B out of it", with_prefix(work.network.inside),
                     with_prefix(work.network.outside))});
  }
  if (work.flops > 0 && part != Part::kKdaState && part != Part::kAttnCore && part != Part::kMix) {
    result.terms.push_back({"products", path.reason,
                            fmt::format("{} at {}FLOP/s", path.name, with_prefix(path.flops))});
  }
  result.terms.push_back({"time", "max(FLOPs / F, bytes / B, scan) + fixed + net - hidden",
                          time_numbers(scenario, step.time_of(part))});
  return result;
}

}  // namespace baltoro::plan
