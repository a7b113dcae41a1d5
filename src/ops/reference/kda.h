// The reference's KDA mixer and its steps before and after the delta rule (specification 3.1-3.4,
// 3.7).
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "ops/kda.h"
#include "ops/reference/rounding.h"

namespace baltoro::reference {

// sum_j taps[j] * window[j]; the last element of the window is the current token.
double short_conv(const float* taps, std::span<const double> window);

// x * rsqrt(sum x^2 + kL2NormEps), in place.
void l2_norm(std::span<double> x);

// The log of the decay, z = logit + bias: lower_bound * sigmoid(exp(a_log) z), or without a bound
// -exp(a_log) * softplus(z).
double log_decay(double z, double a_log, std::optional<float> lower_bound);

// One head: o * rsqrt(mean(o^2) + eps) * weight * sigmoid(gate), written to out and rounded once.
// gate may be null.
struct OutputNorm {
  const float* weight;
  const float* gate;
  double eps;
};
void gated_rms_norm(std::span<const double> o, const OutputNorm& norm, Rounding round, float* out);

void kda_mix(const KdaMixArgs& args, Rounding round);

}  // namespace baltoro::reference
