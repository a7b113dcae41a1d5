#include "plan/placement.h"

#include <algorithm>

#include "plan/arithmetic.h"
#include "plan/inventory.h"

namespace baltoro::plan {
namespace {

// Of the mixer's projections, what every rank may have whole.
double unsplit_parameters(const PlanModel& model, const LayerSpec& layer, Part part) {
  if (part == Part::kKdaProj && layer.mixer == MixerKind::kKda) {
    return kda_parameters(model).unsplit;
  }
  if (part == Part::kAttnProj && layer.mixer == MixerKind::kMla) {
    return attention_parameters(model).unsplit;
  }
  return 0;
}

}  // namespace

double weight_cuts(const Layout& layout, Part part) {
  switch (part) {
    case Part::kKdaProj:
    case Part::kKdaState:
    case Part::kAttnProj:
    case Part::kAttnCore:
      return real(layout.attention_tp());
    case Part::kLatent:
      return layout.replicate_latent ? 1 : real(layout.tp);
    case Part::kRouter:
      return layout.replicate_small ? 1 : real(layout.tp);
    case Part::kRouted:
      return real(layout.ep > 1 ? layout.stage_devices() : layout.tp);
    default:
      return real(layout.tp);
  }
}

double device_layer_bytes(const PlanModel& model, const Layout& layout, const LayerSpec& layer,
                          Part part) {
  if (part == Part::kRouted && layout.experts_on_host) return 0;
  const double all = layer_parameters(model, layer, part);
  const double whole = layout.replicate_small ? unsplit_parameters(model, layer, part) : 0;
  double copies = 1;
  if (part == Part::kRouted && model.config.moe.num_experts > 0) {
    copies += real(layout.redundant_experts) / real(model.config.moe.num_experts);
  }
  return ((all - whole) / weight_cuts(layout, part) * copies + whole) *
         format_bytes(part_format(model.formats, part));
}

double device_part_bytes(const PlanModel& model, const Layout& layout, Part part) {
  if (part == Part::kEmbed || part == Part::kHead) {
    return part_bytes(model, part) / weight_cuts(layout, part);
  }
  double sum = 0;
  for (const LayerSpec& layer : model.config.layers) {
    sum += device_layer_bytes(model, layout, layer, part);
  }
  return sum;
}

double cache_cuts(const PlanModel& model, const Layout& layout) {
  const MlaConfig& mla = model.config.mla;
  const std::int64_t heads = mla.kind == MlaKind::kGqa ? mla.num_kv_heads : 1;
  return real(std::min(layout.attention_tp(), heads * layout.dcp));
}

double residual_bank_bytes(const PlanModel& model, std::int64_t rows) {
  const std::int64_t sources = mix_sources(model.config, 2 * model.config.num_layers);
  return real(sources * rows * model.config.hidden_size) * format_bytes(model.formats.activation);
}

}  // namespace baltoro::plan
