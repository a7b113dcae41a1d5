#include "model/block.h"

#include <variant>

#include "model/dense_mlp.h"
#include "model/gated_mla.h"
#include "model/kda.h"
#include "model/latent_moe.h"

namespace baltoro {
namespace {

// Dispatch on what a layer holds: the layer kind is data.
struct Mixer {
  LayerContext& context;
  ConstTensorView x;
  TensorView out;
  void operator()(const KdaWeights& weights) const { kda_layer(context, weights, x, out); }
  void operator()(const MlaWeights& weights) const { gated_mla_layer(context, weights, x, out); }
};

struct Ffn {
  LayerContext& context;
  ConstTensorView x;
  TensorView out;
  void operator()(const GluWeights& weights) const { dense_mlp(context, weights, x, out); }
  void operator()(const MoeWeights& weights) const { latent_moe(context, weights, x, out); }
};

const AttnResWeights* mix_weights(const std::optional<AttnResWeights>& weights) {
  return weights ? &*weights : nullptr;
}

}  // namespace

void run_block(LayerContext& context, const LayerWeights& weights, ResidualStream& stream) {
  const ConstTensorView mixer_in =
      stream.enter(mix_weights(weights.attn_res_mixer), weights.input_norm);
  std::visit(Mixer{context, mixer_in, stream.output()}, weights.mixer);

  const ConstTensorView ffn_in = stream.enter(mix_weights(weights.attn_res_ffn), weights.post_norm);
  std::visit(Ffn{context, ffn_in, stream.output()}, weights.ffn);
}

}  // namespace baltoro
