// The middle of a Kimi Delta Attention layer: short conv, SiLU, L2 norm, gates, delta rule, output
// norm and gate (specification 3.1-3.7; K3 report, Kimi Linear report). The projections before and
// after are `linear`.
#pragma once

#include <cstdint>
#include <optional>

#include "core/dtype.h"
#include "core/tensor_view.h"
#include "ops/backend.h"
#include "ops/batch.h"
#include "ops/cost.h"

namespace baltoro {

// Inside the root of the q and k L2 norm: x * rsqrt(sum x^2 + eps), as in flash-linear-attention.
constexpr float kL2NormEps = 1e-6f;

struct KdaShape {
  std::int64_t num_heads = 0;   // H
  std::int64_t head_dim_k = 0;  // Dk
  std::int64_t head_dim_v = 0;  // Dv
  std::int64_t conv_width = 0;  // W >= 1
  // Gated DeltaNet: one forget gate a head instead of one a key channel.
  bool decay_per_head = false;

  std::int64_t key_channels() const { return num_heads * head_dim_k; }
  std::int64_t value_channels() const { return num_heads * head_dim_v; }
  std::int64_t conv_channels() const { return 2 * key_channels() + value_channels(); }
  std::int64_t decay_channels() const { return decay_per_head ? num_heads : key_channels(); }
  // f32 elements of one slot.
  std::int64_t state_elements() const { return num_heads * head_dim_k * head_dim_v; }
  std::int64_t conv_elements() const { return (conv_width - 1) * conv_channels(); }
};

// Pools of per-sequence state; a slot's content at position 0 is all zero.
struct KdaStatePool {
  void* state = nullptr;  // [slots, H, Dk, Dv]
  float* conv = nullptr;  // [slots, W - 1, q|k|v channels], oldest first: the projection outputs
                          // before the conv
  std::int64_t num_slots = 0;
  // Of `state`: kF32, or kBf16 where the backend serves that. A bf16 state is rounded after each
  // generated row and at the end of each block of a prompt; o reads it as it is before.
  DType dtype = DType::kF32;

  float* f32() const { return static_cast<float*>(state); }
};

// For each row t of a sequence, in order. All f32 (reference: double); round() acts in bf16 mode.
//   conv    y[c] = sum_j w[c, j] x[t - (W-1) + j, c];  x' = round(y * sigmoid(y))      of q, k and v
//   norm    q = q' * rsqrt(sum q'^2 + 1e-6) * Dk^-0.5;  k likewise, without the factor
//           the prompt form rounds both, q before its factor
//   decay   z = decay_logits + dt_bias
//           g = lower_bound * sigmoid(exp(a_log[h]) z)                                 bounded
//           g = -exp(a_log[h]) * softplus(z)                                           else
//   beta    sigmoid(beta_logits)
//   rule    S <- Diag(exp g) S;  S <- S + k (beta (v - S^T k))^T;  o = round(S^T q)    per head
//           o reads the new S
//   output  out = round(o * rsqrt(mean o^2 + norm_eps) * o_norm * sigmoid(gate))
//           without a gate: no sigmoid factor
// Origin::kPrompt uses the chunkwise form on absolute blocks of kBlockTokens (specification 3.6),
// Origin::kGenerated the recurrence. No exponent argument is positive, except where the bounded
// gate proves it at most 80.
struct KdaMixArgs {
  int layer = -1;
  KdaShape shape;
  BatchView batch;
  ConstTensorView q;                      // [M, H*Dk] linear outputs
  ConstTensorView k;                      // [M, H*Dk]
  ConstTensorView v;                      // [M, H*Dv]
  ConstTensorView decay_logits;           // [M, H*Dk], or [M, H] with decay_per_head
  ConstTensorView beta_logits;            // [M, H]
  ConstTensorView gate;                   // [M, H*Dv] or empty
  const float* q_conv = nullptr;          // [H*Dk, W], tap W-1 multiplies the current token
  const float* k_conv = nullptr;          // [H*Dk, W]
  const float* v_conv = nullptr;          // [H*Dv, W]
  const float* a_log = nullptr;           // [H]
  const float* dt_bias = nullptr;         // [H*Dk], or [H] with decay_per_head
  const float* o_norm = nullptr;          // [Dv]
  std::optional<float> gate_lower_bound;  // in [-5, 0)
  float norm_eps = 0;
  KdaStatePool pool;
  TensorView out;  // [M, H*Dv]; may alias no input
};

void kda_mix(Backend& backend, const KdaMixArgs& args);

// One layer over `rows` tokens of `sequences` sequences. FLOPs: 7 H Dk Dv a token (decay 1, predict
// 2, write 2, read 2) and 2 W a conv channel, for both origins; executed FLOPs of prompts are those
// of the chunk form, 6 Dk Dv + C (2 Dk + Dv) + C^2 a token and head with C = kBlockTokens. An
// output gate is counted. State and conv history move once each way per sequence, the history in
// f32.
Cost kda_mix_cost(const KdaShape& shape, std::int64_t rows, std::int64_t sequences,
                  DType activation_dtype, Origin origin = Origin::kGenerated,
                  DType state_dtype = DType::kF32);

}  // namespace baltoro
