#include "ops/reference/latent_moe.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/e4m3.h"
#include "core/error.h"
#include "ops/reference/glu_mlp.h"
#include "ops/reference/matrix.h"

namespace baltoro::reference {

Choice choose_experts(std::span<const double> logits, const RouteArgs& args) {
  const std::size_t count = logits.size();
  std::vector<double> scores(count), biased(count);
  for (std::size_t e = 0; e < count; ++e) {
    scores[e] = sigmoid(logits[e]);
    biased[e] = scores[e] + static_cast<double>(args.bias[e]);
  }
  const auto top_k = static_cast<std::size_t>(args.top_k);
  Choice choice;
  choice.ids.resize(count);
  std::iota(choice.ids.begin(), choice.ids.end(), 0);
  if (std::any_of(biased.begin(), biased.end(), [](double s) { return std::isnan(s); })) {
    choice.ids.resize(top_k);
    choice.weights.assign(top_k, std::numeric_limits<double>::quiet_NaN());
    return choice;
  }
  std::stable_sort(choice.ids.begin(), choice.ids.end(), [&](std::int32_t a, std::int32_t b) {
    return biased[static_cast<std::size_t>(a)] > biased[static_cast<std::size_t>(b)];
  });
  choice.ids.resize(top_k);
  double sum = 0;
  for (const std::int32_t id : choice.ids) sum += scores[static_cast<std::size_t>(id)];
  for (const std::int32_t id : choice.ids) {
    const double score = scores[static_cast<std::size_t>(id)];
    choice.weights.push_back((args.renormalize ? score / (sum + 1e-20) : score) *
                             static_cast<double>(args.scale));
  }
  return choice;
}

void route(const RouteArgs& args) {
  const std::vector<double> logits = multiply(args.weight, to_double(args.x));
  const auto experts = static_cast<std::size_t>(args.weight.rows);
  for (std::int64_t row = 0; row < args.x.rows(); ++row) {
    const std::span<const double> row_logits(logits.data() + row * args.weight.rows, experts);
    const Choice choice = choose_experts(row_logits, args);
    std::copy(choice.ids.begin(), choice.ids.end(), args.ids + row * args.top_k);
    std::transform(choice.weights.begin(), choice.weights.end(), args.weights + row * args.top_k,
                   [](double weight) { return static_cast<float>(weight); });
  }
}

namespace {

// One expert's output for the row z, [Z].
std::vector<double> expert_output(const ExpertWeights& expert, const ExpertMlpArgs& args,
                                  const std::vector<double>& z, Rounding round) {
  std::vector<double> hidden = glu_inner(expert.w1, expert.w3, args.activation, z, round);
  if (args.expert_activations == ExpertActivations::kFp8) round_e4m3_row(hidden);
  return glu_down(expert.w2, hidden, round);
}

}  // namespace

void expert_mlp(const ExpertMlpArgs& args, Rounding round) {
  const std::int64_t width = args.z.cols();
  for (std::int64_t row = 0; row < args.z.rows(); ++row) {
    std::vector<double> z(args.z.f32() + row * width, args.z.f32() + (row + 1) * width);
    if (args.expert_activations == ExpertActivations::kFp8) round_e4m3_row(z);
    std::vector<double> sum(static_cast<std::size_t>(width), 0.0);
    for (int slot = 0; slot < args.top_k; ++slot) {
      const std::int32_t id = args.ids[row * args.top_k + slot];
      BALTORO_CHECK(id >= 0 && id < static_cast<std::int64_t>(args.experts.size()),
                    "expert_mlp: id {} of {} experts", id, args.experts.size());
      const ExpertWeights& expert = args.experts[static_cast<std::size_t>(id)];
      BALTORO_CHECK(expert.w1 && expert.w3 && expert.w2, "expert_mlp: expert {} is absent", id);
      if (args.feed != nullptr) args.feed->acquire({&id, 1});
      const std::vector<double> e = expert_output(expert, args, z, round);
      const double weight = args.weights[row * args.top_k + slot];
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += weight * e[i];
    }
    std::transform(sum.begin(), sum.end(), args.out.f32() + row * width,
                   [round](double value) { return static_cast<float>(round(value)); });
  }
}

}  // namespace baltoro::reference
