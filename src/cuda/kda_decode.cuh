// The step of a generated row, in the head size of the released models: what the decode kernels
// share, so that a row has the same bits in all of them.
#pragma once

#include "cuda/device/reduce.cuh"
#include "cuda/kda.cuh"

namespace baltoro::cuda {

constexpr int kDecodeHead = 128;  // Dk = Dv
constexpr int kDecodeWidth = 4;

struct DecodeRow {
  float q[kDecodeHead];  // q, k: after SiLU, before their norm
  float k[kDecodeHead];
  float v[kDecodeHead];
  float decay[kDecodeHead];
};

// Sums of products are written out, so that no compiler contracts them otherwise in another kernel.
__device__ __forceinline__ float dot(float4 a, float4 b) {
  return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, a.x * b.x)));
}
// acc + a b
__device__ __forceinline__ float4 fma(float a, float4 b, float4 acc) {
  return {fmaf(a, b.x, acc.x), fmaf(a, b.y, acc.y), fmaf(a, b.z, acc.z), fmaf(a, b.w, acc.w)};
}

// What one of kThreads threads reads of a row beside the state, all of it before the first use, for
// each wait costs as much as the rest of a step. Its channels are kThreads apart, so that a warp's
// are of one kind: three in four go through the conv, the others are decays.
template <typename T, int kThreads>
struct DecodeInputs {
  static constexpr int kChannels = 4 * kDecodeHead / kThreads;
  int thread;  // in [0, kThreads)
  float4 taps[kChannels];
  float window[kChannels][kDecodeWidth - 1];  // oldest first
  float bias[kChannels];                      // of decays
  float x[kChannels];                         // conv input or decay logit
  float rate, beta;

  // Of q | k | v | decay.
  __device__ int channel(int i) const {
    __builtin_assume(thread >= 0 && thread < kThreads);  // most kinds follow from i alone
    return thread + i * kThreads;
  }
  __device__ bool is_decay(int i) const { return channel(i) >= 3 * kDecodeHead; }

  __device__ void load_weights(const KdaParams<T>& p, int head) {
    rate = p.a_log[head];
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
      if (is_decay(i)) {
        bias[i] = p.dt_bias[head * kDecodeHead + channel(i) - 3 * kDecodeHead];
      } else {
        taps[i] = *reinterpret_cast<const float4*>(conv_channel(p, head, channel(i)).taps);
      }
    }
  }
  // Calls with each conv channel of the thread, each place in its window and where the history has it.
  template <typename Body>
  __device__ void for_history(const KdaParams<T>& p, std::int64_t slot, int head, Body&& body) {
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
      if (is_decay(i)) continue;
      float* at = conv_history(p, slot) + conv_channel(p, head, channel(i)).position;
#pragma unroll
      for (int j = 0; j < kDecodeWidth - 1; ++j) body(i, j, at + j * conv_channels(p));
    }
  }
  __device__ void load_slot(const KdaParams<T>& p, std::int64_t slot, int head) {
    for_history(p, slot, head, [&](int i, int j, const float* at) { window[i][j] = *at; });
  }
  // What load_slot reads, into L2.
  __device__ void prefetch_slot(const KdaParams<T>& p, std::int64_t slot, int head) {
    for_history(p, slot, head, [](int, int, const float* at) {
      asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
    });
  }
  __device__ void store_slot(const KdaParams<T>& p, std::int64_t slot, int head) {
    for_history(p, slot, head, [&](int i, int j, float* at) { *at = window[i][j]; });
  }
  __device__ void load_row(const KdaParams<T>& p, std::int64_t row, int head) {
    const std::int64_t at = (row * p.heads + head) * kDecodeHead;
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
      const int c = channel(i);
      const T* from = c < kDecodeHead       ? p.q + c
                      : c < 2 * kDecodeHead ? p.k + (c - kDecodeHead)
                      : c < 3 * kDecodeHead ? p.v + (c - 2 * kDecodeHead)
                                            : p.decay_logits + (c - 3 * kDecodeHead);
      x[i] = to_f32(from[at]);
    }
    beta = to_f32(p.beta_logits[row * p.heads + head]);
  }
  // Activated inputs and decays to shared memory; the window moves on.
  __device__ void make(const KdaParams<T>& p, DecodeRow& row) {
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
      if (is_decay(i)) {
        row.q[channel(i)] = expf(log_decay(x[i] + bias[i], expf(rate), p.lower_bound));
        continue;
      }
      const float sum = dot(taps[i], {window[i][0], window[i][1], window[i][2], x[i]});
      window[i][0] = window[i][1];
      window[i][1] = window[i][2];
      window[i][2] = x[i];
      row.q[channel(i)] = round_as<T>(silu(sum));
    }
  }
};

