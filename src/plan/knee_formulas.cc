#include "plan/knee_formulas.h"

#include <limits>

namespace baltoro::plan {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

double expert_knee(double weight_bytes, double flops, double bandwidth) {
  return weight_bytes * flops / (2 * bandwidth);
}

double expert_knee_with_rows(double knee, double ridge, double row_bytes, double row_flops) {
  const double left = 1 - ridge * row_bytes / row_flops;
  return left > 0 ? knee / left : kNever;
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
