// The reference's gated MLP: dense layers, shared experts and the inside of a routed expert
// (specification 6.1, 6.2).
#pragma once

#include <cstdint>
#include <vector>

#include "ops/glu_mlp.h"
#include "ops/reference/rounding.h"

namespace baltoro::reference {

// beta tanh(g / beta) sigmoid(g) * linear_beta tanh(u / linear_beta).
double situ(double g, double u, double beta, double linear_beta);

// act(g, u) with its rounding points: one for SiTU, two for SwiGLU.
double activate(const Activation& activation, double g, double u, Rounding round);

// act(gate x, up x) with its linear outputs rounded: x [M, D] -> [M, F].
std::vector<double> glu_inner(const WeightView& gate, const WeightView& up,
                              const Activation& activation, const std::vector<double>& x,
                              Rounding round);

// The product with its output rounded: x [M, F] -> [M, D'].
std::vector<double> glu_down(const WeightView& down, const std::vector<double>& inner,
                             Rounding round);

void glu_mlp(const GluMlpArgs& args, Rounding round);

}  // namespace baltoro::reference
