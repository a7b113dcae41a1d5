#include "ops/reference/glu_mlp.h"

#include <cmath>

#include "ops/reference/matrix.h"

namespace baltoro::reference {

double situ(double g, double u, double beta, double linear_beta) {
  return beta * std::tanh(g / beta) * sigmoid(g) * (linear_beta * std::tanh(u / linear_beta));
}

double activate(const Activation& activation, double g, double u, Rounding round) {
  if (activation.kind == ActivationKind::kSwiglu) return round(round(silu(g)) * u);
  return round(situ(g, u, activation.beta, activation.linear_beta));
}

std::vector<double> glu_inner(const WeightView& gate, const WeightView& up,
                              const Activation& activation, const std::vector<double>& x,
                              Rounding round) {
  std::vector<double> inner = multiply(gate, x);
  const std::vector<double> linear = multiply(up, x);
  for (std::size_t i = 0; i < inner.size(); ++i) {
    inner[i] = activate(activation, round(inner[i]), round(linear[i]), round);
  }
  return inner;
}

std::vector<double> glu_down(const WeightView& down, const std::vector<double>& inner,
                             Rounding round) {
  std::vector<double> out = multiply(down, inner);
  for (double& value : out) value = round(value);
  return out;
}

void glu_mlp(const GluMlpArgs& args, Rounding round) {
  const std::vector<double> inner =
      glu_inner(args.gate, args.up, args.activation, to_double(args.x), round);
  const std::vector<double> result = glu_down(args.down, inner, round);
  float* out = args.out.f32();
  for (std::size_t i = 0; i < result.size(); ++i) {
    const double value =
        args.add ? round(static_cast<double>(args.add.f32()[i]) + result[i]) : result[i];
    out[i] = static_cast<float>(value);
  }
}

}  // namespace baltoro::reference
