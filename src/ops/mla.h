// The middle of a gated MLA layer: latent norm, cache write, attention, output gate (specification
// 4). Two forms of one function: expanded for tokens that arrive as prompt (MHA over up-projected
// keys and values), absorbed for generated ones (MQA over the latent).
#pragma once

#include <cstdint>
#include <optional>

#include "core/tensor_view.h"
#include "ops/backend.h"
#include "ops/batch.h"
#include "ops/cost.h"

namespace baltoro {

enum class MlaKind : std::uint8_t {
  kLatent,  // K and V of each head are up-projections of one cached latent
  kMqa,     // queries of latent width meet the latent directly; only V is up-projected
  kGqa,     // G explicit key and value heads, no latent
};

struct MlaShape {
  MlaKind kind = MlaKind::kLatent;
  std::int64_t num_heads = 0;     // H
  std::int64_t num_kv_heads = 0;  // G; used by kGqa only
  std::int64_t nope_dim = 0;      // Dn; equals kv_rank for kMqa
  std::int64_t rope_dim = 0;      // Dr, the side branch; 0 for none and for kGqa
  std::int64_t v_head_dim = 0;    // Dv
  std::int64_t kv_rank = 0;       // Ckv; 0 for kGqa

  std::int64_t qk_dim() const { return nope_dim + rope_dim; }
  // Values cached a token: latent and side key, or the keys then the values of all G heads.
  std::int64_t cache_width() const {
    return kind == MlaKind::kGqa ? num_kv_heads * (nope_dim + v_head_dim) : kv_rank + rope_dim;
  }
  // Rows of kv_b: per head Dn key rows then Dv value rows (kLatent), or Dv value rows (kMqa).
  std::int64_t kv_b_rows() const {
    return num_heads * (kind == MlaKind::kLatent ? nope_dim + v_head_dim : v_head_dim);
  }
};

// One layer's pages: [pages, kBlockTokens, cache_width]; of kE4m3: pages as in latent_page.h.
struct MlaCache {
  void* data = nullptr;
  DType dtype = DType::kF32;
  std::int64_t num_pages = 0;
};
std::int64_t cache_page_bytes(const MlaShape& shape, DType dtype);

// Per row, in order:
//   c = round(kv[0:Ckv] * rsqrt(mean + eps)) * kv_norm, rounded again;  s = kv[Ckv:], the side key
//   with rope_theta, s and the side part of q are rotated by their position
//   the cache row of this position becomes [c | s]; kGqa: [k heads | v heads] as projected
//   a cache of kE4m3 keeps c as fp8 codes and s as bf16 (latent_page.h); below, c and s are what it gives
//
//   expanded   k_h = [W_UK,h c | s], v_h = W_UV,h c
//              p = softmax_{j <= t}(q_h . k_h,j * qk_dim^-0.5);  a_h = round(sum_j p_j v_h,j)
//   absorbed   q~ = W_UK,h^T q_nope;  scores q~ . c_j + q_side . s_j at the same scale
//              a_h = round(W_UV,h sum_j p_j c_j)
//
//   out = round(a * round(sigmoid(gate))); without a gate: a
// kMqa: q_nope meets c directly. kGqa: head h reads heads h / (H/G); both forms are one.
// Keys are walked in absolute pages and merged in page order, so that a row's bits do not depend on
// how the prompt was split.
struct MlaArgs {
  int layer = -1;
  MlaShape shape;
  BatchView batch;
  ConstTensorView q;               // [M, H*(Dn+Dr)]: per head nope then side
  ConstTensorView kv;              // [M, Ckv+Dr]; kGqa: keys [M, G*Dn]
  ConstTensorView v;               // kGqa: values [M, G*Dv]; else empty
  const float* kv_norm = nullptr;  // [Ckv]; kGqa: null
  float kv_norm_eps = 0;
  WeightView kv_b;  // [kv_b_rows, Ckv]; kGqa: empty
  std::optional<float> rope_theta;
  ConstTensorView gate;  // [M, H*Dv] or empty
  MlaCache cache;  // of the backend's cache_dtype(), or of kE4m3 where it serves that and not kGqa
  TensorView out;  // [M, H*Dv]; may alias no input
};

// Each serves the sequences of its origin (prompt, generated) and leaves the rows of the others
// alone.
void mla_prefill(Backend& backend, const MlaArgs& args);
void mla_decode(Backend& backend, const MlaArgs& args);

// One sequence: `rows` new tokens, the first at position start_pos. An output gate is counted; kv_b
// as bf16; the cache of the past is read and that of the new tokens written once. FLOPs: the causal
// (query, key) pairs exactly; prefill up-projects the new tokens only, and its executed FLOPs
// re-expand the past.
Cost mla_prefill_cost(const MlaShape& shape, std::int64_t rows, std::int64_t start_pos,
                      DType activation_dtype, DType cache_dtype);
Cost mla_decode_cost(const MlaShape& shape, std::int64_t start_pos, DType activation_dtype,
                     DType cache_dtype);

}  // namespace baltoro
