// The weights of a model as the forward pass reads them. Matrices are views into memory that the
// WeightStore owns, in the checkpoint's own format and at any alignment; vectors are f32 copies
// owned here (exact: BF16 and F16 widen without loss). Immutable after bind(). Shapes use
// design symbols: D hidden, H heads, Dk/Dv head widths, E experts, Z latent, F expert width.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <variant>
#include <vector>

#include "core/tensor_view.h"
#include "model/weight_vector.h"
#include "ops/expert_mlp.h"

namespace baltoro {

// Which part of the model a rank holds: heads, FFN columns, experts and vocabulary rows are split
// into `size` equal ranges.
struct Partition {
  int rank = 0;
  int size = 1;
};

// An output gate: kFull has `full` [H*Dv, D]; kLowRank has `a` [rank, D] and `b` [H*Dv, rank];
// kNone has neither.
struct GateWeights {
  WeightView full;
  WeightView a;
  WeightView b;
};

// down(act(gate x, up x)): gate, up [F, D]; down [D, F].
struct GluWeights {
  WeightView gate;
  WeightView up;
  WeightView down;
};

struct KdaWeights {
  WeightView q_proj;     // [H*Dk, D]
  WeightView k_proj;     // [H*Dk, D]
  WeightView v_proj;     // [H*Dv, D]
  WeightVector q_conv;   // [H*Dk, W], tap W-1 meets the current token
  WeightVector k_conv;   // [H*Dk, W]
  WeightVector v_conv;   // [H*Dv, W]
  WeightView f_a_proj;   // [decay_rank, D]
  WeightView f_b_proj;   // [H*Dk, decay_rank]; [H, decay_rank] with one decay a head
  WeightView b_proj;     // [H, D]
  WeightVector a_log;    // [H], padding dropped
  WeightVector dt_bias;  // [H*Dk]; [H] with one decay a head
  GateWeights gate;
  WeightVector o_norm;  // [Dv], shared by the heads
  WeightView o_proj;    // [D, H*Dv]
};

struct MlaWeights {
  WeightView q_proj;       // [H*(Dn+Dr), D]; empty with q-LoRA
  WeightView q_a_proj;     // [Cq, D]
  WeightVector q_a_norm;   // [Cq]
  WeightView q_b_proj;     // [H*(Dn+Dr), Cq]
  WeightView kv_a_proj;    // [Ckv+Dr, D]; empty for kGqa
  WeightVector kv_a_norm;  // [Ckv]
  WeightView kv_b_proj;    // [H*(Dn+Dv), Ckv], per head K rows then V rows; kMqa [H*Dv, Ckv]
  WeightView k_proj;       // kGqa: [G*Dn, D]
  WeightView v_proj;       // kGqa: [G*Dv, D]
  GateWeights gate;
  WeightView o_proj;  // [D, H*Dv]
};

struct MoeWeights {
  WeightView router;                   // [E, D], or [E, Z] where the router reads the latent
  WeightVector router_bias;            // [E] e_score_correction_bias: for selection only
  WeightView latent_down;              // [Z, D]; empty without a latent
  WeightView latent_up;                // [D, Z]
  WeightVector latent_norm;            // [Z]; empty without the stable norm
  std::optional<GluWeights> shared;    // F * num_shared_experts wide
  std::vector<ExpertWeights> experts;  // [experts of this rank]
  std::int64_t first_expert = 0;       // id of experts[0]; 0 unless partitioned
  const void* expert_table = nullptr;  // Backend::expert_table; null on the host
};

// One AttnRes mix: norm and proj [D]; a source's score is sum_d norm_d proj_d v_d / rms(v).
struct AttnResWeights {
  WeightVector norm;
  WeightVector proj;
};

struct LayerWeights {
  WeightVector input_norm;  // [D]
  WeightVector post_norm;   // [D]
  std::variant<KdaWeights, MlaWeights> mixer;
  std::variant<GluWeights, MoeWeights> ffn;
  std::optional<AttnResWeights> attn_res_mixer;  // self_attention_res_*
  std::optional<AttnResWeights> attn_res_ffn;    // mlp_res_*
};

struct ModelWeights {
  WeightView embed;  // [V, D]
  std::vector<LayerWeights> layers;
  WeightVector final_norm;  // [D]
  std::optional<AttnResWeights> output_attn_res;
  WeightView lm_head;  // [V of this rank, D]
  Partition partition;
};

// The matrices that every token reads in a layer: all but those of the routed experts. Absent ones
// are visited as empty views.
void for_each_trunk_matrix(const LayerWeights& layer,
                           const std::function<void(const WeightView&)>& visit);
// The same, to be changed.
void for_each_trunk_matrix(LayerWeights& layer, const std::function<void(WeightView&)>& visit);
void for_each_vector(LayerWeights& layer, const std::function<void(WeightVector&)>& visit);

}  // namespace baltoro
