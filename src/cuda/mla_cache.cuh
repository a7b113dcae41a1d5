// The cache write of one new row: latent norm, and rotation of the side key.
#pragma once

#include "cuda/device/activation.cuh"
#include "cuda/device/reduce.cuh"
#include "cuda/device/rotate.cuh"
#include "cuda/mla_parts.h"

namespace baltoro::cuda {

struct CacheWrite {
  DeviceBatch batch;
  const void* kv;     // [M, first_width]
  const void* v;      // [M, second_width], copied behind it; kGqa
  const float* norm;  // null: copied as it is; kGqa
  void* cache;        // [pages, kBlockTokens, first_width + second_width]
  int first_width;
  int second_width;
  int rank;  // values under the norm; what follows is the side key
  float eps;
  float theta;       // 0: not rotated
  int is_generated;  // the origin that is served
};

CacheWrite cache_write(Context& context, const MlaArgs& args, Origin origin);

// One row by the threads of a block. `slots`: as for block_sum.
template <typename T>
__device__ __forceinline__ void write_cache_row(const CacheWrite& p, std::int64_t row,
                                                float* slots) {
  const auto threads = static_cast<int>(blockDim.x);
  const DeviceSequence sequence = p.batch.sequences[p.batch.row_sequence[row]];
  if (sequence.is_generated != p.is_generated) return;
  const std::int64_t position = sequence.start_pos + row - sequence.first_row;
  const std::int64_t page = p.batch.pages[sequence.first_page + position / kBlockTokens];
  const T* in = static_cast<const T*>(p.kv) + row * p.first_width;
  T* out = static_cast<T*>(p.cache) +
           (page * kBlockTokens + position % kBlockTokens) * (p.first_width + p.second_width);
  if (p.norm == nullptr) {
    const T* second = static_cast<const T*>(p.v) + row * p.second_width;
    for (int i = threadIdx.x; i < p.first_width; i += threads) out[i] = in[i];
    for (int i = threadIdx.x; i < p.second_width; i += threads) {
      out[p.first_width + i] = second[i];
    }
    return;
  }
  float squares = 0;
  for (int i = threadIdx.x; i < p.rank; i += threads) squares += to_f32(in[i]) * to_f32(in[i]);
  squares = block_sum(squares, slots);
  const float scale = 1.0f / sqrtf(squares / static_cast<float>(p.rank) + p.eps);
  for (int i = threadIdx.x; i < p.rank; i += threads) {
    out[i] = from_f32<T>(p.norm[i] * round_as<T>(to_f32(in[i]) * scale));
  }
  const int side = p.first_width - p.rank;
  for (int i = threadIdx.x; i < side; i += threads) {
    if (p.theta == 0) {
      out[p.rank + i] = in[p.rank + i];
    } else if (i % 2 == 0) {
      const float2 pair = {to_f32(in[p.rank + i]), to_f32(in[p.rank + i + 1])};
      const float2 turned = rotate_pair(pair, i, side, position, p.theta);
      out[p.rank + i] = from_f32<T>(turned.x);
      out[p.rank + i + 1] = from_f32<T>(turned.y);
    }
  }
}

}  // namespace baltoro::cuda
