#include "ops/reference/mix_norm.h"

#include <algorithm>
#include <cmath>

namespace baltoro::reference {
namespace {

std::vector<double> row_of(const ConstTensorView& view, std::int64_t row) {
  const float* begin = view.f32() + row * view.cols();
  return {begin, begin + view.cols()};
}

// Adds the row of delta to the row of the prefix, stores it, and returns the stored values.
std::vector<double> update_prefix(const MixNormArgs& args, std::int64_t row, Rounding round) {
  float* prefix = args.prefix.f32() + row * args.prefix.cols();
  if (args.delta) {
    const float* delta = args.delta.f32() + row * args.prefix.cols();
    for (std::int64_t d = 0; d < args.prefix.cols(); ++d) {
      prefix[d] =
          static_cast<float>(round(static_cast<double>(prefix[d]) + static_cast<double>(delta[d])));
    }
  }
  return row_of(args.prefix, row);
}

bool all_finite(std::span<const double> values) {
  return std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
}

}  // namespace

double inverse_rms(std::span<const double> x, double eps) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  return 1.0 / std::sqrt(sum / static_cast<double>(x.size()) + eps);
}

std::vector<double> rms_norm(std::span<const double> x, const float* weight, double eps,
                             Rounding round) {
  const double scale = inverse_rms(x, eps);
  std::vector<double> out(x.size());
  for (std::size_t d = 0; d < x.size(); ++d) {
    out[d] = round(static_cast<double>(weight[d]) * round(x[d] * scale));
  }
  return out;
}

void softmax(std::span<double> scores) {
  const double largest = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double& score : scores) {
    score = std::exp(score - largest);
    sum += score;
  }
  for (double& score : scores) score /= sum;
}

std::vector<double> mix(std::span<const std::vector<double>> sources, const float* norm,
                        const float* proj, double eps, Rounding round) {
  const std::size_t hidden = sources.front().size();
  std::vector<double> weights;
  for (const std::vector<double>& source : sources) {
    double score = 0;
    for (std::size_t d = 0; d < hidden; ++d) {
      score += source[d] * (static_cast<double>(norm[d]) * static_cast<double>(proj[d]));
    }
    weights.push_back(score * inverse_rms(source, eps));
  }
  softmax(weights);
  std::vector<double> out(hidden, 0.0);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    for (std::size_t d = 0; d < hidden; ++d) out[d] += weights[i] * sources[i][d];
  }
  for (double& value : out) value = round(value);
  return out;
}

void mix_norm(const MixNormArgs& args, Rounding round) {
  const std::int64_t hidden = args.prefix.cols();
  for (std::int64_t row = 0; row < args.prefix.rows(); ++row) {
    std::vector<std::vector<double>> sources;
    for (const ConstTensorView& source : args.bank) sources.push_back(row_of(source, row));
    sources.push_back(update_prefix(args, row, round));
    if (args.first_bad != nullptr && args.first_bad[row] == -1 && !all_finite(sources.back())) {
      args.first_bad[row] = args.bad_tag;
    }
    const std::vector<double> h =
        args.bank.empty() ? sources.back()
                          : mix(sources, args.res_norm, args.res_proj, args.mix_eps, round);
    const std::vector<double> normed = rms_norm(h, args.norm, args.norm_eps, round);
    std::transform(normed.begin(), normed.end(), args.out.f32() + row * hidden,
                   [](double value) { return static_cast<float>(value); });
  }
}

}  // namespace baltoro::reference
