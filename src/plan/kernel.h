// How long one op takes on a machine that was calibrated: arithmetic over its work, no measurement.
//
//   arithmetic = FLOPs / F(rows) + inner products / G + weight rows / W
//   memory     = bytes / (e(run) B(x))
//   seconds    = max(arithmetic, memory) + (1 - overlap) min(arithmetic, memory) + t0
//
// B(x) is the machine's read bandwidth where the bytes are part of a working set of x bytes: that of
// a cache, or of the memory. All other constants belong to a kernel (kernel_call.h). With overlap 1,
// G and W infinite this is the roofline of cost-model 1.6.
#pragma once

#include "plan/curve.h"

namespace baltoro::plan {

// What one call does: from the op's cost function, and from its shape how it does so.
struct KernelWork {
  double flops = 0;
  double bytes = 0;
  double rows = 1;   // that share one read of a weight: the skinny regime
  double depth = 1;  // mean length of the inner products
  double run = 0;    // bytes that lie together: a row of a weight

  double inner_products() const { return flops / (2 * depth); }
  double weight_rows() const { return inner_products() / rows; }
  bool operator==(const KernelWork&) const = default;
};

struct KernelModel {
  Curve seconds_per_flop;                // over rows: 1 / F
  double seconds_per_inner_product = 0;  // 1 / G
  double seconds_per_weight_row = 0;     // 1 / W
  Curve bytes_per_byte;      // over run: 1 / e, the bytes of the probe that take as long as one
  double overlap = 1;        // in [0, 1]
  double fixed_seconds = 0;  // t0
  // Over the points of the fit, of predicted / measured - 1.
  double median_error = 0;  // of the absolute values
  double p90_error = 0;     // nine of ten are below
  double worst_error = 0;
  int num_points = 0;

  // `bandwidth`: B(x), bytes a second.
  double seconds(const KernelWork& work, double bandwidth) const;
  bool operator==(const KernelModel&) const = default;
};

}  // namespace baltoro::plan
