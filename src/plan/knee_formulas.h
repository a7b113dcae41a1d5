// Where one term of the cost passes another, in closed form (docs/cost-model.md).
#pragma once

#include "ops/mla.h"

namespace baltoro::plan {

// Tokens an expert needs before its products take longer than the read of its weights.
//   tau* = w F / (2 B)                                    w bytes a weight
//   with activations: tau* / (1 - F a (2 l + 3 m) / (6 l m B)), infinite where that is below 0
double expert_knee(double weight_bytes, double flops, double bandwidth);
double expert_knee_with_activations(double weight_bytes, double flops, double bandwidth,
                                    double value_bytes, double values_per_row, double outer,
                                    double inner);

// Query tokens a sequence and step above which expanded MLA has fewer FLOPs than absorbed:
//   c (d_n + d_v) / ((2 c + s) - (d_n + s + d_v)); infinite where absorbed always wins.
double absorbed_limit(const MlaShape& shape);

}  // namespace baltoro::plan
