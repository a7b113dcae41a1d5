// Where one term of the cost passes another, in closed form (docs/cost-model.md).
#pragma once

#include "ops/mla.h"

namespace baltoro::plan {

// Tokens an expert needs before its products take longer than the read of its weights.
//   tau* = w F / (2 B)                                    w bytes a weight
double expert_knee(double weight_bytes, double flops, double bandwidth);
// The same where each row also moves `row_bytes` for its `row_flops`; `ridge` is F / B. Infinite
// where rows alone keep the memory busy.
//   tau* / (1 - (F / B) row_bytes / row_flops)
double expert_knee_with_rows(double knee, double ridge, double row_bytes, double row_flops);

// Query tokens a sequence and step above which expanded MLA has fewer FLOPs than absorbed:
//   c (d_n + d_v) / ((2 c + s) - (d_n + s + d_v)); infinite where absorbed always wins.
double absorbed_limit(const MlaShape& shape);

}  // namespace baltoro::plan
