// A model as the cost model sees it: the shape that the engine reads, and what each part is stored
// in. Symbols of messages and docs: d hidden, H heads, c;s latent and side branch, N;K experts and
// how many a token meets, l;m their outer and inner width.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"
#include "plan/formats.h"

namespace baltoro::plan {

struct PlanModel {
  std::string name;
  ModelConfig config;
  Formats formats;
  // Matrices of a routed expert: 3 (gate, up, down), or 2 without a gate.
  int expert_matrices = 3;
  // What of it the engine does not run; empty where it runs all.
  std::vector<std::string> not_in_engine;

  // Width that the routed experts read and write: l, or d without a latent.
  std::int64_t expert_width() const {
    return config.moe.latent_size > 0 ? config.moe.latent_size : config.hidden_size;
  }
  std::int64_t num_kda() const { return config.num_layers_of(MixerKind::kKda); }
  std::int64_t num_attn() const { return config.num_layers_of(MixerKind::kMla); }
  std::int64_t num_moe() const { return config.num_layers_of(FfnKind::kMoe); }
  std::int64_t num_dense() const { return config.num_layers_of(FfnKind::kDense); }
};

// Presets: k3, k2, k2.5, kimi-linear, dsv3, gqa-70b, and K3 without one of its ideas.
std::vector<std::string> preset_names();
// One line that says what the preset is.
std::string preset_note(std::string_view name);
// Throws Error{kUsage} for an unknown name, with the nearest one.
PlanModel preset_model(std::string_view name);
// From a configuration that the engine read; matrices are stored as the file says.
PlanModel model_from_config(const ModelConfig& config, std::string name);

// "m=4096,K=8": changes sizes, named by the symbols of docs/cost-model.md or by the keys of
// config.json. Throws Error{kUsage} for an unknown key (with the nearest one), a value outside of
// its range, and a model that contradicts itself afterwards.
void apply_overrides(PlanModel& model, std::string_view text);
// Keys of apply_overrides, for help.
std::vector<std::string> override_keys();
// Throws Error{kUsage} naming each contradiction: heads that GQA groups do not divide, more experts
// a token than there are.
void check_model(const PlanModel& model);

// Sources of Attention Residuals before sub-layer j (2 i and 2 i + 1 for the mixer and FFN of layer
// i, 2 L before the head): embedding, finished blocks and the running sum, if any; 1 without them.
//   n_src(j) = 1 + floor(j / R) + (j mod R > 0)
std::int64_t mix_sources(const ModelConfig& config, std::int64_t sublayer);

}  // namespace baltoro::plan
