#include "measure/part_finder.h"

#include "core/error.h"

namespace baltoro {

using plan::Part;

bool PartFinder::is_kda() const {
  return config_.layers.at(static_cast<std::size_t>(layer_)).mixer == MixerKind::kKda;
}

Part PartFinder::product() {
  if (after_core_ >= 0) ++after_core_;
  if (after_core_ > 1) return Part::kLatent;
  return is_kda() ? Part::kKdaProj : Part::kAttnProj;
}

Part PartFinder::of(std::string_view op, int layer) {
  if (op == "embed") {
    layer_ = -1;  // a pass begins
    return Part::kEmbed;
  }
  if (op == "head") return Part::kHead;
  if (op == "mix_norm") return Part::kMix;
  if (layer != layer_) after_core_ = -1;
  layer_ = layer;
  if (op == "linear") return product();
  if (op == "kda_mix" || op == "mla_prefill" || op == "mla_decode") {
    after_core_ = 0;
    return op == "kda_mix" ? Part::kKdaState : Part::kAttnCore;
  }
  if (op == "route") return Part::kRouter;
  if (op == "expert_mlp") return Part::kRouted;
  BALTORO_CHECK(op == "glu_mlp", "no part of the plan is {}", op);
  const bool dense = config_.layers.at(static_cast<std::size_t>(layer)).ffn == FfnKind::kDense;
  return dense ? Part::kDense : Part::kShared;
}

}  // namespace baltoro
