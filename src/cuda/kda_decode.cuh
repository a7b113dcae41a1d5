// The step of a generated row, in the head size of the released models: what the decode kernels
// share. The threads hold one head's state: every warp has some of the Dk rows, every lane four of
// the Dv columns.
#pragma once

#include <type_traits>

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

template <int kWarps>
struct DecodeShared : DecodeRow {
  // Sums over one warp's rows of the decayed state times k and times q.
  float4 by_k[kWarps][kDecodeHead / 4];
  float4 by_q[kWarps][kDecodeHead / 4];
};

// What one thread reads of a row beside the state, all of it before the first use, for each wait
// costs as much as the rest of a step. Three threads in four have conv channels, the others decays.
template <typename T, int kChannels>
struct DecodeInputs {
  float4 taps[kChannels];
  float window[kChannels][kDecodeWidth - 1];  // oldest first
  float bias[kChannels];                      // of decays
  float x[kChannels];                         // conv input or decay logit
  float rate, beta;
  float gate[4];  // of the lane's value columns

  __device__ void load_weights(const KdaParams<T>& p, int head, int first) {
    rate = p.a_log[head];
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
      if (first < 3 * kDecodeHead) {
        taps[i] = *reinterpret_cast<const float4*>(conv_channel(p, head, first + i).taps);
      } else {
        bias[i] = p.dt_bias[head * kDecodeHead + first + i - 3 * kDecodeHead];
      }
    }
  }
  __device__ void load_slot(const KdaParams<T>& p, std::int64_t slot, int head, int first) {
    if (first >= 3 * kDecodeHead) return;
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
      const std::int64_t position = conv_channel(p, head, first + i).position;
#pragma unroll
      for (int j = 0; j < kDecodeWidth - 1; ++j) {
        window[i][j] = conv_history(p, slot)[j * conv_channels(p) + position];
      }
    }
  }
  // What load_slot reads, into L2.
  __device__ static void prefetch_slot(const KdaParams<T>& p, std::int64_t slot, int head,
                                       int first) {
    if (first >= 3 * kDecodeHead) return;
    const std::int64_t position = conv_channel(p, head, first).position;
#pragma unroll
    for (int j = 0; j < kDecodeWidth - 1; ++j) {
      asm volatile("prefetch.global.L2 [%0];" ::"l"(conv_history(p, slot) + j * conv_channels(p) +
                                                    position));
    }
  }
  __device__ void load_row(const KdaParams<T>& p, std::int64_t row, int head, int first, int lane) {
    const std::int64_t at = (row * p.heads + head) * kDecodeHead;
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
      const int c = first + i;
      const T* from = c < kDecodeHead       ? p.q + c
                      : c < 2 * kDecodeHead ? p.k + (c - kDecodeHead)
                      : c < 3 * kDecodeHead ? p.v + (c - 2 * kDecodeHead)
                                            : p.decay_logits + (c - 3 * kDecodeHead);
      x[i] = to_f32(from[at]);
    }
    beta = to_f32(p.beta_logits[row * p.heads + head]);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      gate[i] = p.gate == nullptr ? 0.0f : to_f32(p.gate[at + 4 * lane + i]);
    }
  }
  // Activated input or decay of channel i; the window moves on.
  __device__ float make(const KdaParams<T>& p, int i, bool is_decay) {
    if (is_decay) return expf(log_decay(x[i] + bias[i], expf(rate), p.lower_bound));
    const float sum = taps[i].x * window[i][0] + taps[i].y * window[i][1] +
                      taps[i].z * window[i][2] + taps[i].w * x[i];
    window[i][0] = window[i][1];
    window[i][1] = window[i][2];
    window[i][2] = x[i];
    return round_as<T>(silu(sum));
  }
  __device__ void store_slot(const KdaParams<T>& p, std::int64_t slot, int head, int first) const {
    if (first >= 3 * kDecodeHead) return;
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
      const std::int64_t position = conv_channel(p, head, first + i).position;
#pragma unroll
      for (int j = 0; j < kDecodeWidth - 1; ++j) {
        conv_history(p, slot)[j * conv_channels(p) + position] = window[i][j];
      }
    }
  }
};

// q, k, v and the decay of a row to shared memory.
template <typename T, int kChannels>
__device__ __forceinline__ void prepare_row(const KdaParams<T>& p, int first,
                                            DecodeInputs<T, kChannels>& in, DecodeRow& row) {
  const bool is_decay = first >= 3 * kDecodeHead;
#pragma unroll
  for (int i = 0; i < kChannels; ++i) row.q[first + i] = in.make(p, i, is_decay);
}

__device__ __forceinline__ float dot(float4 a, float4 b) {
  return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}
// acc + a b
__device__ __forceinline__ float4 fma(float a, float4 b, float4 acc) {
  return {acc.x + a * b.x, acc.y + a * b.y, acc.z + a * b.z, acc.w + a * b.w};
}
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

