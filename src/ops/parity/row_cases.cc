// Cases of the ops that treat every row alike: embed, linear, head, mix_norm, glu_mlp, route,
// expert_mlp.
#include <algorithm>
#include <limits>

#include "core/error.h"
#include "ops/embed.h"
#include "ops/head.h"
#include "ops/linear.h"
#include "ops/mix_norm.h"
#include "ops/parity/cases.h"
#include "ops/route.h"

namespace baltoro {
namespace {

constexpr std::uint64_t kSeed = 20;

const char* activation_name(ActivationKind kind) {
  return kind == ActivationKind::kSitu ? "situ" : "swiglu";
}

Activation activation_of(ActivationKind kind) {
  return kind == ActivationKind::kSitu ? Activation{kind, 4, 25} : Activation{kind, 0, 0};
}

std::vector<float> values(const char* name, std::int64_t n, float scale = 1) {
  return random_values(kSeed, name, n, scale);
}

// Small weights for the norms' vectors, around 1.
std::vector<float> norm_values(const char* name, std::int64_t n) {
  std::vector<float> out = values(name, n, 0.3f);
  for (float& value : out) value += 1;
  return out;
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace

OpCase make_case(const EmbedCase& spec) {
  const auto prepare = [spec](Backend& backend) {
    auto memory = std::make_unique<OpMemory>(backend);
    std::vector<std::int32_t> ids;
    for (std::int64_t r = 0; r < spec.rows; ++r) {
      ids.push_back(static_cast<std::int32_t>((spec.vocab - 1 - 7 * r % spec.vocab)));
    }
    EmbedArgs args;
    args.table = memory->weight(kSeed, "table", spec.format, spec.vocab, spec.hidden);
    args.out = memory->output("out", spec.rows, spec.hidden);
    const Cost cost = embed_cost(spec.rows, spec.hidden, spec.format, backend.activation_dtype());
    auto call = [&backend, args, ids]() mutable {
      args.ids = ids;
      embed(backend, args);
    };
    return PreparedOp(std::move(memory), call, cost);
  };
  return {"embed",
          fmt::format("{} M={} V={} D={}", weight_format_name(spec.format), spec.rows, spec.vocab,
                      spec.hidden),
          prepare};
}

OpCase make_case(const LinearCase& spec) {
  const auto prepare = [spec](Backend& backend) {
    auto memory = std::make_unique<OpMemory>(backend);
    if (spec.aligned) memory->align_weights();
    LinearArgs args;
    args.x = memory->input("x", values("x", spec.rows * spec.cols), spec.cols);
    Cost cost;
    for (std::size_t i = 0; i < spec.outputs.size(); ++i) {
      const std::string suffix = std::to_string(i);
      const WeightView weight =
          memory->weight(kSeed, "weight" + suffix, spec.format, spec.outputs[i], spec.cols);
      args.add(weight, memory->output("out" + suffix, spec.rows, spec.outputs[i]));
      cost += linear_cost(spec.rows, weight, backend.activation_dtype());
    }
    return PreparedOp(
        std::move(memory), [&backend, args] { linear(backend, args); }, cost);
  };
  return {"linear",
          fmt::format("{} M={} K={} N={}{}", weight_format_name(spec.format), spec.rows, spec.cols,
                      fmt::join(spec.outputs, "+"), spec.aligned ? " aligned" : ""),
          prepare};
}

OpCase make_case(const HeadCase& spec) {
  const auto prepare = [spec](Backend& backend) {
    auto memory = std::make_unique<OpMemory>(backend);
    if (spec.aligned) memory->align_weights();
    HeadArgs args;
    args.x = memory->input("x", values("x", spec.batch_rows * spec.hidden), spec.hidden);
    args.weight = memory->weight(kSeed, "weight", spec.format, spec.vocab, spec.hidden);
    const auto count = static_cast<std::int64_t>(spec.rows.size());
    const std::vector<float> poison(static_cast<std::size_t>(count * spec.vocab), kNan);
    args.logits = memory->state_f32("logits", poison);
    const Cost cost = head_cost(count, args.weight, backend.activation_dtype());
    auto call = [&backend, args, rows = spec.rows]() mutable {
      args.rows = rows;
      head(backend, args);
    };
    return PreparedOp(std::move(memory), call, cost);
  };
  return {
      "head",
      fmt::format("{} {} of {} rows D={} V={}{}", weight_format_name(spec.format), spec.rows.size(),
                  spec.batch_rows, spec.hidden, spec.vocab, spec.aligned ? " aligned" : ""),
      prepare};
}

OpCase make_case(const MixNormCase& spec) {
  const auto prepare = [spec](Backend& backend) {
    auto memory = std::make_unique<OpMemory>(backend);
    const std::int64_t n = spec.rows * spec.hidden;
    MixNormArgs args;
    std::vector<ConstTensorView> bank;
    for (int i = 0; i < spec.banked; ++i) {
      const std::string name = "source" + std::to_string(i);
      bank.push_back(memory->input(name, values(name.c_str(), n, 2), spec.hidden));
    }
    std::vector<float> prefix = values("prefix", n);
    std::vector<float> delta = values("delta", n, 0.5f);
    if (spec.non_finite_row) (spec.delta ? delta : prefix)[0] = kNan;
    args.prefix = memory->in_out("prefix", prefix, spec.hidden);
    if (spec.delta) args.delta = memory->input("delta", delta, spec.hidden);
    args.res_norm = memory->input_f32("res_norm", norm_values("res_norm", spec.hidden));
    args.res_proj = memory->input_f32("res_proj", values("res_proj", spec.hidden, 0.4f));
    args.norm = memory->input_f32("norm", norm_values("norm", spec.hidden));
    args.mix_eps = 1e-5f;
    args.norm_eps = 1e-5f;
    args.out = memory->output("out", spec.rows, spec.hidden);
    std::vector<std::int32_t> first_bad(static_cast<std::size_t>(spec.rows), -1);
    first_bad.back() = 3;
    args.first_bad = memory->state_i32("first_bad", first_bad);
    args.bad_tag = 7;
    const Cost cost = mix_norm_cost(spec.rows, spec.hidden, spec.banked + 1, spec.delta,
                                    backend.activation_dtype());
    auto call = [&backend, args, bank]() mutable {
      args.bank = bank;
      mix_norm(backend, args);
    };
    return PreparedOp(std::move(memory), call, cost);
  };
  return {"mix_norm",
          fmt::format("M={} D={} bank {}{}{}", spec.rows, spec.hidden, spec.banked,
                      spec.delta ? " delta" : "", spec.non_finite_row ? " non-finite" : ""),
          prepare};
}

OpCase make_case(const GluCase& spec) {
  const auto prepare = [spec](Backend& backend) {
    auto memory = std::make_unique<OpMemory>(backend);
    if (spec.aligned) memory->align_weights();
    GluMlpArgs args;
    args.x = memory->input("x", values("x", spec.rows * spec.hidden, 2), spec.hidden);
    args.gate = memory->weight(kSeed, "gate", spec.format, spec.inner, spec.hidden, 3);
    args.up = memory->weight(kSeed, "up", spec.format, spec.inner, spec.hidden, 3);
    args.down = memory->weight(kSeed, "down", spec.format, spec.hidden, spec.inner);
    args.activation = activation_of(spec.kind);
    const std::vector<float> add = values("add", spec.rows * spec.hidden);
    if (spec.add) {
      // The documented alias: out accumulates in place.
      args.out = memory->in_out("out", add, spec.hidden);
      args.add = args.out;
    } else {
      args.out = memory->output("out", spec.rows, spec.hidden);
    }
    const Cost cost =
        glu_mlp_cost(spec.rows, args.gate, args.up, args.down, backend.activation_dtype());
    return PreparedOp(
        std::move(memory), [&backend, args] { glu_mlp(backend, args); }, cost);
  };
  return {"glu_mlp",
          fmt::format("{} {} M={} D={} F={}{}{}", weight_format_name(spec.format),
                      activation_name(spec.kind), spec.rows, spec.hidden, spec.inner,
                      spec.add ? " add" : "", spec.aligned ? " aligned" : ""),
          prepare};
}

OpCase make_case(const RouteCase& spec) {
  const auto prepare = [spec](Backend& backend) {
    auto memory = std::make_unique<OpMemory>(backend);
    RouteArgs args;
    std::vector<float> x = values("x", spec.rows * spec.hidden, 2);
    if (spec.nan_row) x.back() = kNan;
    args.x = memory->input("x", x, spec.hidden);
    args.weight =
        memory->weight(kSeed, "weight", WeightFormat::kBf16, spec.experts, spec.hidden, 2);
    std::vector<float> bias = values("bias", spec.experts, 0.2f);
    if (spec.equal_scores) {
      const std::vector<float> zeros(static_cast<std::size_t>(spec.experts * spec.hidden), 0.0f);
      args.weight.format = WeightFormat::kF32;
      args.weight.data = memory->input_f32("equal weight", zeros);
      std::fill(bias.begin(), bias.end(), 0.0f);
    }
    args.bias = memory->input_f32("bias", bias);
    args.top_k = spec.top_k;
    args.renormalize = spec.renormalize;
    args.scale = 2.446f;
    const auto chosen = static_cast<std::size_t>(spec.rows * spec.top_k);
    args.ids = memory->state_i32("ids", std::vector<std::int32_t>(chosen, -1));
    args.weights = memory->state_f32("weights", std::vector<float>(chosen, kNan));
    const Cost cost = route_cost(spec.rows, args.weight, spec.top_k, backend.activation_dtype());
    return PreparedOp(
        std::move(memory), [&backend, args] { route(backend, args); }, cost);
  };
  return {"route",
          fmt::format("M={} K={} top {} of {}{}{}{}", spec.rows, spec.hidden, spec.top_k,
                      spec.experts, spec.renormalize ? "" : " raw",
                      spec.equal_scores ? " equal" : "", spec.nan_row ? " NaN row" : ""),
          prepare};
}

OpCase make_case(const ExpertCase& spec) {
  const auto prepare = [spec](Backend& backend) {
    auto memory = std::make_unique<OpMemory>(backend);
    ExpertMlpArgs args;
    args.z = memory->input("z", values("z", spec.rows * spec.width, 2), spec.width);
    // The last expert is absent from the table and never chosen, where there is one to spare.
    const int present = spec.experts > spec.top_k ? spec.experts - 1 : spec.experts;
    std::vector<ExpertWeights> experts(static_cast<std::size_t>(spec.experts));
    for (int e = 0; e < present; ++e) {
      const std::string name = "expert" + std::to_string(e);
      experts[static_cast<std::size_t>(e)] = {
          memory->weight(kSeed, name + ".w1", spec.format, spec.inner, spec.width, 3),
          memory->weight(kSeed, name + ".w3", spec.format, spec.inner, spec.width, 3),
          memory->weight(kSeed, name + ".w2", spec.format, spec.width, spec.inner)};
    }
    std::vector<std::int32_t> ids;
    for (std::int64_t r = 0; r < spec.rows; ++r) {
      for (int a = 0; a < spec.top_k; ++a) {
        ids.push_back(static_cast<std::int32_t>((5 * r + present - a) % present));
      }
    }
    args.ids = memory->input_i32("ids", ids);
    args.weights = memory->input_f32("weights", values("weights", spec.rows * spec.top_k));
    args.top_k = spec.top_k;
    args.activation = activation_of(spec.kind);
    args.expert_activations = spec.expert_activations;
    args.out = memory->output("out", spec.rows, spec.width);
    std::sort(ids.begin(), ids.end());
    const auto distinct = std::unique(ids.begin(), ids.end()) - ids.begin();
    const Cost cost = expert_mlp_cost(spec.rows, spec.top_k, static_cast<double>(distinct),
                                      experts[0], backend.activation_dtype());
    auto call = [&backend, args, experts]() mutable {
      args.experts = experts;
      expert_mlp(backend, args);
    };
    return PreparedOp(std::move(memory), call, cost);
  };
  const bool fp8 = spec.expert_activations == ExpertActivations::kFp8;
  return {fp8 ? "expert_mlp, fp8 rows" : "expert_mlp",
          fmt::format("{} {} M={} Z={} F={} top {} of {}", weight_format_name(spec.format),
                      activation_name(spec.kind), spec.rows, spec.width, spec.inner, spec.top_k,
                      spec.experts),
          prepare};
}

}  // namespace baltoro
