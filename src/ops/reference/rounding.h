// The rounding points of the specification (section 7) and the scalar functions that several steps
// share, in double.
#pragma once

#include <cmath>

#include "core/dtype.h"
#include "ops/backend.h"

namespace baltoro::reference {

// round(x) of the op contracts: the nearest bf16 value in Activations::kBf16, x itself in kF32.
class Rounding {
 public:
  explicit Rounding(Activations activations) : to_bf16_(activations == Activations::kBf16) {}
  double operator()(double value) const {
    return to_bf16_ ? static_cast<double>(round_bf16(static_cast<float>(value))) : value;
  }

 private:
  bool to_bf16_;
};

inline double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

inline double silu(double x) { return x * sigmoid(x); }

// As in the released code: x itself beyond 20, where the two differ by less than 3e-9.
inline double softplus(double x) { return x > 20 ? x : std::log1p(std::exp(x)); }

}  // namespace baltoro::reference
