#include "measure/compare_backend.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "measure/shadow.h"
#include "ops/embed.h"
#include "ops/expert_mlp.h"
#include "ops/glu_mlp.h"
#include "ops/head.h"
#include "ops/kda.h"
#include "ops/linear.h"
#include "ops/mix_norm.h"
#include "ops/mla.h"
#include "ops/reference/matrix.h"
#include "ops/route.h"

namespace baltoro {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// The score that chooses: sigmoid(w x) + bias, in double.
double selection_score(const RouteArgs& args, std::int64_t row, std::int32_t expert) {
  const std::int64_t width = args.weight.cols;
  std::vector<float> weight(static_cast<std::size_t>(width));
  reference::decode_weight_row(args.weight, expert, weight.data());
  double sum = 0;
  for (std::int64_t i = 0; i < width; ++i) {
    sum += static_cast<double>(weight[static_cast<std::size_t>(i)]) *
           static_cast<double>(args.x.f32()[row * width + i]);
  }
  return sigmoid(sum) + static_cast<double>(args.bias[expert]);
}

bool contains(std::span<const std::int32_t> ids, std::int32_t id) {
  return std::ranges::find(ids, id) != ids.end();
}

// The largest gap between the scores of experts that only one of the two chose.
double swap_gap(const RouteArgs& args, std::int64_t row, std::span<const std::int32_t> a,
                std::span<const std::int32_t> b) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  const auto see = [&](std::int32_t id) {
    const double score = selection_score(args, row, id);
    low = std::min(low, score);
    high = std::max(high, score);
  };
  for (std::int32_t id : a) {
    if (!contains(b, id)) see(id);
  }
  for (std::int32_t id : b) {
    if (!contains(a, id)) see(id);
  }
  return high - low;
}

}  // namespace

double OpDifference::excess() const {
  if (seen.non_finite_mismatches > 0) return std::numeric_limits<double>::infinity();
  if (seen.max_abs == 0) return 0;
  const double by_value =
      limit.max_rel > 0 ? seen.max_rel / limit.max_rel : std::numeric_limits<double>::infinity();
  return std::max(by_value, (1 - seen.cosine) / (1 - limit.min_cosine));
}

CompareBackend::CompareBackend(Backend& first, Backend& second)
    : ForwardingBackend(first),
      second_(second),
      name_(fmt::format("{} and {}", first.name(), second.name())) {
  for (const Backend* backend : {&first, &second}) {
    BALTORO_CHECK(backend->uses_host_memory() && backend->activation_dtype() == DType::kF32,
                  "{} does not compute on memory of the host", backend->name());
  }
}

void CompareBackend::synchronize() {
  inner().synchronize();
  second_.synchronize();
}

Tolerance CompareBackend::limit(const char* op) const {
  if (inner().activations() == second_.activations()) {
    return op_tolerance(op, inner().activations());
  }
  // The stated tolerances are for two that round alike, where few values fall on the other side of
  // a rounding point. Against one that does not round every point of the op adds its error.
  Tolerance tolerance = op_tolerance(op, Activations::kBf16);
  tolerance.max_rel *= 2;
  tolerance.min_cosine = 1 - 4 * (1 - tolerance.min_cosine);
  return tolerance;
}

void CompareBackend::record(const char* op, int layer, const char* output,
                            const std::vector<float>& first, const std::vector<float>& second) {
  add({.op = op,
       .layer = layer,
       .output = output,
       .seen = compare_values(first, second),
       .limit = limit(op)});
}

void CompareBackend::add(OpDifference difference) {
  for (OpDifference& known : differences_) {
    if (known.op == difference.op && known.layer == difference.layer &&
        known.output == difference.output) {
      if (difference.excess() > known.excess()) known = std::move(difference);
      return;
    }
  }
  differences_.push_back(std::move(difference));
}

void CompareBackend::embed(const EmbedArgs& args) {
  ShadowTensor out(args.out);
  EmbedArgs other = args;
  other.out = out.view();
  inner().embed(args);
  second_.embed(other);
  record("embed", -1, "out", values_of(args.out), out.values());
}

void CompareBackend::linear(const LinearArgs& args) {
  std::deque<ShadowTensor> outs;
  LinearArgs other = args;
  for (int i = 0; i < args.num_outputs; ++i) {
    LinearOutput& output = other.outputs[static_cast<std::size_t>(i)];
    output.out = outs.emplace_back(output.out).view();
  }
  inner().linear(args);
  second_.linear(other);
  for (std::size_t i = 0; i < outs.size(); ++i) {
    const std::string output = fmt::format("out {}, [{}, {}]", i, args.outputs[i].weight.rows,
                                           args.outputs[i].weight.cols);
    record("linear", args.layer, output.c_str(), values_of(args.outputs[i].out), outs[i].values());
  }
}

