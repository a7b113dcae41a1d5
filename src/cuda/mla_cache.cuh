// The cache write of one new row: latent norm, and rotation of the side key.
#pragma once

#include "cuda/device/activation.cuh"
#include "cuda/device/e4m3.cuh"
#include "cuda/device/reduce.cuh"
#include "cuda/device/rotate.cuh"
#include "cuda/mla_parts.h"
#include "ops/latent_page.h"

namespace baltoro::cuda {

struct CacheWrite {
  DeviceBatch batch;
  const void* kv;     // [M, first_width]
  const void* v;      // [M, second_width], copied behind it; kGqa
  const float* norm;  // null: copied as it is; kGqa
  void* cache;        // [pages, kBlockTokens, first_width + second_width], or pages of fp8
  LatentPage fp8;     // of rank 0 for none
  int first_width;
  int second_width;
  int rank;  // values under the norm; what follows is the side key
  float eps;
  float theta;       // 0: not rotated
  int is_generated;  // the origin that is served
};

CacheWrite cache_write(Context& context, const MlaArgs& args, Origin origin);

// The side key of a row as values of U.
template <typename T, typename U>
__device__ __forceinline__ void write_side(const CacheWrite& p, const T* in, std::int64_t position,
                                           U* out) {
  const int side = p.first_width - p.rank;
  for (int i = threadIdx.x; i < side; i += static_cast<int>(blockDim.x)) {
    if (p.theta == 0) {
      out[i] = from_f32<U>(to_f32(in[p.rank + i]));
    } else if (i % 2 == 0) {
      const float2 pair = {to_f32(in[p.rank + i]), to_f32(in[p.rank + i + 1])};
      const float2 turned = rotate_pair(pair, i, side, position, p.theta);
      out[i] = from_f32<U>(round_as<T>(turned.x));
      out[i + 1] = from_f32<U>(round_as<T>(turned.y));
    }
  }
}

// value(i): element i of the latent. `page`: of this token. `slots`: as for block_sum.
template <typename Value>
__device__ __forceinline__ void write_codes(const LatentPage& layout, unsigned char* page,
                                            std::int64_t token, Value value, float* slots) {
  const auto rank = static_cast<int>(layout.rank);
  const auto threads = static_cast<int>(blockDim.x);
  unsigned largest = 0;  // as bits, of which those of a NaN are the largest
  for (int i = threadIdx.x; i < rank; i += threads) {
    largest = max(largest, __float_as_uint(value(i)) & 0x7fffffffu);
  }
  largest = block_max(largest, slots);
  const std::uint8_t scale =
      largest < 0x7f800000u ? row_scale(e4m3_row_exponent(__uint_as_float(largest))) : kNanRowScale;
  const float inverse = inverse_scale(scale);
  for (int i = threadIdx.x; i < rank; i += threads) {
    page[layout.codes_at(token) + i] =
        e4m3_code(scale == kNanRowScale ? 0.0f : round_e4m3(value(i) * inverse));
  }
  if (threadIdx.x == 0) page[layout.scale_at(token)] = scale;
}

// One row by the threads of a block. `slots`: as for block_sum.
template <typename T>
__device__ __forceinline__ void write_cache_row(const CacheWrite& p, std::int64_t row,
                                                float* slots) {
  const auto threads = static_cast<int>(blockDim.x);
  const DeviceSequence sequence = p.batch.sequences[p.batch.row_sequence[row]];
  if (sequence.is_generated != p.is_generated) return;
  const std::int64_t position = sequence.start_pos + row - sequence.first_row;
  const std::int64_t page = p.batch.pages[sequence.first_page + position / kBlockTokens];
  const std::int64_t token = position % kBlockTokens;
  const T* in = static_cast<const T*>(p.kv) + row * p.first_width;
  T* out =
      static_cast<T*>(p.cache) + (page * kBlockTokens + token) * (p.first_width + p.second_width);
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
  const auto latent = [&](int i) {
    return round_as<T>(p.norm[i] * round_as<T>(to_f32(in[i]) * scale));
  };
  if (p.fp8.rank != 0) {
    auto* const bytes = static_cast<unsigned char*>(p.cache) + page * p.fp8.bytes();
    write_codes(p.fp8, bytes, token, latent, slots);
    write_side(p, in, position, reinterpret_cast<bf16*>(bytes + p.fp8.side_at(token)));
    return;
  }
  for (int i = threadIdx.x; i < p.rank; i += threads) out[i] = from_f32<T>(latent(i));
  write_side(p, in, position, out + p.rank);
}

}  // namespace baltoro::cuda
