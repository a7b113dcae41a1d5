#include "plan/knee_formulas.h"

#include <limits>

namespace baltoro::plan {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

double expert_knee(double weight_bytes, double flops, double bandwidth) {
  return weight_bytes * flops / (2 * bandwidth);
}

double expert_knee_with_activations(double weight_bytes, double flops, double bandwidth,
                                    double value_bytes, double values_per_row, double outer,
                                    double inner) {
  const double left = 1 - flops * value_bytes * values_per_row / (6 * outer * inner * bandwidth);
  return left > 0 ? expert_knee(weight_bytes, flops, bandwidth) / left : kNever;
}

double absorbed_limit(const MlaShape& shape) {
  if (shape.kind != MlaKind::kLatent) return kNever;
  const auto c = static_cast<double>(shape.kv_rank);
  const auto s = static_cast<double>(shape.rope_dim);
  const auto n = static_cast<double>(shape.nope_dim);
  const auto v = static_cast<double>(shape.v_head_dim);
  const double saved = (2 * c + s) - (n + s + v);
  return saved > 0 ? c * (n + v) / saved : kNever;
}

}  // namespace baltoro::plan
