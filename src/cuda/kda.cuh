// What every KDA kernel sees of a KdaMixArgs, and the steps before and after the delta rule that
// they share. All arithmetic is f32; T is the type of activations in memory.
#pragma once

#include "cuda/batch_stage.h"
#include "cuda/context.h"
#include "cuda/device/activation.cuh"
#include "ops/kda.h"

namespace baltoro::cuda {

// Shapes of views, weights and pools as in ops/kda.h.
template <typename T>
struct KdaParams {
  const T* q;
  const T* k;
  const T* v;
  const T* decay_logits;
  const T* beta_logits;
  const T* gate;  // or null
  T* out;
  const float* q_conv;
  const float* k_conv;
  const float* v_conv;
  const float* a_log;
  const float* dt_bias;
  const float* o_norm;
  void* state;  // of f32 or, with bf16_state, of bf16
  float* conv;
  const DeviceSequence* sequences;
  const DeviceBlock* blocks;
  const std::int32_t* first_block;
  float norm_eps;
  float lower_bound;  // of the log decay; 0: the softplus form
  int heads;
  int dk;
  int dv;
  int width;
  bool decay_per_head;
  bool bf16_state;
};

// Calls with a value of the type that the pool's states have.
template <typename T, typename Body>
void with_state_type(const KdaParams<T>& p, Body&& body) {
  if (p.bf16_state) {
    body(bf16());
  } else {
    body(float());
  }
}

template <typename T>
KdaParams<T> kda_params(const KdaMixArgs& args, const DeviceBatch& batch) {
  const auto in = [](const ConstTensorView& view) { return static_cast<const T*>(view.data); };
  return {.q = in(args.q),
          .k = in(args.k),
          .v = in(args.v),
          .decay_logits = in(args.decay_logits),
          .beta_logits = in(args.beta_logits),
          .gate = args.gate ? in(args.gate) : nullptr,
          .out = static_cast<T*>(args.out.data),
          .q_conv = args.q_conv,
          .k_conv = args.k_conv,
          .v_conv = args.v_conv,
          .a_log = args.a_log,
          .dt_bias = args.dt_bias,
          .o_norm = args.o_norm,
          .state = args.pool.state,
          .conv = args.pool.conv,
          .sequences = batch.sequences,
          .blocks = batch.blocks,
          .first_block = batch.first_block,
          .norm_eps = args.norm_eps,
          .lower_bound = args.gate_lower_bound.value_or(0.0f),
          .heads = static_cast<int>(args.shape.num_heads),
          .dk = static_cast<int>(args.shape.head_dim_k),
          .dv = static_cast<int>(args.shape.head_dim_v),
          .width = static_cast<int>(args.shape.conv_width),
          .decay_per_head = args.shape.decay_per_head,
          .bf16_state = args.pool.dtype == DType::kBf16};
}

// A channel of one head as the conv sees it: q, then k, then v.
template <typename T>
struct ConvChannel {
  const T* rows;          // [M, stride], at the channel
  const float* taps;      // [W]
  std::int64_t stride;    // of rows
  std::int64_t position;  // in a row of the conv history
};

// c in [0, 2 Dk + Dv).
template <typename T>
__device__ __forceinline__ ConvChannel<T> conv_channel(const KdaParams<T>& p, int head, int c) {
  const std::int64_t keys = static_cast<std::int64_t>(p.heads) * p.dk;
  const bool is_value = c >= 2 * p.dk;
  const bool is_query = c < p.dk;
  const std::int64_t column =
      is_value ? static_cast<std::int64_t>(head) * p.dv + (c - 2 * p.dk)
               : static_cast<std::int64_t>(head) * p.dk + (is_query ? c : c - p.dk);
  const T* rows = is_value ? p.v : (is_query ? p.q : p.k);
  const float* taps = is_value ? p.v_conv : (is_query ? p.q_conv : p.k_conv);
  return {rows + column, taps + column * p.width,
          is_value ? static_cast<std::int64_t>(p.heads) * p.dv : keys,
          column + (is_value ? 2 * keys : (is_query ? 0 : keys))};
}

template <typename T>
__device__ __forceinline__ std::int64_t conv_channels(const KdaParams<T>& p) {
  return static_cast<std::int64_t>(p.heads) * (2 * p.dk + p.dv);
}

// History of one slot, [W - 1, channels].
template <typename T>
__device__ __forceinline__ float* conv_history(const KdaParams<T>& p, std::int64_t slot) {
  return p.conv + slot * (p.width - 1) * conv_channels(p);
}

// State of one head of one slot, [Dk, Dv] of S.
template <typename S, typename T>
__device__ __forceinline__ S* head_state(const KdaParams<T>& p, std::int64_t slot, int head) {
  return static_cast<S*>(p.state) + (slot * p.heads + head) * p.dk * p.dv;
}

// The conv input of row t of the sequence; rows before the call's first come from the slot.
template <typename T>
__device__ __forceinline__ float conv_input(const KdaParams<T>& p, const DeviceSequence& sequence,
                                            const ConvChannel<T>& channel, std::int64_t t) {
  if (t >= 0) return to_f32(channel.rows[(sequence.first_row + t) * channel.stride]);
  return conv_history(p,
                      sequence.state_slot)[(t + p.width - 1) * conv_channels(p) + channel.position];
}

// The W - 1 inputs before row `end` into `slot`. In place, a source is never older than its
// destination: oldest first is safe as long as one thread does the whole channel.
template <typename T>
__device__ __forceinline__ void store_history(const KdaParams<T>& p, const DeviceSequence& sequence,
                                              const ConvChannel<T>& channel, std::int64_t end,
                                              std::int64_t slot) {
  for (int j = 0; j < p.width - 1; ++j) {
    conv_history(p, slot)[j * conv_channels(p) + channel.position] =
        conv_input(p, sequence, channel, end - (p.width - 1) + j);
  }
}

// log decay, never positive. `rate` = exp(a_log of the head), `lower_bound` 0: softplus form.
__device__ __forceinline__ float log_decay(float z, float rate, float lower_bound) {
  return lower_bound < 0 ? lower_bound * sigmoid(rate * z) : -rate * softplus(z);
}

// Generated rows of a batch, in f32 or bf16 activations. Dk = Dv = 128, W = 4, a decay per channel.
template <typename T>
void kda_decode(Context& context, const KdaParams<T>& p, const DeviceBatch& batch);

// Prompts of a batch, any shape.
template <typename T>
void kda_chunk(Context& context, const KdaParams<T>& p, const DeviceBatch& batch);

}  // namespace baltoro::cuda
