// Loading: configuration, weights, backend, and the numbers that describe them.
#include "baltoro/engine.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "core/directory.h"
#include "core/error.h"
#include "engine/describe.h"
#include "engine/engine_impl.h"
#include "engine/fingerprint.h"
#include "engine/load_parts.h"
#include "engine/make_backend.h"
#include "engine/session_impl.h"
#include "engine/working_memory.h"
#include "io/file_reader.h"
#include "model/loader.h"

namespace baltoro {
namespace {

constexpr std::uint64_t kConfigLimit = std::uint64_t{16} << 20;

// What, beside the files, decides the meaning of a saved state.
std::string state_variant(const EngineOptions& options, const ModelConfig& config,
                          const Backend& backend) {
  const std::string kind = options.device.substr(0, options.device.find(':'));
  // Nothing for the defaults: files of before stay valid.
  const char* state = options.kda_state == KdaState::kBf16 ? " bf16 state" : "";
  const char* experts = options.expert_activations == ExpertActivations::kFp8 ? " fp8 experts" : "";
  const char* latents = options.latents == Latents::kFp8 ? " fp8 latents" : "";
  return fmt::format(
      "{} {} {} {}{}{}{}", kind, options.activations == Activations::kBf16 ? "bf16" : "f32",
      dtype_name(backend.cache_dtype()), config.latent_norm_eps, state, experts, latents);
}

GenerationDefaults generation_defaults(const std::filesystem::path& dir,
                                       const ModelConfig& config) {
  const GenerationConfig file = load_generation_config(dir);
  GenerationDefaults defaults{.do_sample = file.do_sample,
                              .temperature = file.temperature,
                              .top_p = file.top_p,
                              .min_p = file.min_p,
                              .top_k = file.top_k,
                              .max_new_tokens = file.max_new_tokens,
                              .stop_ids = {}};
  for (std::int64_t id : file.stop_ids) {
    if (id < 0 || id >= config.vocab_size) {
      fail(ErrorCode::kBadModel,
           "{}: eos_token_id {} is outside the vocabulary [0, {}) of config.json",
           (dir / "generation_config.json").string(), id, config.vocab_size);
    }
    defaults.stop_ids.push_back(static_cast<TokenId>(id));
  }
  if (config.eos_token_id) {
    const auto eos = static_cast<TokenId>(*config.eos_token_id);
    if (std::find(defaults.stop_ids.begin(), defaults.stop_ids.end(), eos) ==
        defaults.stop_ids.end()) {
      defaults.stop_ids.push_back(eos);
    }
  }
  return defaults;
}

}  // namespace

Engine::Impl::Impl(EngineParts& parts, const EngineOptions& options)
    : host(std::move(parts.host)),
      backend(std::move(parts.backend)),
      store(std::move(parts.loaded.store)),
      placed(std::move(parts.placed.memory)),
      model(std::move(parts.loaded.config), std::move(parts.loaded.weights),
            options.expert_activations),
      mapped(parts.loaded.plan.all_resident()
                 ? nullptr
                 : std::make_unique<MappedWeights>(*store, model.weights(), parts.loaded.plan)),
      state(backend_of_layers(parts.loaded.plan.host_layers), model.config(),
            state_format(options, model.config())),
      pool(state),
      workspace(*backend, model.config(), options.max_batch_rows),
      segments(make_segments(parts.loaded.plan.host_layers)),
      info(describe(model, *backend, state, parts.loaded.plan)) {
  info.max_batch_rows = options.max_batch_rows;
  if (host == nullptr) return;
  info.backend += fmt::format(", {} of {} layers on {}", info.memory.host_layers, info.num_layers,
                              host->name());
  info.num_threads = host->num_threads();
}

std::vector<Backend*> Engine::Impl::backend_of_layers(std::int64_t host_layers) const {
  std::vector<Backend*> of_layer(model.config().layers.size(), backend.get());
  std::fill_n(of_layer.begin(), host_layers, host.get());
  return of_layer;
}

std::vector<Segment> Engine::Impl::make_segments(std::int64_t host_layers) {
  const auto first = static_cast<int>(host_layers);
  const auto end = static_cast<int>(model.config().num_layers);
  if (host == nullptr) return {{*backend, workspace, 0, end}};
  host_workspace.emplace(*host, model.config(), workspace.max_rows);
  workspace.expect_arrivals(*backend, model.config());
  return {{*host, *host_workspace, 0, first}, {*backend, workspace, first, end}};
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

MemoryPlan Engine::plan(const std::filesystem::path& given, const EngineOptions& options) {
  check_options(options);
  const std::filesystem::path dir = without_end_slash(given);
  const std::unique_ptr<Backend> backend = make_backend(options);
  const ModelConfig config = load_config(dir, {.latent_norm_eps = options.latent_norm_eps});
  return plan_memory(CheckpointFiles(dir), config,
                     load_options(options, working_memory(options, config, *backend)));
}

std::shared_ptr<Engine> Engine::load(const std::filesystem::path& given,
                                     const EngineOptions& options) try {
  return Impl::load(load_parts(given, options), options);
} catch (const std::bad_alloc&) {
  fail(ErrorCode::kOutOfMemory, "{}: out of memory while loading; free some, or use --load map",
       given.string());
}

std::shared_ptr<Engine> Engine::Impl::load(EngineParts parts, const EngineOptions& options) {
  auto impl = std::make_unique<Impl>(parts, options);
  const ModelConfig& config = impl->model.config();
  EngineInfo& info = impl->info;
  info.load = parts.times;
  info.fingerprint =
      fingerprint(read_text_file(parts.dir / "config.json", kConfigLimit),
                  state_variant(options, config, *impl->backend), impl->store->files());
  info.generation = generation_defaults(parts.dir, config);
  return std::shared_ptr<Engine>(new Engine(std::move(impl)));
}

const EngineInfo& Engine::info() const noexcept { return impl_->info; }

std::uint64_t Engine::paged_bytes() const {
  return impl_->mapped == nullptr ? 0 : impl_->mapped->bytes_read();
}

Session Engine::new_session() {
  const std::lock_guard lock(impl_->mutex);
  return Session(
      std::make_unique<Session::Impl>(shared_from_this(), std::make_unique<Timeline>(impl_->pool)));
}

void Engine::forward(std::span<BatchItem> items) {
  const std::lock_guard lock(impl_->mutex);
  impl_->forward(items);
}

}  // namespace baltoro
