#include "cli/model_options.h"

#include <chrono>

#include "core/error.h"

namespace baltoro::cli {
namespace {

constexpr int kMaxThreads = 1024;

}  // namespace

void add_model_options(CLI::App& app, ModelOptions& options) {
  app.add_option("MODEL", options.dir,
                 "Directory with config.json, safetensors and tokenizer files")
      ->required();
  app.add_option("--device", options.device,
                 "cpu, cuda, cuda:N, or reference: scalar, double sums, slow")
      ->capture_default_str();
  app.add_option("--activations", options.activations,
                 "bf16 rounds where the released model does, f32 nowhere")
      ->check(CLI::IsMember({"bf16", "f32"}))
      ->capture_default_str();
  app.add_option("--isa", options.isa,
                 "scalar, avx2, avx512 or avx512bf16; default: the best here");
  app.add_option("--load", options.load, "copy reads into memory, map uses the files, auto chooses")
      ->check(CLI::IsMember({"auto", "copy", "map"}))
      ->capture_default_str();
  app.add_option("--threads", options.threads,
                 "Default: physical cores within the container's limit");
  app.add_option("--latent-norm-eps", options.latent_norm_eps,
                 "Epsilon of the MLA latent norms, instead of the configuration's");
  app.add_flag("--progress", options.progress, "Show progress bars though stderr is no terminal");
}

EngineOptions engine_options(const ModelOptions& options) {
  EngineOptions engine;
  if (options.threads < 0 || options.threads > kMaxThreads) {
    fail(ErrorCode::kUsage, "--threads is {}; it must be between 1 and {}, or 0 for all cores",
         options.threads, kMaxThreads);
  }
  engine.device = options.device;
  engine.activations = options.activations == "f32" ? Activations::kF32 : Activations::kBf16;
  engine.num_threads = options.threads;
  if (!options.isa.empty()) engine.isa = options.isa;
  engine.latent_norm_eps = options.latent_norm_eps;
  engine.load = options.load == "copy"  ? LoadMode::kCopy
                : options.load == "map" ? LoadMode::kMap
                                        : LoadMode::kAuto;
  return engine;
}

std::optional<Tokenizer> load_tokenizer(const std::filesystem::path& dir) {
  std::error_code error;
  if (!std::filesystem::exists(dir / "tiktoken.model", error)) return std::nullopt;
  return Tokenizer::load(dir);
}

LoadedModel load_model(const ModelOptions& options) {
  LoadedModel model;
  const auto start = std::chrono::steady_clock::now();
  EngineOptions engine = engine_options(options);
  ProgressBar bar("Reading weights",
                  options.progress ? ProgressMode::kAlways : ProgressMode::kAuto);
  engine.progress = [&bar](std::size_t done, std::size_t total) { bar.update(done, total); };
  model.engine = Engine::load(options.dir, engine);
  model.tokenizer = load_tokenizer(options.dir);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  model.load_seconds = seconds.count();
  return model;
}

const Tokenizer& LoadedModel::require_tokenizer(const char* what) const {
  if (!tokenizer) {
    fail(ErrorCode::kUsage, "{} needs a tokenizer, and the model directory has no tiktoken.model",
         what);
  }
  return *tokenizer;
}

}  // namespace baltoro::cli
