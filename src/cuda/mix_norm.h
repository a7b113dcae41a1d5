// What the mix_norm kernels are called with.
#pragma once

#include "cuda/context.h"
#include "ops/mix_norm.h"

namespace baltoro::cuda {

constexpr int kMaxSources = 32;

// Sources are the bank, then the prefix.
struct MixNorm {
  const void* source[kMaxSources];
  int num_sources;
  void* prefix;
  const void* delta;  // or null
  const float* res_norm;
  const float* res_proj;
  const float* norm;
  void* out;
  std::int32_t* first_bad;  // or null
  std::int32_t bad_tag;
  float mix_eps;
  float norm_eps;
  int hidden;
};

namespace sm90 {

// bf16 rows of at most 7168 values, in whole 16-byte vectors, and at most 9 sources.
bool serves_mix_norm(const Context& context, const MixNorm& p);
void mix_norm(Context& context, const MixNorm& p, std::int64_t rows);

}  // namespace sm90
}  // namespace baltoro::cuda
