#include "engine/device_load.h"

#include <stdlib.h>

#include <algorithm>
#include <optional>
#include <string>
#include <system_error>

#include "core/error.h"
#include "core/gib.h"
#include "model/synth.h"

namespace baltoro {

HollowModel::HollowModel(const std::filesystem::path& config, const Backend& backend) {
  if (backend.uses_host_memory()) {
    fail(ErrorCode::kUsage,
         "random weights are made on a GPU; `baltoro synth` writes a random model for {}",
         backend.name());
  }
  std::string name = (std::filesystem::temp_directory_path() / "baltoro-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    fail(ErrorCode::kIo, "{}: cannot be made; set TMPDIR to a place that can be written", name);
  }
  dir_ = name;
  SynthOptions options;
  options.write_tokenizer = false;
  options.hollow = true;
  synthesize(config, dir_, options);
}

HollowModel::~HollowModel() {
  std::error_code ignored;
  std::filesystem::remove_all(dir_, ignored);
}

namespace {

[[noreturn]] void refuse(const std::string& where, const DevicePlan& plan,
                         const DeviceDemand& demand, ExpertPlace wanted, std::uint64_t free_bytes) {
  const std::size_t last = demand.layers.size() - 1;
  const bool layers_fit = demand.trunk_from(last) <= plan.limit;
  const char* remedy = "Use --device cpu, which reads from the files what does not fit";
  if (demand.trunk_from(0) <= plan.limit) {
    remedy = "Use --experts cpu, which keeps the routed experts with the host";
  } else if (layers_fit && wanted == ExpertPlace::kDevice) {
    remedy = "Use --experts auto, which keeps layers with the host as well";
  }
  fail(
      ErrorCode::kDoesNotFit,
      "{} are needed {:.2f} GiB for the trunk with the state of a sequence (its last layer and the "
      "head alone {:.2f}), {:.2f} for the routed experts and {:.2f} for activations; the limit is "
      "{:.2f} GiB, {:.2f} are free. {}",
      where, gib(demand.trunk_from(0) - demand.pass), gib(demand.trunk_from(last) - demand.pass),
      gib(demand.experts), gib(demand.pass), gib(plan.limit), gib(free_bytes), remedy);
}

// What the CPU beside the device does not do. Throws Error{kUnsupported, kUsage}.
void check_placement(const DevicePlacement& place, const EngineOptions& options) {
  if (place.all()) return;
  if (options.random_weights) {
    fail(ErrorCode::kUsage,
         "random weights are made on the GPU, and a part of them would stay with the host; take "
         "fewer layers, or write a random model with `baltoro synth`");
  }
  if (options.expert_activations == ExpertActivations::kFp8) {
    fail(ErrorCode::kUnsupported,
         "the routed experts stay with the CPU, which takes activations as they are; use "
         "--expert-activations same, or --experts gpu where the GPU has room for them");
  }
  if (place.first_layer == 0) return;
  if (options.kda_state == KdaState::kBf16 || options.latents == Latents::kFp8) {
    fail(ErrorCode::kUnsupported,
         "the GPU has no room for the first {} layers, and the CPU, which computes them, keeps KDA "
         "states in f32 and latents like activations; use --kda-state f32 and --latents auto",
         place.first_layer);
  }
}

}  // namespace

DeviceDemand device_demand(const std::filesystem::path& dir, const ModelConfig& config,
                           const WorkingMemory& working) {
  const WeightSizes sizes = weight_sizes(CheckpointFiles(dir), config);
  DeviceDemand demand{.pass = working.pass,
                      .embedding = sizes.embedding,
                      .head = sizes.head,
                      .layers = working.states,
                      .experts = sizes.experts};
  for (std::size_t i = 0; i < demand.layers.size(); ++i) demand.layers[i] += sizes.trunk[i];
  return demand;
}

DevicePlan plan_device(const std::filesystem::path& dir, const ModelConfig& config,
                       const EngineOptions& options, const Backend& device,
                       const WorkingMemory& working) {
  const DeviceDemand demand = device_demand(dir, config, working);
  const std::uint64_t free_bytes = device.free_memory().value_or(0);
  DevicePlan plan;
  plan.limit = std::min(free_bytes, options.device_memory.value_or(free_bytes));
  const std::optional<DevicePlacement> found =
      choose_placement(demand, plan.limit, options.experts);
  if (!found) {
    refuse(fmt::format("{}: on {}", dir.string(), device.name()), plan, demand, options.experts,
           free_bytes);
  }
  check_placement(*found, options);
  plan.place = *found;
  plan.working = working.with_states(found->first_layer, working.states.size());
  return plan;
}

PlacedWeights place_on_device(const DevicePlan& plan, const EngineOptions& options, Backend& device,
                              LoadedModel& loaded) {
  const PlaceOptions how{.contents = options.random_weights ? Contents::kRandom : Contents::kCopied,
                         .experts = !plan.place.experts_on_host,
                         .first_layer = plan.place.first_layer,
                         .progress = options.progress,
                         .store = loaded.store.get()};
  MemoryPlan& memory = loaded.plan;
  memory.device_limit = plan.limit;
  memory.device_working = plan.working;
  memory.device_weights = placed_bytes(loaded.weights, how);
  memory.host_layers = static_cast<std::int64_t>(plan.place.first_layer);
  memory.device_layers = loaded.config.num_layers - memory.host_layers;
  memory.experts_on_host = plan.place.experts_on_host;
  return place_weights(device, loaded.weights, how);
}

}  // namespace baltoro
