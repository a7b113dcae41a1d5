#include "plan/capacity.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "plan/arithmetic.h"
#include "plan/inventory.h"
#include "plan/placement.h"

namespace baltoro::plan {
namespace {

// Bytes of that part of the layer which other devices of the stage hold too: all but one of its
// copies, spread evenly.
double replicated_bytes(const Scenario& scenario, const LayerSpec& layer, Part part) {
  const double mine = device_layer_bytes(scenario.model, scenario.layout, layer, part);
  const double once = layer_parameters(scenario.model, layer, part) *
                      format_bytes(part_format(scenario.model.formats, part)) /
                      real(scenario.layout.stage_devices());
  return std::max(0.0, mine - once);
}

StageMemory stage_memory(const Scenario& scenario, std::int64_t begin, std::int64_t end) {
  const PlanModel& model = scenario.model;
  const Layout& layout = scenario.layout;
  StageMemory stage;
  stage.layers = end - begin;
  double kda = 0;
  double attention = 0;
  for (std::int64_t i = begin; i < end; ++i) {
    const LayerSpec& layer = model.config.layers[static_cast<std::size_t>(i)];
    (layer.mixer == MixerKind::kKda ? kda : attention) += 1;
    for (const Part part : kAllParts) {
      stage.weights += device_layer_bytes(model, layout, layer, part);
      if (part == Part::kRouted && layout.experts_on_host) continue;
      stage.replicated += replicated_bytes(scenario, layer, part);
    }
  }
  const auto table = [&](Part part) {
    stage.weights += device_part_bytes(model, layout, part);
    stage.replicated += device_part_bytes(model, layout, part) -
                        part_bytes(model, part) / real(layout.stage_devices());
  };
  if (begin == 0) table(Part::kEmbed);
  if (end == model.config.num_layers) table(Part::kHead);
  if (kda > 0) {
    stage.state_per_sequence = (state_bytes_per_sequence(model) + conv_bytes_per_sequence(model)) *
                               kda / real(model.num_kda()) / real(layout.attention_tp());
  }
  if (attention > 0) {
    stage.cache_per_token = cache_bytes_per_token(model) * attention / real(model.num_attn()) /
                            cache_cuts(model, layout);
  }
  return stage;
}

// Activations of the largest step of one device.
double workspace_bytes(const Scenario& scenario) {
  const ModelConfig& config = scenario.model.config;
  const Layout& layout = scenario.layout;
  const Workload& workload = scenario.workload;
  const std::int64_t groups = layout.attention_groups();
  const std::int64_t rows = std::max(ceil_div(workload.batch, groups),
                                     ceil_div(workload.prompts, groups) * workload.chunk_tokens());
  const double cut = layout.sequence_parallel ? real(layout.tp) : 1;
  const double widest = std::max({real(4 * config.kda.value_width()),
                                  real(config.mla.num_heads * config.mla.qk_dim()),
                                  real(2 * config.intermediate_size)}) /
                        real(layout.attention_tp());
  return residual_bank_bytes(scenario.model, rows) / cut +
         real(rows) * widest * format_bytes(scenario.model.formats.activation);
}

// Sequences of one group and stage in `free` bytes.
double sequences_in(double free, const StageMemory& stage, double context) {
  const double each = stage.state_per_sequence + context * stage.cache_per_token;
  return each > 0 ? std::floor(free / each) : std::numeric_limits<double>::infinity();
}

}  // namespace

const StageMemory& Capacity::fullest() const {
  return *std::max_element(
      stages.begin(), stages.end(),
      [](const StageMemory& a, const StageMemory& b) { return a.weights < b.weights; });
}

Capacity compute_capacity(const Scenario& scenario) {
  Capacity capacity;
  const Layout& layout = scenario.layout;
  const std::vector<std::int64_t> begins =
      stage_begins(scenario.model.config.num_layers, layout.pp);
  for (std::size_t i = 0; i + 1 < begins.size(); ++i) {
    capacity.stages.push_back(stage_memory(scenario, begins[i], begins[i + 1]));
  }
  const double memory = scenario.hardware.memory_bytes.value;
  capacity.usable = kMemoryShare * memory;
  capacity.workspace = workspace_bytes(scenario);
  const double excess = std::max(0.0, capacity.workspace - (memory - capacity.usable));
  capacity.free = capacity.usable - excess - capacity.fullest().weights;

  const double context = real(scenario.workload.context);
  const std::int64_t groups = layout.attention_groups();
  const double of_group = real(ceil_div(scenario.workload.batch, groups));
  double batch = std::numeric_limits<double>::infinity();
  double longest = std::numeric_limits<double>::infinity();
  for (const StageMemory& stage : capacity.stages) {
    const double free = capacity.usable - excess - stage.weights;
    batch = std::min(batch, std::max(0.0, sequences_in(free, stage, context)));
    if (stage.cache_per_token > 0) {
      longest =
          std::min(longest, (free / of_group - stage.state_per_sequence) / stage.cache_per_token);
    }
  }
  constexpr double kMost = 1e15;
  capacity.max_batch = groups * static_cast<std::int64_t>(std::min(batch, kMost));
  capacity.max_context = static_cast<std::int64_t>(std::clamp(longest, 0.0, kMost));
  capacity.fits = capacity.free >= 0 && capacity.max_batch >= scenario.workload.batch;
  return capacity;
}

std::optional<FewestDevices> fewest_devices(const Scenario& scenario) {
  const ModelConfig& config = scenario.model.config;
  const std::int64_t heads = std::max(config.kda.num_heads, config.mla.num_heads);
  std::optional<FewestDevices> best;
  for (std::int64_t tp = 1; tp <= heads; ++tp) {
    if ((scenario.model.num_kda() > 0 && config.kda.num_heads % tp != 0) ||
        (scenario.model.num_attn() > 0 && config.mla.num_heads % tp != 0)) {
      continue;
    }
    Scenario trial = scenario;
    trial.layout = Layout();
    trial.layout.replicate_latent = scenario.layout.replicate_latent;
    trial.layout.replicate_small = scenario.layout.replicate_small;
    trial.layout.experts_on_host = scenario.layout.experts_on_host;
    trial.layout.tp = tp;
    trial.layout.dcp = scenario.layout.dcp > 1 ? tp : 1;
    const auto fits = [&](std::int64_t stages) {
      trial.layout.pp = stages;
      return compute_capacity(trial).fits;
    };
    // More stages never hold less, but for the last stage's head.
    std::int64_t low = 1;
    std::int64_t high = config.num_layers;
    if (!fits(high)) continue;
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      fits(middle) ? high = middle : low = middle + 1;
    }
    trial.layout.pp = high;
    const std::int64_t devices = trial.layout.devices();
    if (!best || devices < best->devices || (devices == best->devices && high < best->layout.pp)) {
      best = FewestDevices{devices, trial.layout};
    }
  }
  return best;
}

}  // namespace baltoro::plan
