// How far two backends' results of one op case are apart, and how far they may be.
#pragma once

#include <string>
#include <vector>

#include "ops/backend.h"
#include "ops/parity/cases.h"

namespace baltoro {

struct Agreement {
  double max_abs = 0;  // largest |a - b| over the finite values
  double max_rel = 0;  // max_abs over the largest finite |a| of the reference
  double cosine = 1;
  // Values that are NaN in one and not in the other, or infinite and not equal.
  std::int64_t non_finite_mismatches = 0;
};

Agreement compare_values(const std::vector<float>& reference, const std::vector<float>& candidate);

// The stated tolerance of an op against the reference backend on the same inputs
// (docs/numerics.md).
struct Tolerance {
  double max_rel;
  double min_cosine;
};
Tolerance op_tolerance(const std::string& op, Activations activations,
                       const std::string& output = "out");

// Runs the case on both backends, which have the same Activations, and compares every output, the
// guards and the inputs. Empty when all agree, else what is wrong, one line per fault.
std::string check_parity(const OpCase& op_case, Backend& reference, Backend& candidate);

}  // namespace baltoro
