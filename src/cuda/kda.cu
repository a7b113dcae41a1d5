// kda_mix: which body serves a call, and generated rows of any shape and activation type: one block a
// head of a sequence walks them in time order.
#include <algorithm>
#include <type_traits>

#include "cuda/device/reduce.cuh"
#include "cuda/kda.cuh"
#include "cuda/launch.cuh"
#include "cuda/sm90/kda_prefill.cuh"

namespace baltoro::cuda {
namespace {

constexpr int kThreads = 256;
// The state stays in shared memory where it fits beside the row, else in the pool.
constexpr std::size_t kMaxStateBytes = 88 << 10;

// Shared memory of a block: the row in hand, then (where it fits) the state.
struct RowBuffers {
  float* q;         // [Dk]
  float* k;         // [Dk]
  float* v;         // [Dv], follows k: conv channels are q | k | v
  float* decay;     // [Dk]
  float* o;         // [Dv]
  float* partials;  // [kThreads]
  float* slots;     // [32], of block_sum
  float* state;     // [Dk, Dv]
};

__host__ __device__ constexpr int row_floats(int dk, int dv) {
  return 3 * dk + 2 * dv + kThreads + 32;
}

__device__ RowBuffers carve(float* base, int dk, int dv) {
  RowBuffers b;
  b.q = base;
  b.k = b.q + dk;
  b.v = b.k + dk;
  b.decay = b.v + dv;
  b.o = b.decay + dk;
  b.partials = b.o + dv;
  b.slots = b.partials + kThreads;
  b.state = b.slots + 32;
  return b;
}

// Conv, SiLU, L2 norm and decays of row t into the buffers.
template <typename T>
__device__ void prepare_row(const KdaParams<T>& p, const DeviceSequence& sequence, int head,
                            std::int64_t t, const RowBuffers& b) {
  for (int c = threadIdx.x; c < 2 * p.dk + p.dv; c += kThreads) {
    const ConvChannel<T> channel = conv_channel(p, head, c);
    float sum = 0;
    for (int j = 0; j < p.width; ++j) {
      sum += channel.taps[j] * conv_input(p, sequence, channel, t - (p.width - 1) + j);
    }
    b.q[c] = round_as<T>(silu(sum));
  }
  const int decays = p.decay_per_head ? 1 : p.dk;
  const float rate = expf(p.a_log[head]);
  for (int d = threadIdx.x; d < p.dk; d += kThreads) {
    const std::int64_t c = static_cast<std::int64_t>(head) * decays + (p.decay_per_head ? 0 : d);
    const std::int64_t row = sequence.first_row + t;
    const float z = to_f32(p.decay_logits[row * p.heads * decays + c]) + p.dt_bias[c];
    b.decay[d] = expf(log_decay(z, rate, p.lower_bound));
  }
  __syncthreads();
  float q_squares = 0, k_squares = 0;
  for (int d = threadIdx.x; d < p.dk; d += kThreads) {
    q_squares += b.q[d] * b.q[d];
    k_squares += b.k[d] * b.k[d];
  }
  const float q_norm = 1.0f / sqrtf(block_sum(q_squares, b.slots) + kL2NormEps);
  const float k_norm = 1.0f / sqrtf(block_sum(k_squares, b.slots) + kL2NormEps);
  const float q_scale = 1.0f / sqrtf(static_cast<float>(p.dk));
  for (int d = threadIdx.x; d < p.dk; d += kThreads) {
    const float q = b.q[d] * q_norm, k = b.k[d] * k_norm;
    b.q[d] = q * q_scale;
    b.k[d] = k;
  }
  __syncthreads();
}

// Sum of `partials` [parts, Dv] at one column.
__device__ __forceinline__ float sum_parts(const float* partials, int parts, int dv, int column) {
  float sum = 0;
  for (int part = 0; part < parts; ++part) sum += partials[part * dv + column];
  return sum;
}

// The delta rule on the buffers' row: `state` advances, o is left in b.o. Each column of the state
// belongs to `parts` threads, which share its rows.
template <typename T>
__device__ void delta_rule(const KdaParams<T>& p, float beta, const RowBuffers& b, float* state) {
  const int parts = max(1, kThreads / p.dv);
  const int part = static_cast<int>(threadIdx.x) / p.dv;
  const int column = static_cast<int>(threadIdx.x) % p.dv;
  const bool works = part < parts;
  if (works) {
    float predicted = 0;
    for (int d = part; d < p.dk; d += parts) {
      const float decayed = state[d * p.dv + column] * b.decay[d];
      state[d * p.dv + column] = decayed;
      predicted += decayed * b.k[d];
    }
    b.partials[threadIdx.x] = predicted;
  }
  __syncthreads();
  float correction = 0;
  if (works) correction = beta * (b.v[column] - sum_parts(b.partials, parts, p.dv, column));
  __syncthreads();
  if (works) {
    float read = 0;
    for (int d = part; d < p.dk; d += parts) {
      const float updated = state[d * p.dv + column] + b.k[d] * correction;
      state[d * p.dv + column] = updated;
      read += updated * b.q[d];
    }
    b.partials[threadIdx.x] = read;
  }
  __syncthreads();
  if (part == 0) b.o[column] = round_as<T>(sum_parts(b.partials, parts, p.dv, column));
  __syncthreads();
}

template <typename T>
__device__ void store_output(const KdaParams<T>& p, int head, std::int64_t row,
                             const RowBuffers& b) {
  float squares = 0;
  for (int c = threadIdx.x; c < p.dv; c += kThreads) squares += b.o[c] * b.o[c];
  const float mean = block_sum(squares, b.slots) / static_cast<float>(p.dv);
  const float scale = 1.0f / sqrtf(mean + p.norm_eps);
  const std::int64_t at = (row * p.heads + head) * p.dv;
  for (int c = threadIdx.x; c < p.dv; c += kThreads) {
    const float gate = p.gate == nullptr ? 1.0f : sigmoid(to_f32(p.gate[at + c]));
    p.out[at + c] = from_f32<T>(b.o[c] * scale * p.o_norm[c] * gate);
  }
}

template <typename To, typename From>
__device__ void copy_state(To* to, const From* from, int count) {
  for (int i = threadIdx.x; i < count; i += kThreads) to[i] = from_f32<To>(to_f32(from[i]));
}

// As the pool rounds after each row.
template <typename S>
__device__ void round_state(float* state, int count) {
  if constexpr (!std::is_same_v<S, float>) {
    for (int i = threadIdx.x; i < count; i += kThreads) state[i] = round_as<S>(state[i]);
  }
}

template <typename T, typename S>
__global__ void __launch_bounds__(kThreads) walk_rows(KdaParams<T> p, bool state_is_shared) {
  extern __shared__ float shared[];
  const int head = static_cast<int>(blockIdx.x);
  const DeviceSequence sequence = p.sequences[blockIdx.y];
  if (!sequence.is_generated) return;
  const RowBuffers b = carve(shared, p.dk, p.dv);
  S* stored = head_state<S>(p, sequence.state_slot, head);
  // A bf16 state is always in shared memory.
  float* state = state_is_shared ? b.state : reinterpret_cast<float*>(stored);
  if (state_is_shared) copy_state(state, stored, p.dk * p.dv);
  for (std::int64_t t = 0; t < sequence.num_rows; ++t) {
    const std::int64_t row = sequence.first_row + t;
    prepare_row(p, sequence, head, t, b);
    delta_rule(p, sigmoid(to_f32(p.beta_logits[row * p.heads + head])), b, state);
    store_output(p, head, row, b);
    round_state<S>(state, p.dk * p.dv);
  }
  if (state_is_shared) copy_state(stored, state, p.dk * p.dv);
  for (int c = threadIdx.x; c < 2 * p.dk + p.dv; c += kThreads) {
    store_history(p, sequence, conv_channel(p, head, c), sequence.num_rows, sequence.state_slot);
  }
}

template <typename T>
void mix_rows(Context& context, const KdaParams<T>& p, const DeviceBatch& batch) {
  const std::size_t state_bytes = static_cast<std::size_t>(p.dk) * p.dv * sizeof(float);
  const bool shared = state_bytes <= kMaxStateBytes;
  if (p.bf16_state && !shared) unsupported("kda_mix", "bf16 states of heads above 150 x 150");
  with_state_type(p, [&](auto state) {
    launch(
        {.name = "kda_mix",
         .grid = dim3(static_cast<unsigned>(p.heads), static_cast<unsigned>(batch.num_sequences)),
         .block = dim3(kThreads),
         .shared_bytes = row_floats(p.dk, p.dv) * sizeof(float) + (shared ? state_bytes : 0),
         .stream = context.stream},
        walk_rows<T, decltype(state)>, p, shared);
  });
}

bool has(const BatchView& batch, Origin origin) {
  return std::any_of(batch.sequences.begin(), batch.sequences.end(),
                     [origin](const SequenceRows& s) { return s.origin == origin; });
}

// The head of the released models, which the fast kernels are made for.
bool is_released_head(const KdaShape& shape) {
  return shape.head_dim_k == 128 && shape.head_dim_v == 128 && shape.conv_width == 4 &&
         !shape.decay_per_head;
}

template <typename T>
void mix(Context& context, const KdaMixArgs& args) {
  const DeviceBatch batch = context.stage.batch(args.batch);
  const KdaParams<T> p = kda_params<T>(args, batch);
  const bool is_released = is_released_head(args.shape);
  if (has(args.batch, Origin::kGenerated)) {
    if (is_released) {
      kda_decode(context, p, batch);
    } else {
      mix_rows(context, p, batch);
    }
  }
  if (!has(args.batch, Origin::kPrompt)) return;
  if constexpr (std::is_same_v<T, bf16>) {
    if (is_released && has_kda_prefill(context)) {
      kda_prefill(context, p, batch);
      return;
    }
  }
  kda_chunk(context, p, batch);
}

}  // namespace

void kda_mix(Context& context, const KdaMixArgs& args) {
  if (args.shape.head_dim_v > kThreads) unsupported("kda_mix", "value heads above 256");
  if (context.activation == DType::kBf16) {
    mix<bf16>(context, args);
  } else {
    mix<float>(context, args);
  }
}

}  // namespace baltoro::cuda
