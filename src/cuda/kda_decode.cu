// One launch from conv to gate for generated rows, in the head size of the released models. A
// block holds one head's state in registers: every warp has some of the Dk rows, every lane four of
// the Dv columns. The state is read and written once, which is nearly all of the traffic.
#include "cuda/device/reduce.cuh"
#include "cuda/kda.cuh"
#include "cuda/launch.cuh"

namespace baltoro::cuda {
namespace {

constexpr int kD = 128;
constexpr int kWidth = 4;

template <int kWarps>
struct DecodeShared {
  float q[kD];  // q, k: after SiLU, before their norm
  float k[kD];
  float v[kD];
  float decay[kD];
  // Sums over one warp's rows of the decayed state times k and times q.
  float4 by_k[kWarps][kD / 4];
  float4 by_q[kWarps][kD / 4];
};

// The window of one thread's conv channels; one thread in four makes decays instead.
template <typename T, int kChannels>
struct ConvThread {
  ConvChannel<T> channel[kChannels];
  float4 taps[kChannels];
  float window[kChannels][kWidth - 1];

  __device__ void load(const KdaParams<T>& p, const DeviceSequence& sequence, int head, int first) {
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
      channel[i] = conv_channel(p, head, first + i);
      taps[i] = *reinterpret_cast<const float4*>(channel[i].taps);
#pragma unroll
      for (int j = 0; j < kWidth - 1; ++j) {
        window[i][j] = conv_input(p, sequence, channel[i], j - (kWidth - 1));
      }
    }
  }
  // Channel i of `row`, and the window moves on.
  __device__ float activated(int i, std::int64_t row) {
    const float x = to_f32(channel[i].rows[row * channel[i].stride]);
    const float sum = taps[i].x * window[i][0] + taps[i].y * window[i][1] +
                      taps[i].z * window[i][2] + taps[i].w * x;
    window[i][0] = window[i][1];
    window[i][1] = window[i][2];
    window[i][2] = x;
    return round_as<T>(silu(sum));
  }
  __device__ void store(const KdaParams<T>& p, const DeviceSequence& sequence) const {
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
#pragma unroll
      for (int j = 0; j < kWidth - 1; ++j) {
        conv_history(p, sequence.state_slot)[j * conv_channels(p) + channel[i].position] =
            window[i][j];
      }
    }
  }
};

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

template <int kWarps>
__device__ __forceinline__ float4 sum_warps(const float4 (&partial)[kWarps][kD / 4], int lane) {
  float4 sum = partial[0][lane];
#pragma unroll
  for (int w = 1; w < kWarps; ++w) sum = fma(1.0f, partial[w][lane], sum);
  return sum;
}

// Scales of the L2 norms, and q . k after them; q's has Dk^-1/2 in it.
struct Norms {
  float q, k, qk;
};
template <int kWarps>
__device__ Norms norms_of(const DecodeShared<kWarps>& shared, int lane) {
  const float4 q = reinterpret_cast<const float4*>(shared.q)[lane];
  const float4 k = reinterpret_cast<const float4*>(shared.k)[lane];
  Norms n;
  n.q = 1.0f / sqrtf(warp_sum(dot(q, q)) + kL2NormEps) * 0.08838834764831845f;
  n.k = 1.0f / sqrtf(warp_sum(dot(k, k)) + kL2NormEps);
  n.qk = warp_sum(dot(q, k)) * n.q * n.k;
  return n;
}

// round(o) -> norm, gate, out; lane has four of the head's columns.
template <typename T>
__device__ void store_output(const KdaParams<T>& p, int head, std::int64_t row, int lane,
                             float4 o) {
  float values[4] = {round_as<T>(o.x), round_as<T>(o.y), round_as<T>(o.z), round_as<T>(o.w)};
  float squares = 0;
  for (const float value : values) squares += value * value;
  const float scale = 1.0f / sqrtf(warp_sum(squares) * (1.0f / kD) + p.norm_eps);
  const std::int64_t at = (row * p.heads + head) * kD + 4 * lane;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float gate = p.gate == nullptr ? 1.0f : sigmoid(to_f32(p.gate[at + i]));
    p.out[at + i] = from_f32<T>(values[i] * scale * p.o_norm[4 * lane + i] * gate);
  }
}

template <typename T, int kWarps, int kMinBlocks>
__global__ void __launch_bounds__(32 * kWarps, kMinBlocks) decode_rows(KdaParams<T> p) {
  constexpr int kRows = kD / kWarps;                 // of the state in one warp
  constexpr int kChannels = 4 * kD / (32 * kWarps);  // of q, k, v and the decay in one thread
  __shared__ DecodeShared<kWarps> shared;
  const int head = static_cast<int>(blockIdx.x), lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const DeviceSequence sequence = p.sequences[blockIdx.y];
  if (!sequence.is_generated) return;
  float4* stored = reinterpret_cast<float4*>(head_state(p, sequence.state_slot, head)) +
                   warp * kRows * (kD / 4) + lane;
  float4 state[kRows];
#pragma unroll
  for (int i = 0; i < kRows; ++i) state[i] = stored[i * (kD / 4)];

  const int first = static_cast<int>(threadIdx.x) * kChannels;  // q | k | v | decay
  const bool has_decay = first >= 3 * kD;
  ConvThread<T, kChannels> conv;
  if (!has_decay) conv.load(p, sequence, head, first);
  const float rate = expf(p.a_log[head]);
  for (std::int64_t t = 0; t < sequence.num_rows; ++t) {
    const std::int64_t row = sequence.first_row + t;
    const float beta = sigmoid(to_f32(p.beta_logits[row * p.heads + head]));
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
      if (has_decay) {
        const int c = head * kD + first + i - 3 * kD;
        const float z = to_f32(p.decay_logits[row * p.heads * kD + c]) + p.dt_bias[c];
        shared.decay[first + i - 3 * kD] = expf(log_decay(z, rate, p.lower_bound));
      } else {
        shared.q[first + i] = conv.activated(i, row);
      }
    }
    __syncthreads();
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
    __syncthreads();
    // delta = beta (v - S^T k);  o = S'^T q = S^T q + (q . k) delta
    const float4 v = reinterpret_cast<const float4*>(shared.v)[lane];
    const float4 delta = scaled(beta, fma(-norms.k, sum_warps(shared.by_k, lane), v));
    if (warp == 0) {
      const float4 read = scaled(norms.q, sum_warps(shared.by_q, lane));
      store_output(p, head, row, lane, fma(norms.qk, delta, read));
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      state[i] = fma(norms.k * shared.k[warp * kRows + i], delta, state[i]);
    }
    if (t + 1 < sequence.num_rows) __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i) stored[i * (kD / 4)] = state[i];
  if (!has_decay) conv.store(p, sequence);
}

}  // namespace

template <typename T>
void kda_decode(Context& context, const KdaParams<T>& p, const DeviceBatch& batch) {
  constexpr int kWarps = 8, kMinBlocks = 2;
  launch({.name = "kda_mix, generated rows",
          .grid = dim3(static_cast<unsigned>(p.heads), static_cast<unsigned>(batch.num_sequences)),
          .block = dim3(32 * kWarps),
          .stream = context.stream},
         decode_rows<T, kWarps, kMinBlocks>, p);
}

template void kda_decode(Context&, const KdaParams<float>&, const DeviceBatch&);
template void kda_decode(Context&, const KdaParams<bf16>&, const DeviceBatch&);

}  // namespace baltoro::cuda