__device__ __forceinline__ float4 scaled(float a, float4 b) {
  return {a * b.x, a * b.y, a * b.z, a * b.w};
}

__device__ __forceinline__ float4 load_four(const float* from) {
  return *reinterpret_cast<const float4*>(from);
}
__device__ __forceinline__ float4 load_four(const bf16* from) {
  const uint2 words = *reinterpret_cast<const uint2*>(from);
  return {__uint_as_float(words.x << 16), __uint_as_float(words.x & 0xffff0000u),
          __uint_as_float(words.y << 16), __uint_as_float(words.y & 0xffff0000u)};
}
__device__ __forceinline__ void store_four(float* to, float4 value) {
  *reinterpret_cast<float4*>(to) = value;
}
__device__ __forceinline__ void store_four(bf16* to, float4 value) {
  const __nv_bfloat162 low = __floats2bfloat162_rn(value.x, value.y);
  const __nv_bfloat162 high = __floats2bfloat162_rn(value.z, value.w);
  *reinterpret_cast<uint2*>(to) = {reinterpret_cast<const unsigned&>(low),
                                   reinterpret_cast<const unsigned&>(high)};
}

__device__ __forceinline__ float4 operator+(float4 a, float4 b) {
  return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
}

// Sums over the rows of a state have one order, whatever holds them: rows r, r + 8, r + 16, ... one
// after the other, then these eight by halves.
constexpr int kRowClasses = 8;

template <typename V, int kLanes>
__device__ __forceinline__ V sum_classes(const V (&partial)[kRowClasses][kLanes], int lane) {
  const V low = (partial[0][lane] + partial[4][lane]) + (partial[2][lane] + partial[6][lane]);
  const V high = (partial[1][lane] + partial[5][lane]) + (partial[3][lane] + partial[7][lane]);
  return low + high;
}

// The same where lane / 4 is the class: of eight values, four of `a` and four of `b`, a lane gets the sum
// of value lane / 4 over the lanes with its lane % 4.
__device__ __forceinline__ float sum_classes(float4 a, float4 b, int lane) {
  const auto halve = [&](float low, float high, int bit) {
    const bool upper = (lane & bit) != 0;
    return (upper ? high : low) + __shfl_xor_sync(0xffffffffu, upper ? low : high, bit);
  };
  const float x = halve(a.x, b.x, 16), y = halve(a.y, b.y, 16);
  const float z = halve(a.z, b.z, 16), w = halve(a.w, b.w, 16);
  return halve(halve(x, z, 8), halve(y, w, 8), 4);
}

// Scales of the L2 norms, and q . k after them; q's has Dk^-1/2 in it.
struct Norms {
  float q, k, qk;
};
__device__ __forceinline__ Norms norms_of(const DecodeRow& row, int lane) {
  const float4 q = reinterpret_cast<const float4*>(row.q)[lane];
  const float4 k = reinterpret_cast<const float4*>(row.k)[lane];
  Norms n;
  n.q = 1.0f / sqrtf(warp_sum(dot(q, q)) + kL2NormEps) * 0.08838834764831845f;
  n.k = 1.0f / sqrtf(warp_sum(dot(k, k)) + kL2NormEps);
  n.qk = warp_sum(dot(q, k)) * n.q * n.k;
  return n;
}

// Gate logits of a lane's four columns, at `at` and after; zeros without a gate.
template <typename T>
__device__ __forceinline__ float4 load_gate(const KdaParams<T>& p, std::int64_t at) {
  return p.gate == nullptr ? float4{} : load_four(p.gate + at);
}

// round(o) -> norm, gate, out; lane has four of the head's columns, and stores those that are `mine`.
template <typename T>
__device__ void store_decoded(const KdaParams<T>& p, std::int64_t at, float4 o, float4 norm,
                              float4 gate, bool mine = true) {
  const float values[4] = {round_as<T>(o.x), round_as<T>(o.y), round_as<T>(o.z), round_as<T>(o.w)};
  const float weights[4] = {norm.x, norm.y, norm.z, norm.w};
  const float gates[4] = {gate.x, gate.y, gate.z, gate.w};
  float squares = 0;
#pragma unroll
  for (const float value : values) squares += value * value;
  const float scale = 1.0f / sqrtf(warp_sum(squares) * (1.0f / kDecodeHead) + p.norm_eps);
  if (!mine) return;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float factor = p.gate == nullptr ? 1.0f : sigmoid(gates[i]);
    p.out[at + i] = from_f32<T>(values[i] * scale * weights[i] * factor);
  }
}

}  // namespace baltoro::cuda
