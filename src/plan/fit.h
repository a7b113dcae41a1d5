// From timed calls to the constants of a kernel (kernel.h).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "plan/kernel.h"

namespace baltoro::plan {

struct KernelSample {
  std::string name;  // the point in words
  KernelWork work;
  double working_set = 0;  // bytes
  MachineState machine;    // while it was measured
  double seconds = 0;      // of one call

  bool operator==(const KernelSample&) const = default;
};

// The x >= 0 that minimises |A x - b|^2. `a` is row-major, b.size() rows. By coordinate descent on
// the normal equations, which needs no scaling of the columns.
std::vector<double> non_negative_least_squares(std::span<const double> a,
                                               std::span<const double> b);

// Least squares of the relative errors over constants that are not negative, for a few values of the
// overlap, of which the best is taken. F and e bend at a few sizes (fit.cc), where there are samples.
// Throws Error{kInternal} without samples.
KernelModel fit_kernel(std::span<const KernelSample> samples);

}  // namespace baltoro::plan