void CompareBackend::mix_norm(const MixNormArgs& args) {
  ShadowTensor out(args.out), prefix(args.prefix);
  std::vector<std::int32_t> first_bad;
  MixNormArgs other = args;
  other.out = out.view();
  other.prefix = prefix.view();
  if (args.first_bad != nullptr) {
    first_bad.assign(args.first_bad, args.first_bad + args.out.rows());
    other.first_bad = first_bad.data();
  }
  inner().mix_norm(args);
  second_.mix_norm(other);
  record("mix_norm", args.layer, "prefix", values_of(args.prefix), prefix.values());
  record("mix_norm", args.layer, "out", values_of(args.out), out.values());
}

void CompareBackend::kda_mix(const KdaMixArgs& args) {
  ShadowTensor out(args.out);
  ShadowSlots slots(args);
  KdaMixArgs other = args;
  other.out = out.view();
  other.batch = slots.batch();
  other.pool = slots.pool();
  inner().kda_mix(args);
  second_.kda_mix(other);
  record("kda_mix", args.layer, "out", values_of(args.out), out.values());
  record("kda_mix", args.layer, "state", slots.original_state(args), slots.state());
  record("kda_mix", args.layer, "conv history", slots.original_conv(args), slots.conv());
}

void CompareBackend::run_mla(const MlaArgs& args, MlaOp op, const char* name) {
  const Origin origin = op == &Backend::mla_decode ? Origin::kGenerated : Origin::kPrompt;
  ShadowTensor out(args.out);
  ShadowPages pages(args, second_.cache_dtype());
  MlaArgs other = args;
  other.out = out.view();
  other.batch = pages.batch();
  other.cache = pages.cache();
  (inner().*op)(args);
  (second_.*op)(other);
  record(name, args.layer, "out", values_of(args.out), out.values());
  record(name, args.layer, "cache", ShadowPages::original_written(args, origin),
         pages.written(args, origin));
}

void CompareBackend::mla_prefill(const MlaArgs& args) {
  run_mla(args, &Backend::mla_prefill, "mla_prefill");
}

void CompareBackend::mla_decode(const MlaArgs& args) {
  run_mla(args, &Backend::mla_decode, "mla_decode");
}

void CompareBackend::glu_mlp(const GluMlpArgs& args) {
  ShadowTensor out(args.out);
  GluMlpArgs other = args;
  other.out = out.view();
  if (args.add.data == args.out.data) other.add = out.view();
  inner().glu_mlp(args);
  second_.glu_mlp(other);
  record("glu_mlp", args.layer, "out", values_of(args.out), out.values());
}

void CompareBackend::route(const RouteArgs& args) {
  const auto count = static_cast<std::size_t>(args.x.rows() * args.top_k);
  std::vector<std::int32_t> ids(count);
  std::vector<float> weights(count);
  RouteArgs other = args;
  other.ids = ids.data();
  other.weights = weights.data();
  inner().route(args);
  second_.route(other);
  compare_routes(args, ids, weights);
}

void CompareBackend::compare_routes(const RouteArgs& args, const std::vector<std::int32_t>& ids,
                                    const std::vector<float>& weights) {
  const auto k = static_cast<std::size_t>(args.top_k);
  const Tolerance tolerance = limit("route");
  OpDifference choice{.op = "route",
                      .layer = args.layer,
                      .output = "chosen experts",
                      .seen = {},
                      .limit = tolerance};
  std::vector<float> first_weights, second_weights;
  for (std::int64_t row = 0; row < args.x.rows(); ++row) {
    const std::size_t at = static_cast<std::size_t>(row) * k;
    const std::span<const std::int32_t> a(args.ids + at, k), b(ids.data() + at, k);
    ++flips_.rows;
    if (std::ranges::is_permutation(a, b)) {
      for (std::size_t i = 0; i < k; ++i) {
        const auto same = static_cast<std::size_t>(std::ranges::find(b, a[i]) - b.begin());
        first_weights.push_back(args.weights[at + i]);
        second_weights.push_back(weights[at + same]);
      }
      continue;
    }
    ++flips_.flipped;
    const double gap = swap_gap(args, row, a, b);
    if (gap <= tolerance.max_rel) ++flips_.ties;
    choice.seen.max_abs = std::max(choice.seen.max_abs, gap);
    choice.seen.max_rel = std::max(choice.seen.max_rel, gap);
  }
  add(choice);
  record("route", args.layer, "weights", first_weights, second_weights);
}

void CompareBackend::expert_mlp(const ExpertMlpArgs& args) {
  ShadowTensor out(args.out);
  ExpertMlpArgs other = args;
  other.out = out.view();
  inner().expert_mlp(args);
  second_.expert_mlp(other);
  record("expert_mlp", args.layer, "out", values_of(args.out), out.values());
}

void CompareBackend::head(const HeadArgs& args) {
  const std::size_t count = args.rows.size() * static_cast<std::size_t>(args.weight.rows);
  std::vector<float> logits(count);
  HeadArgs other = args;
  other.logits = logits.data();
  inner().head(args);
  second_.head(other);
  record("head", -1, "logits", {args.logits, args.logits + count}, logits);
}

}  // namespace baltoro
