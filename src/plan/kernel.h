// How long one op takes on a machine that was calibrated: arithmetic over its work, no measurement.
//
//   arithmetic = (f(rows) FLOPs + g inner products + w weight rows) / P
//   memory     = bytes / (e(run) B(x))
//   seconds    = max(arithmetic, memory) + (1 - overlap) min(arithmetic, memory) + n loops t0
//
// P, the FLOPs a second of a large product, B(x), the read bandwidth where the bytes are part of a
// working set of x bytes (a cache's, or the memory's), and t0, the time of an op that does nothing,
// are states of the machine: on a virtual one they change from minute to minute. All other constants belong to a kernel (kernel_call.h). With overlap 1
// and without g and w this is the roofline of cost-model 1.6.
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
  double loops = 1;  // over all threads: each begins and ends with messages between them

  double inner_products() const { return flops / (2 * depth); }
  double weight_rows() const { return inner_products() / rows; }
  bool operator==(const KernelWork&) const = default;
};

struct MachineState {
  double bandwidth = 0;         // B(x) of the working set, bytes a second
  double flops_per_second = 0;  // P
  double dispatch_seconds = 0;  // t0
  bool operator==(const MachineState&) const = default;
};

struct KernelModel {
  // In FLOPs of the large product, which take as long.
  Curve flops_per_flop;                // f, over rows
  double flops_per_inner_product = 0;  // g
  double flops_per_weight_row = 0;     // w
  Curve bytes_per_byte;  // over run: 1 / e, the bytes of the probe that take as long as one
  double overlap = 1;    // in [0, 1]
  double launches = 1;   // n, at least 1
  // Over the points of the fit, of predicted / measured - 1.
  double median_error = 0;  // of the absolute values
  double p90_error = 0;     // nine of ten are below
  double worst_error = 0;
  int num_points = 0;

  double seconds(const KernelWork& work, const MachineState& machine) const;
  double arithmetic_seconds(const KernelWork& work, const MachineState& machine) const;
  double memory_seconds(const KernelWork& work, const MachineState& machine) const;
  bool operator==(const KernelModel&) const = default;
};

}  // namespace baltoro::plan