template <int kWarps>
__device__ __forceinline__ float4 sum_warps(const float4 (&partial)[kWarps][kDecodeHead / 4],
                                            int lane) {
  float4 sum = partial[0][lane];
#pragma unroll
  for (int w = 1; w < kWarps; ++w) sum = fma(1.0f, partial[w][lane], sum);
  return sum;
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

// round(o) -> norm, gate, out; lane has four of the head's columns, and stores those that are `mine`.
template <typename T>
__device__ void store_decoded(const KdaParams<T>& p, std::int64_t at, float4 o, float4 norm,
                              const float (&gate)[4], bool mine = true) {
  const float values[4] = {round_as<T>(o.x), round_as<T>(o.y), round_as<T>(o.z), round_as<T>(o.w)};
  const float weights[4] = {norm.x, norm.y, norm.z, norm.w};
  float squares = 0;
#pragma unroll
  for (const float value : values) squares += value * value;
  const float scale = 1.0f / sqrtf(warp_sum(squares) * (1.0f / kDecodeHead) + p.norm_eps);
  if (!mine) return;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float factor = p.gate == nullptr ? 1.0f : sigmoid(gate[i]);
    p.out[at + i] = from_f32<T>(values[i] * scale * weights[i] * factor);
  }
}

// A barrier of the kWarps warps that work on a head; others of the block take no part.
template <int kWarps>
__device__ __forceinline__ void sync_head() {
  asm volatile("bar.sync 1, %0;" ::"n"(32 * kWarps) : "memory");
}

// One thread's part in the steps of a head: rows of the state, and its inputs.
template <typename T, int kWarps>
struct DecodeThread {
  static constexpr int kRows = kDecodeHead / kWarps;                 // of the state in one warp
  static constexpr int kChannels = 4 * kDecodeHead / (32 * kWarps);  // of q, k, v and the decay
  using Inputs = DecodeInputs<T, kChannels>;
  const KdaParams<T>& p;
  int warp, lane;
  int first;  // channel of q | k | v | decay
  float4 norm;
  float4 state[kRows];

  __device__ explicit DecodeThread(const KdaParams<T>& params)
      : p(params),
        warp(static_cast<int>(threadIdx.x) / 32),
        lane(static_cast<int>(threadIdx.x) % 32),
        first(static_cast<int>(threadIdx.x) * kChannels),
        norm(reinterpret_cast<const float4*>(params.o_norm)[threadIdx.x % 32]) {}

  // `at`: the head's state, [Dk, Dv] of float or bf16. Into L2, ahead of load_state.
  template <typename S>
  __device__ void prefetch_state(const S* at) const {
    constexpr int kLine = 128 / sizeof(S);
    for (int i = static_cast<int>(threadIdx.x) * kLine; i < kDecodeHead * kDecodeHead;
         i += 32 * kWarps * kLine) {
      asm volatile("prefetch.global.L2 [%0];" ::"l"(at + i));
    }
  }
  template <typename S>
  __device__ void load_state(const S* at) {
    const S* from = at + warp * kRows * kDecodeHead + 4 * lane;
#pragma unroll
    for (int i = 0; i < kRows; ++i) state[i] = load_four(from + i * kDecodeHead);
  }
  template <typename S>
  __device__ void store_state(S* at) const {
    S* to = at + warp * kRows * kDecodeHead + 4 * lane;
#pragma unroll
    for (int i = 0; i < kRows; ++i) store_four(to + i * kDecodeHead, state[i]);
  }
  // What store_state and load_state would make of it.
  template <typename S>
  __device__ void round_state() {
    if constexpr (!std::is_same_v<S, float>) {
#pragma unroll
      for (float4& s : state) {
        s = {round_as<S>(s.x), round_as<S>(s.y), round_as<S>(s.z), round_as<S>(s.w)};
      }
    }
  }
  __device__ void prepare(DecodeShared<kWarps>& shared, Inputs& in) const {
    prepare_row(p, first, in, shared);
  }
  // The delta rule and the output of a row, after a barrier.
  __device__ void advance(DecodeShared<kWarps>& shared, std::int64_t at, float beta,
                          const float (&gate)[4]) {
    const Norms norms = norms_of(shared, lane);
    float4 by_k{}, by_q{};
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int d = warp * kRows + i;
      state[i] = scaled(shared.decay[d], state[i]);
      by_k = fma(shared.k[d], state[i], by_k);
      by_q = fma(shared.q[d], state[i], by_q);
    }
    shared.by_k[warp][lane] = by_k;
    shared.by_q[warp][lane] = by_q;
    sync_head<kWarps>();
    // delta = beta (v - S^T k);  o = S'^T q = S^T q + (q . k) delta
    const float4 v = reinterpret_cast<const float4*>(shared.v)[lane];
    const float4 delta = scaled(sigmoid(beta), fma(-norms.k, sum_warps(shared.by_k, lane), v));
    if (warp == 0) {
      const float4 read = scaled(norms.q, sum_warps(shared.by_q, lane));
      store_decoded(p, at + 4 * lane, fma(norms.qk, delta, read), norm, gate);
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      state[i] = fma(norms.k * shared.k[warp * kRows + i], delta, state[i]);
    }
  }
};

}  // namespace baltoro::cuda
