// What stands between two sub-layers: residual add, Attention-Residuals mix over depth, RMSNorm
// (specification 5.1, 4.2).
#pragma once

#include <cstdint>
#include <span>

#include "core/tensor_view.h"
#include "ops/backend.h"
#include "ops/cost.h"

namespace baltoro {

// Per row, in order:
//   prefix <- round(prefix + delta)                    where delta is given
//   h = prefix                                         where the bank is empty, else
//   h = round(sum_i a_i v_i),  v = bank + [prefix],  a = softmax(score)
//       score_i = rsqrt(mean(v_i^2) + mix_eps) * sum_d v_i[d] res_norm[d] res_proj[d]
//   out = norm * round(h * rsqrt(mean(h^2) + norm_eps)), rounded again
// The products res_norm * res_proj, the scores and the softmax are f32 (reference: double) and see
// the raw sources.
struct MixNormArgs {
  int layer = -1;
  std::span<const ConstTensorView> bank;  // n sources [M, D], n >= 0
  TensorView prefix;                // [M, D]; updated in place where delta is given, else read
  ConstTensorView delta;            // [M, D] or empty
  const float* res_norm = nullptr;  // [D]; both needed where the bank is not empty
  const float* res_proj = nullptr;  // [D]
  const float* norm = nullptr;      // [D]
  float mix_eps = 0;
  float norm_eps = 0;
  TensorView out;  // [M, D]; may not alias prefix or a source
  // [M] or null: first_bad[r] becomes bad_tag where it was -1 and row r of the updated prefix holds
  // a NaN or infinity.
  std::int32_t* first_bad = nullptr;
  std::int32_t bad_tag = 0;
};

void mix_norm(Backend& backend, const MixNormArgs& args);

// num_sources counts the prefix: bank + 1. Canonical traffic: n_src + 1 rows moved, n_src + 3 with
// the residual add. FLOPs a value: 4 for the norm, 4 a source where there is a mix, 1 for the add.
Cost mix_norm_cost(std::int64_t rows, std::int64_t hidden, int num_sources, bool residual_add,
                   DType activation_dtype);

}  // namespace baltoro
