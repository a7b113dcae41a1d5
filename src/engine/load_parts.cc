#include "engine/load_parts.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/directory.h"
#include "core/error.h"
#include "core/log.h"
#include "core/stopwatch.h"
#include "engine/host_experts.h"
#include "engine/make_backend.h"
#include "engine/working_memory.h"
#include "ops/batch.h"

namespace baltoro {
namespace {

void report_unused(const std::filesystem::path& dir, const BindReport& report) {
  if (report.unused.empty()) return;
  constexpr std::size_t kListed = 20;
  const auto end =
      report.unused.begin() + static_cast<std::ptrdiff_t>(std::min(kListed, report.unused.size()));
  const std::vector<std::string> listed(report.unused.begin(), end);
  const std::size_t more = report.unused.size() - listed.size();
  log::warning("{}: tensors that this architecture does not use: {}{}", dir.string(),
               fmt::join(listed, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

// What fp8 activations of the experts ask of the model.
void check_experts(const EngineOptions& options, const std::filesystem::path& dir,
                   const ModelWeights& weights) {
  if (options.expert_activations == ExpertActivations::kSame) return;
  bool found = false;
  for (const LayerWeights& layer : weights.layers) {
    const auto* moe = std::get_if<MoeWeights>(&layer.ffn);
    if (moe == nullptr) continue;
    for (const ExpertWeights& expert : moe->experts) {
      const WeightFormat format = expert.w1.format;
      if (format != WeightFormat::kMxfp4) {
        fail(ErrorCode::kUnsupported,
             "{}: activations in fp8 are for routed experts in MXFP4, and these are {}: use "
             "--expert-activations same, or `baltoro quantize`",
             dir.string(), weight_format_name(format));
      }
      found = true;
    }
  }
  if (!found) {
    fail(ErrorCode::kUnsupported,
         "{}: the model has no routed experts, whose activations could be in fp8: use "
         "--expert-activations same",
         dir.string());
  }
}

// What is placed on a device whole is read from maps.
void map_all(LoadOptions& how) {
  how.mode = LoadMode::kMap;
  how.memory_limit = std::numeric_limits<std::uint64_t>::max();
}

// The CPU beside a device, which computes the routed experts, the first layers, or both.
void leave_to_host(const DevicePlacement& place, const ModelConfig& config,
                   const EngineOptions& options, LoadOptions& how, EngineParts& parts) {
  const std::shared_ptr<Backend> host = make_host_backend(options);
  how.first_device_layer = static_cast<std::int64_t>(place.first_layer);
  how.working_bytes = working_memory(options, config, *host).with_states(0, place.first_layer);
  if (place.experts_on_host) {
    parts.backend = make_host_experts(std::move(parts.backend), host);
  }
  if (place.first_layer > 0) parts.host = host;
}

}  // namespace

void check_options(const EngineOptions& options) {
  const std::int64_t rows = options.max_batch_rows;
  if (rows < kBlockTokens || rows > 65536 || rows % kBlockTokens != 0) {
    fail(ErrorCode::kUsage, "max_batch_rows: {} must be a multiple of {} between {} and 65536",
         rows, kBlockTokens, kBlockTokens);
  }
  if (options.kda_state == KdaState::kBf16 && options.device == "cpu") {
    fail(ErrorCode::kUnsupported,
         "KDA states in bf16 are kept by --device cuda and reference; the CPU keeps f32: use "
         "--kda-state f32");
  }
  if (options.expert_activations == ExpertActivations::kFp8 && options.device == "cpu") {
    fail(ErrorCode::kUnsupported,
         "routed experts take activations in fp8 with --device cuda and reference; the CPU takes "
         "them as they are: use --expert-activations same");
  }
  if (options.latents == Latents::kFp8 && options.device == "cpu") {
    fail(ErrorCode::kUnsupported,
         "latents in fp8 are kept by --device cuda and reference; the CPU keeps them like "
         "activations: use --latents auto");
  }
}

LoadOptions load_options(const EngineOptions& options, const WorkingMemory& working) {
  LoadOptions how;
  how.mode = options.load;
  how.memory_limit = options.memory_limit;
  how.working_bytes = working.total();
  how.progress = options.progress;
  return how;
}

EngineParts load_parts(const std::filesystem::path& given, const EngineOptions& options) {
  check_options(options);
  return load_parts(given, options, make_backend(options));
}

EngineParts load_parts(const std::filesystem::path& given, const EngineOptions& options,
                       std::unique_ptr<Backend> backend) {
  EngineParts parts;
  parts.backend = std::move(backend);
  if (options.random_weights) {
    parts.hollow = std::make_unique<HollowModel>(given, *parts.backend);
  }
  parts.dir = without_end_slash(parts.hollow ? parts.hollow->dir() : given);
  ModelConfig config = load_config(parts.dir, {.latent_norm_eps = options.latent_norm_eps});
  const WorkingMemory working = working_memory(options, config, *parts.backend);
  LoadOptions how = load_options(options, working);
  std::optional<DevicePlan> on_device;
  if (!parts.backend->uses_host_memory()) {
    on_device = plan_device(parts.dir, config, options, *parts.backend, working);
    if (on_device->place.all()) {
      map_all(how);
    } else {
      leave_to_host(on_device->place, config, options, how, parts);
    }
  }
  Stopwatch watch;
  parts.loaded = load_model(parts.dir, std::move(config), how);
  parts.times.host = watch.lap();
  report_unused(parts.dir, parts.loaded.report);
  check_experts(options, parts.dir, parts.loaded.weights);
  if (on_device) {
    parts.placed = place_on_device(*on_device, options, *parts.backend, parts.loaded);
    parts.times.device = watch.lap();
    parts.times.filling = parts.placed.times.filling;
    parts.times.waiting = parts.placed.times.waiting;
  }
  return parts;
}

}  // namespace baltoro
