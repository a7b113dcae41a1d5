// The reference's RMSNorm and Attention-Residuals mix (specification 4.2, 5.1).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/mix_norm.h"
#include "ops/reference/rounding.h"

namespace baltoro::reference {

// rsqrt(mean(x^2) + eps).
double inverse_rms(std::span<const double> x, double eps);

// weight[d] * round(x[d] * inverse_rms(x)), rounded again.
std::vector<double> rms_norm(std::span<const double> x, const float* weight, double eps,
                             Rounding round);

// One token's mix over depth: sum_i a_i sources[i], a = softmax_i(s_i),
// s_i = inverse_rms(sources[i]) * sum_d sources[i][d] norm[d] proj[d]. The scores see normalised
// sources, the sum raw ones.
std::vector<double> mix(std::span<const std::vector<double>> sources, const float* norm,
                        const float* proj, double eps, Rounding round);

// softmax in place, by the largest value.
void softmax(std::span<double> scores);

void mix_norm(const MixNormArgs& args, Rounding round);

}  // namespace baltoro::reference
