#include "cli/model_options.h"

#include <fmt/format.h>
#include <unistd.h>

#include "cli/arguments.h"
#include "cli/tier_report.h"
#include "core/error.h"
#include "core/log.h"
#include "core/stopwatch.h"
#include "measure/tier_machine.h"

namespace baltoro::cli {
namespace {

constexpr int kMaxThreads = 1024;

// Ids that the model cannot take would blame the prompt that holds them.
void check_vocabulary(const std::string& dir, const Tokenizer& tokenizer, std::int64_t vocab_size) {
  if (tokenizer.vocab_size() <= vocab_size) return;
  const std::filesystem::path path = dir;
  fail(ErrorCode::kBadModel,
       "{} and {} have {} ids, and the vocab_size of {} is {}; these files are of two models",
       (path / "tiktoken.model").string(), (path / "tokenizer_config.json").string(),
       tokenizer.vocab_size(), (path / "config.json").string(), vocab_size);
}

}  // namespace

void add_model_options(CLI::App& app, ModelOptions& options) {
  options.command = app.get_name();
  app.add_option("MODEL", options.dir,
                 "Directory with config.json, safetensors and tokenizer files")
      ->required();
  app.add_option("--device", options.device,
                 "cpu, cuda, cuda:N, or reference: scalar, double sums, slow")
      ->capture_default_str();
  add_activations(app, options.activations);
  add_choice(app, "--kda-state", options.kda_state, {"f32", "bf16"},
             "With a GPU: how KDA states are kept; bf16 takes half, at an error of its own");
  add_choice(app, "--expert-activations", options.expert_activations, {"same", "fp8"},
             "With a GPU: what MXFP4 experts are multiplied by; same as --activations, or rounded "
             "to fp8, at an error of its own");
  add_choice(
      app, "--latents", options.latents, {"auto", "fp8"},
      "With a GPU: how the MLA cache is kept; auto: like activations; fp8 takes 0.56 of bf16, at "
      "an error of its own");
  add_isa(app, options.isa);
  add_choice(app, "--load", options.load, {"auto", "copy", "map"},
             "copy reads into memory, map uses the files, auto copies what fits");
  add_memory(app, options.memory);
  add_number(app, "--threads", options.threads,
             "0 is all physical cores within the container's limit",
             {.min = 0, .max = kMaxThreads});
  add_latent_norm_eps(app, options.latent_norm_eps);
  add_choice(app, "--experts", options.experts, {"auto", "cpu", "gpu"},
             "With a GPU: where routed experts are and are computed; auto: there where all fits");
  add_device_memory(app, options.device_memory);
  app.add_flag("--deterministic", options.deterministic,
               "On a GPU: bits of a row do not depend on its batch; slower. On the CPU always so");
  app.add_flag("--progress", options.progress, "Show progress bars though stderr is no terminal");
}

void require_model_directory(const std::string& dir, const std::string& command) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(dir, error);
  if (!std::filesystem::exists(status)) {
    fail(ErrorCode::kBadModel,
         "{}: no such directory; give a checkpoint's directory (config.json, *.safetensors)", dir);
  }
  if (!std::filesystem::is_directory(status)) {
    fail(ErrorCode::kBadModel, "{} is a file; {} needs the model's directory", dir, command);
  }
}

EngineOptions engine_options(const ModelOptions& options) {
  EngineOptions engine;
  engine.device = options.device;
  engine.activations = options.activations == "f32" ? Activations::kF32 : Activations::kBf16;
  engine.kda_state = options.kda_state == "bf16" ? KdaState::kBf16 : KdaState::kF32;
  engine.expert_activations =
      options.expert_activations == "fp8" ? ExpertActivations::kFp8 : ExpertActivations::kSame;
  engine.latents = options.latents == "fp8" ? Latents::kFp8 : Latents::kAuto;
  engine.num_threads = options.threads;
  if (!options.isa.empty()) engine.isa = options.isa;
  engine.latent_norm_eps = options.latent_norm_eps;
  engine.load = options.load == "copy"  ? LoadMode::kCopy
                : options.load == "map" ? LoadMode::kMap
                                        : LoadMode::kAuto;
  engine.memory_limit = options.memory;
  engine.deterministic = options.deterministic;
  engine.experts = options.experts == "cpu"   ? ExpertPlace::kHost
                   : options.experts == "gpu" ? ExpertPlace::kDevice
                                              : ExpertPlace::kAuto;
  engine.device_memory = options.device_memory;
  return engine;
}

std::optional<Tokenizer> load_tokenizer(const std::filesystem::path& dir) {
  std::error_code error;
  if (!std::filesystem::exists(dir / "tiktoken.model", error)) return std::nullopt;
  return Tokenizer::load(dir);
}

namespace {

// Of a sequence of some length.
constexpr std::int64_t kPlannedContext = 4096;

void print_plan(const ModelOptions& options, const EngineOptions& engine) {
  try {
    const ModelConfig config =
        load_config(options.dir, {.latent_norm_eps = engine.latent_norm_eps});
    const plan::PlanModel model = plan::model_from_config(config, options.dir);
    const TierPlan plan = tier_plan(model, tier_machine(engine, config, HostRates::kIfUsed),
                                    engine.experts, kPlannedContext);
    fmt::print(stderr, "{}\n", tier_text(plan, model.name));
  } catch (const Error& error) {
    // A prediction is no condition of the load, which says itself what it cannot do.
    log::warning("no plan: {}", error.what());
  }
}

}  // namespace

OpenModel open_model(const ModelOptions& options, const std::function<void(double)>& on_share) {
  require_model_directory(options.dir, options.command);
  OpenModel model;
  Stopwatch watch;
  EngineOptions engine = engine_options(options);
  const bool looks_on = options.show_plan || options.progress || isatty(STDERR_FILENO) != 0;
  if (engine.device.starts_with("cuda") && looks_on) print_plan(options, engine);
  ProgressBar bar("Reading weights",
                  options.progress ? ProgressMode::kAlways : ProgressMode::kAuto);
  engine.progress = [&](std::size_t done, std::size_t total) {
    bar.update(done, total);
    if (on_share) on_share(static_cast<double>(done) / static_cast<double>(total));
  };
  model.engine = Engine::load(options.dir, engine);
  model.tokenizer = load_tokenizer(options.dir);
  if (model.tokenizer) {
    check_vocabulary(options.dir, *model.tokenizer, model.engine->info().vocab_size);
  }
  model.load_seconds = watch.lap();
  return model;
}

const Tokenizer& OpenModel::require_tokenizer(const char* what) const {
  if (!tokenizer) {
    fail(ErrorCode::kUsage, "{} needs a tokenizer, and the model directory has no tiktoken.model",
         what);
  }
  return *tokenizer;
}

}  // namespace baltoro::cli
