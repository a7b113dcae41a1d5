#include "plan/knees.h"

#include <fmt/format.h>

#include <limits>

#include "plan/arithmetic.h"
#include "plan/inventory.h"
#include "plan/knee_formulas.h"
#include "plan/moe_line.h"

namespace baltoro::plan {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

double ratio(double a, double b) { return b > 0 ? a / b : kNever; }

void add_expert_knees(const Scenario& scenario, std::vector<Knee>& knees) {
  const Step step = compute_step(scenario, decode_step(1, scenario.workload.context));
  const MoeLine line = compute_moe_line(scenario, step);
  knees.push_back({"expert_rows", line.knee_rows, "rows",
                   "of an expert above which its products are bound by FLOPs",
                   "tau* = w F / (2 B)"});
  knees.push_back({"expert_tokens", line.knee_tokens, "tokens",
                   "of a step above which routed experts are bound by FLOPs", "t* = tau* N / K"});
  const LinkRates links = link_rates(scenario.hardware, scenario.efficiency);
  double first = kNever;
  const double reach = links.outside > 0
                           ? real(scenario.model.config.moe.num_experts)
                           : (links.inside > 0 ? scenario.hardware.scale_up_domain : 1);
  for (std::int64_t ranks = 2; real(ranks) <= reach && first == kNever; ranks *= 2) {
    if (full_ratio(scenario, ranks) > 1) first = real(ranks);
  }
  knees.push_back({"expert_ranks", first, "ranks",
                   "of experts from which messages cannot hide behind their products",
                   "T_a2a(E) > T_compute, above t*"});
}

// The tensor ranks with the shortest decode step, of one stage.
double best_tensor_ranks(const Scenario& scenario) {
  Scenario trial = scenario;
  trial.layout = Layout();
  trial.layout.replicate_latent = scenario.layout.replicate_latent;
  const ModelConfig& config = scenario.model.config;
  const LinkRates links = link_rates(scenario.hardware, scenario.efficiency);
  const std::int64_t most = links.outside > 0  ? 256
                            : links.inside > 0 ? scenario.hardware.scale_up_domain
                                               : 1;
  double best = 1;
  double shortest = kNever;
  for (std::int64_t tp = 1; tp <= most; ++tp) {
    if ((scenario.model.num_kda() > 0 && config.kda.num_heads % tp != 0) ||
        (scenario.model.num_attn() > 0 && config.mla.num_heads % tp != 0)) {
      continue;
    }
    trial.layout.tp = tp;
    const StepShape shape = decode_step(scenario.workload.batch, scenario.workload.context);
    const double seconds = compute_step(trial, shape).seconds();
    if (seconds < shortest) {
      shortest = seconds;
      best = real(tp);
    }
  }
  return best;
}

// The shortest prompt of one sequence whose serial scan takes less than all else.
double scan_prompt(const Scenario& scenario) {
  const auto scan_binds = [&](std::int64_t tokens) {
    const Step step = compute_step(scenario, prefill_step(1, tokens, 0));
    const double scan = step.time_of(Part::kKdaState).scan;
    return 2 * scan > step.seconds();
  };
  std::int64_t low = 64;
  std::int64_t high = std::int64_t{1} << 24;
  if (!scan_binds(low) && !scan_binds(8192)) return 0;
  if (scan_binds(high)) return kNever;
  while (high - low > 64) {
    const std::int64_t middle = (low + high) / 2;
    (scan_binds(middle) ? low : high) = middle;
  }
  return real(high);
}

}  // namespace

double state_over_weights_batch(const PlanModel& model) {
  return ratio(rest_bytes(model),
               2 * (state_bytes_per_sequence(model) + conv_bytes_per_sequence(model)));
}

double cache_over_state_context(const PlanModel& model) {
  return ratio(2 * (state_bytes_per_sequence(model) + conv_bytes_per_sequence(model)),
               cache_bytes_per_token(model));
}

double cache_over_state_memory(const PlanModel& model) {
  return ratio(state_bytes_per_sequence(model) + conv_bytes_per_sequence(model),
               cache_bytes_per_token(model));
}

double attention_over_rest_context(const PlanModel& model) {
  if (model.num_attn() == 0) return kNever;
  const MlaShape shape = mla_shape(model.config.mla);
  const auto core = [&](std::int64_t start) {
    return mla_decode_cost(shape, start, DType::kBf16, DType::kU8).flops;
  };
  const double slope = real(model.num_attn()) * (core(1) - core(0));
  double rest = 2 * active_parameters(model);
  if (model.num_kda() > 0) {
    rest +=
        real(model.num_kda()) * kda_mix_cost(kda_shape(model.config.kda), 1, 1, DType::kBf16).flops;
  }
  return rest / slope;
}

std::vector<Knee> find_knees(const Scenario& scenario) {
  const PlanModel& model = scenario.model;
  std::vector<Knee> knees;
  if (model.num_moe() > 0) add_expert_knees(scenario, knees);
  if (model.num_kda() > 0) {
    knees.push_back({"state_batch", state_over_weights_batch(model), "sequences",
                     "above which KDA state moves more bytes than weights but experts",
                     "rest / (2 (state + conv))"});
  }
  if (model.num_kda() > 0 && model.num_attn() > 0) {
    knees.push_back({"cache_context", cache_over_state_context(model), "tokens",
                     "of context above which the cache moves more bytes than KDA state",
                     "2 (state + conv) / cache a token"});
    knees.push_back({"cache_memory", cache_over_state_memory(model), "tokens",
                     "of context above which the cache takes more memory than KDA state",
                     "(state + conv) / cache a token"});
  }
  if (model.num_attn() > 0) {
    knees.push_back({"attention_context", attention_over_rest_context(model), "tokens",
                     "of context above which attention has more FLOPs than all else",
                     "(2 active + KDA) / (FLOPs of one more cached token)"});
    knees.push_back({"verify_length", absorbed_limit(mla_shape(model.config.mla)), "tokens",
                     "of one sequence to verify above which expanded attention is less work",
                     "c (d_n + d_v) / ((2 c + s) - (d_n + s + d_v))"});
  }
  knees.push_back({"tensor_ranks", best_tensor_ranks(scenario), "ranks",
                   "(tp) beyond which a decode step gets no shorter", "least step time over tp"});
  if (model.num_kda() > 0 && scenario.hardware.scan_chunk_seconds) {
    const double tokens = scan_prompt(scenario);
    knees.push_back({"scan_prompt", tokens, "tokens",
                     tokens > 0 ? "of prompt above which the serial scan is below half of its time"
                                : "prompt: its serial scan takes less than half of its time",
                     "layers ceil(T/64) tau_c = all other parts"});
  }
  return knees;
}

}  // namespace baltoro::plan
