#include "plan/compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "plan/arithmetic.h"
#include "plan/inventory.h"
#include "plan/moe_line.h"

namespace baltoro::plan {
namespace {

using Factors = std::vector<std::pair<std::string, double>>;

double layers_with(const PlanModel& model, Part part) {
  switch (part) {
    case Part::kKdaProj:
    case Part::kKdaState:
      return real(model.num_kda());
    case Part::kAttnProj:
    case Part::kAttnCore:
      return real(model.num_attn());
    case Part::kRouter:
    case Part::kLatent:
    case Part::kRouted:
    case Part::kShared:
      return real(model.num_moe());
    case Part::kDense:
      return real(model.num_dense());
    default:
      return 1;
  }
}

// Sizes whose product is the number of parameters of one layer that a step meets; of mixers the
// number itself.
Factors sizes_of(const Evaluated& point, Part part) {
  const PlanModel& model = point.scenario.model;
  const ModelConfig& config = model.config;
  const double d = real(config.hidden_size);
  switch (part) {
    case Part::kRouted:
      return {{"experts met", compute_moe_line(point.scenario, point.totals.step).distinct},
              {"matrices", model.expert_matrices},
              {"l", real(model.expert_width())},
              {"m", real(config.moe.expert_ffn_size)}};
    case Part::kShared:
      return {{"n_s", real(config.moe.num_shared_experts)},
              {"m", real(config.moe.expert_ffn_size)},
              {"d", d}};
    case Part::kLatent:
      return {{"l", real(config.moe.latent_size)}, {"d", d}};
    case Part::kRouter:
      return {{"N", real(config.moe.num_experts)}, {"d", d}};
    case Part::kDense:
      return {{"ff", real(config.intermediate_size)}, {"d", d}};
    case Part::kHead:
    case Part::kEmbed:
      return {{"V", real(config.vocab_size)}, {"d", d}};
    case Part::kKdaProj:
      return {{"parameters a layer", kda_parameters(model).projections}};
    case Part::kAttnProj:
      return {{"parameters a layer", attention_parameters(model).projections}};
    case Part::kAttnCore:
      return {{"parameters a layer", attention_parameters(model).core}};
    default:
      return {};
  }
}

// What is known of an amount of one side; explain_change adds what is left, the share of a device.
Factors factors_of(const Evaluated& point, Part part, WorkKind kind) {
  const PlanModel& model = point.scenario.model;
  const StepShape& shape = point.totals.step.shape;
  Factors factors = {{"layers", layers_with(model, part)}};
  const auto add = [&](const Factors& more) {
    factors.insert(factors.end(), more.begin(), more.end());
  };
  if (kind == WorkKind::kWeights) {
    add(sizes_of(point, part));
    add({{"B a weight", format_bytes(part_format(model.formats, part))}});
  } else if (kind == WorkKind::kCache && part == Part::kAttnCore) {
    add({{"sequences", real(shape.sequences + shape.prompts)},
         {"tokens each", real(std::max(shape.context, shape.prompt_start + shape.prompt_tokens))},
         {"values a token", real(model.config.mla.cache_width())},
         {"B a value", format_bytes(model.formats.kv)}});
  } else if (kind == WorkKind::kCache) {
    add({{"sequences", real(shape.sequences + shape.prompts)},
         {"B of state a layer", (state_bytes_per_sequence(model) + conv_bytes_per_sequence(model)) /
                                    layers_with(model, part)}});
  } else if (kind == WorkKind::kActivations || kind == WorkKind::kNetwork) {
    if (part != Part::kMix) add({{"tokens", real(shape.tokens())}});
    add({{"d", real(model.config.hidden_size)}});
  } else if (kind == WorkKind::kFlops) {
    add({{"tokens", real(shape.tokens())}});
    if (part == Part::kRouted) {
      add({{"K", real(model.config.moe.experts_per_token)},
           {"l", real(model.expert_width())},
           {"m", real(model.config.moe.expert_ffn_size)}});
    } else if (part != Part::kAttnCore && part != Part::kKdaState) {
      add(sizes_of(point, part));
    }
  } else if (kind == WorkKind::kFixed) {
    factors = {{"layers", real(model.config.num_layers)}};
  }
  return factors;
}

// What all factors but those of factors_of are together.
const char* rest_name(Part part, WorkKind kind) {
  if (kind == WorkKind::kFixed || kind == WorkKind::kScan) return "s a layer";
  return part == Part::kMix ? "rows moved" : "share of a device";
}

// What changes the part's time most.
WorkKind changed_work(const Step& a, const Step& b, Part part) {
  const PartTime& before = a.time_of(part);
  const PartTime& after = b.time_of(part);
  if (std::abs(after.seconds() - before.seconds()) <= 1e-3 * std::min(a.seconds(), b.seconds())) {
    return WorkKind::kNothing;
  }
  const double network = after.network - after.hidden - before.network + before.hidden;
  const double kernel = after.kernel() - before.kernel();
  const double fixed = after.fixed - before.fixed;
  if (std::abs(network) > std::abs(kernel)) return WorkKind::kNetwork;
  if (std::abs(fixed) > std::abs(kernel) / 2) return WorkKind::kFixed;
  const PartTime& slower = kernel > 0 ? after : before;
  if (slower.scan >= std::max(slower.compute, slower.memory)) return WorkKind::kScan;
  if (slower.compute >= slower.memory) return WorkKind::kFlops;
  constexpr std::array kBytes = {WorkKind::kWeights, WorkKind::kCache, WorkKind::kActivations};
  const auto change = [&](WorkKind kind) {
    return std::abs(amount(b, part, kind) - amount(a, part, kind));
  };
  const auto size = [&](WorkKind kind) { return amount(a, part, kind) + amount(b, part, kind); };
  return *std::max_element(kBytes.begin(), kBytes.end(), [&](WorkKind x, WorkKind y) {
    return std::pair(change(x), size(x)) < std::pair(change(y), size(y));
  });
}

PartChange explain_change(const Comparison& c, Part part) {
  PartChange change;
  change.part = part;
  const Step& a = c.a.totals.step;
  const Step& b = c.b.totals.step;
  change.kind = changed_work(a, b, part);
  const double before_amount = amount(a, part, change.kind);
  const double after_amount = amount(b, part, change.kind);
  if (before_amount == 0 || after_amount == 0) return change;
  const Factors left = factors_of(c.a, part, change.kind);
  const Factors right = factors_of(c.b, part, change.kind);
  double known = after_amount / before_amount;
  for (std::size_t i = 0; i < left.size(); ++i) {
    const Factor factor = {left[i].first, left[i].second, right[i].second};
    if (factor.before == factor.after) continue;
    known /= factor.ratio();
    change.factors.push_back(factor);
  }
  if (std::abs(known - 1) > 1e-6) {
    change.factors.push_back({rest_name(part, change.kind), 1, known});
  }
  return change;
}

// Bytes a second of the part's kernels, FLOPs a second or bytes a second of its messages.
double rate_of(const Step& step, const PartChange& change) {
  const PartTime& time = step.time_of(change.part);
  const double seconds = change.kind == WorkKind::kNetwork ? time.network : time.kernel();
  const bool bytes = change.kind == WorkKind::kWeights || change.kind == WorkKind::kCache ||
                     change.kind == WorkKind::kActivations;
  const double work =
      bytes ? step.work_of(change.part).bytes() : amount(step, change.part, change.kind);
  return seconds > 0 ? work / seconds : 0;
}

std::string number(double value) {
  return value >= 1e6 ? fmt::format("{:.4g} M", value / 1e6) : fmt::format("{:.4g}", value);
}

}  // namespace

const char* work_kind_name(WorkKind kind) {
  constexpr std::array kNames = {"nothing", "weights", "cache",   "activations",
                                 "FLOPs",   "scan",    "network", "fixed time"};
  return kNames.at(static_cast<std::size_t>(kind));
}

double amount(const Step& step, Part part, WorkKind kind) {
  const PartWork& work = step.work_of(part);
  switch (kind) {
    case WorkKind::kNothing:
      return 0;
    case WorkKind::kWeights:
      return work.weight_bytes;
    case WorkKind::kCache:
      return work.cache_bytes;
    case WorkKind::kActivations:
      return work.activation_bytes;
    case WorkKind::kFlops:
      return work.flops;
    case WorkKind::kScan:
      return step.time_of(part).scan;
    case WorkKind::kNetwork:
      return work.network.bytes();
    case WorkKind::kFixed:
      return step.time_of(part).fixed;
  }
  return 0;
}

Comparison compare(const Scenario& a, const Scenario& b) {
  Comparison result{evaluate(a), evaluate(b), changes_between(a, b), {}};
  const auto seconds = [&](const Evaluated& point, Part part) {
    return point.totals.step.time_of(part).seconds();
  };
  for (const Part part : kAllParts) {
    if (seconds(result.a, part) + seconds(result.b, part) <= 0) continue;
    result.parts.push_back(explain_change(result, part));
  }
  const auto size = [&](const PartChange& change) {
    return std::abs(seconds(result.b, change.part) - seconds(result.a, change.part));
  };
  std::stable_sort(result.parts.begin(), result.parts.end(),
                   [&](const PartChange& x, const PartChange& y) { return size(x) > size(y); });
  return result;
}

std::string why(const Comparison& c, const PartChange& change) {
  const Step& a = c.a.totals.step;
  const Step& b = c.b.totals.step;
  if (change.kind == WorkKind::kNothing) return {};
  const double before = amount(a, change.part, change.kind);
  const double after = amount(b, change.part, change.kind);
  if (before == 0 || after == 0) {
    return fmt::format("{} only in {}", work_kind_name(change.kind), before == 0 ? "B" : "A");
  }
  std::vector<std::string> words;
  for (const Factor& factor : change.factors) {
    words.push_back(
        factor.before == 1 && std::string_view(factor.name) == rest_name(change.part, change.kind)
            ? fmt::format("{} x {:.3g}", factor.name, factor.after)
            : fmt::format("{} {} -> {}", factor.name, number(factor.before), number(factor.after)));
  }
  std::string text = fmt::format("{} x {:.3g}", work_kind_name(change.kind), after / before);
  if (!words.empty()) text += fmt::format(": {}", fmt::join(words, ", "));
  const bool is_work = change.kind != WorkKind::kFixed && change.kind != WorkKind::kScan;
  const double faster = rate_of(b, change) / rate_of(a, change);
  if (is_work && std::abs(faster - 1) > 0.02) {
    text += fmt::format("; {} a second x {:.3g}",
                        change.kind == WorkKind::kFlops ? "FLOPs" : "bytes", faster);
  }
  return text;
}

}  // namespace baltoro::plan
