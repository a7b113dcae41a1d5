#include "ops/parity/compare.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace baltoro {

Agreement compare_values(const std::vector<float>& reference, const std::vector<float>& candidate) {
  BALTORO_CHECK(reference.size() == candidate.size(), "{} values against {}", reference.size(),
                candidate.size());
  Agreement result;
  double largest = 0, dot = 0, norm_a = 0, norm_b = 0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const double a = reference[i];
    const double b = candidate[i];
    if (!std::isfinite(a) || !std::isfinite(b)) {
      const bool same = (std::isnan(a) && std::isnan(b)) || a == b;
      if (!same) ++result.non_finite_mismatches;
      continue;
    }
    largest = std::max(largest, std::fabs(a));
    result.max_abs = std::max(result.max_abs, std::fabs(a - b));
    dot += a * b;
    norm_a += a * a;
    norm_b += b * b;
  }
  // Against an all-zero reference any error is total.
  result.max_rel = result.max_abs == 0 ? 0 : result.max_abs / std::max(largest, 1e-30);
  if (norm_a > 0 || norm_b > 0) result.cosine = dot / std::sqrt(std::max(norm_a * norm_b, 1e-300));
  return result;
}

Tolerance op_tolerance(const std::string& op, Activations activations, const std::string& output) {
  if (op == "embed") return {0, 1 - 1e-12};
  // Differences of summation order; measured on the case list: 1e-6 for kda_mix, 4e-7 elsewhere.
  // The head and the router are never rounded.
  const bool rounds_state = op == "kda_mix, bf16 state";
  const bool rounds_rows = op == "expert_mlp, fp8 rows";
  const bool rounds_latents = op == "mla, fp8 latents";
  // A latent beside a rounding point of fp8 moves by one code, at most 2^-3 of a row's largest value.
  if (rounds_latents && output == "cache") return {0x1p-3, 1 - 1e-5};
  const bool exact = !rounds_state && !rounds_rows && !rounds_latents &&
                     (activations == Activations::kF32 || op == "head" || op == "route");
  if (exact) return {op == "kda_mix" ? 1e-5 : 4e-6, 1 - 1e-10};
  // One step of bf16 is 2^-7 of the largest value; a sum that falls on the other side of a rounding
  // point moves the result by one step, and by more where several rounded values follow each other.
  const double step = 0x1p-7;
  if (op == "linear") return {step, 1 - 1e-5};
  if (op == "kda_mix" || rounds_state) return {3 * step, 1 - 1e-4};
  // A hidden value on the other side of a rounding point moves by an eighth of itself. Rows that are
  // not rounded at all are 1 - 1e-3 away.
  if (rounds_rows) return {4 * step, 1 - 1e-4};
  return {2 * step, 1 - 1e-4};
}

std::string check_parity(const OpCase& op_case, Backend& reference, Backend& candidate) {
  BALTORO_CHECK(reference.activations() == candidate.activations(), "two activation types");
  PreparedOp expected = op_case.prepare(reference);
  PreparedOp actual = op_case.prepare(candidate);
  expected.run();
  actual.run();
  const std::vector<OpOutput> a = expected.outputs();
  const std::vector<OpOutput> b = actual.outputs();
  std::string faults;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Tolerance limit = op_tolerance(op_case.op, reference.activations(), a[i].name);
    const Agreement seen = compare_values(a[i].values, b[i].values);
    const bool within = seen.max_rel <= limit.max_rel && seen.cosine >= limit.min_cosine;
    if (within && seen.non_finite_mismatches == 0) continue;
    faults += fmt::format(
        "{} {}: {}: max abs {:.3e}, max rel {:.3e} (limit {:.3e}), 1 - cosine {:.3e} (limit "
        "{:.3e}), {} NaN or infinite values differ\n",
        op_case.op, op_case.name, a[i].name, seen.max_abs, seen.max_rel, limit.max_rel,
        1 - seen.cosine, 1 - limit.min_cosine, seen.non_finite_mismatches);
  }
  if (const auto damage = actual.damage()) {
    faults += fmt::format("{} {}: {}\n", op_case.op, op_case.name, *damage);
  }
  return faults;
}

}  // namespace baltoro
