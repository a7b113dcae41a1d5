#include "engine/device_load.h"

#include <stdlib.h>

#include <algorithm>
#include <limits>
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

DevicePlan plan_device(const std::filesystem::path& dir, const ModelConfig& config,
                       const EngineOptions& options, const Backend& device,
                       std::uint64_t working_bytes) {
  const WeightSizes sizes = weight_sizes(CheckpointFiles(dir), config);
  const std::uint64_t free_bytes = device.free_memory().value_or(0);
  DevicePlan plan;
  plan.limit = std::min(free_bytes, options.device_memory.value_or(free_bytes));
  plan.working = working_bytes;
  const std::uint64_t trunk = sizes.total() - sizes.experts;
  const bool all_fit = plan.working + sizes.total() <= plan.limit;
  const bool trunk_fits = plan.working + trunk <= plan.limit;
  plan.experts_on_host =
      options.experts == ExpertPlace::kHost || (options.experts == ExpertPlace::kAuto && !all_fit);
  if (sizes.experts == 0) plan.experts_on_host = false;
  if (plan.experts_on_host ? trunk_fits : all_fit) return plan;
  fail(
      ErrorCode::kDoesNotFit,
      "{}: on {} are needed {:.2f} GiB for the trunk, {:.2f} for the routed experts and {:.2f} for "
      "activations and state; the limit is {:.2f} GiB, {:.2f} are free. {}",
      dir.string(), device.name(), gib(trunk), gib(sizes.experts), gib(plan.working),
      gib(plan.limit), gib(free_bytes),
      trunk_fits ? "Use --experts cpu, which keeps the routed experts with the host"
                 : "Use --device cpu, which reads from the files what does not fit");
}

void adapt(LoadOptions& how, const DevicePlan& plan, const EngineOptions& options) {
  if (plan.experts_on_host) {
    if (options.expert_activations == ExpertActivations::kFp8) {
      fail(ErrorCode::kUnsupported,
           "the routed experts stay with the CPU, which takes activations as they are; use "
           "--expert-activations same, or --experts gpu where the GPU has room for them");
    }
    if (options.random_weights) {
      fail(ErrorCode::kUsage,
           "random weights are made on the GPU, and the experts would stay with the host; take "
           "fewer layers, or write a random model with `baltoro synth`");
    }
    how.trunk_on_device = true;
    return;
  }
  how.mode = LoadMode::kMap;
  how.memory_limit = std::numeric_limits<std::uint64_t>::max();
}

PlacedWeights place_on_device(const DevicePlan& plan, const EngineOptions& options, Backend& device,
                              LoadedModel& loaded) {
  MemoryPlan& memory = loaded.plan;
  memory.device_limit = plan.limit;
  memory.device_working = plan.working;
  memory.device_weights = placed_bytes(loaded.weights, !plan.experts_on_host);
  memory.experts_on_host = plan.experts_on_host;
  return place_weights(device, loaded.weights,
                       {options.random_weights ? Contents::kRandom : Contents::kCopied,
                        !plan.experts_on_host, options.progress, loaded.store.get()});
}

}  // namespace baltoro
