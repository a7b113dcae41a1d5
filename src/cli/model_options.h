// Options that every command with a model has, and the loading that they ask for.
#pragma once

#include <CLI/App.hpp>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "baltoro/engine.h"
#include "baltoro/session.h"
#include "baltoro/tokenizer.h"
#include "cli/progress.h"

namespace baltoro::cli {

struct ModelOptions {
  std::string command;  // for messages
  std::string dir;
  std::string device = "cpu";
  std::string activations = "bf16";
  std::string kda_state = "f32";
  std::string expert_activations = "same";
  std::string latents = "auto";
  std::string isa;  // empty: the best
  bool deterministic = false;
  std::string experts = "auto";
  std::optional<std::uint64_t> device_memory;
  std::string load = "auto";
  std::optional<std::uint64_t> memory;  // absent: auto
  std::optional<float> latent_norm_eps;
  int threads = 0;
  bool progress = false;
  bool show_plan = false;  // before it is loaded, of a GPU
};

struct OpenModel {
  std::shared_ptr<Engine> engine;
  std::optional<Tokenizer> tokenizer;  // absent where the directory has no tiktoken.model
  double load_seconds = 0;

  // Throws Error{kUsage} saying what needs it.
  const Tokenizer& require_tokenizer(const char* what) const;
};

// Adds MODEL and the options to a command.
void add_model_options(CLI::App& app, ModelOptions& options);

EngineOptions engine_options(const ModelOptions& options);

// Throws Error{kBadModel} where `dir` is no directory; `command` needs it.
void require_model_directory(const std::string& dir, const std::string& command);

// Reads tokenizer and weights, with a progress bar, for a GPU behind the plan on standard error where
// it was asked for or somebody looks on; `on_share` is told the part of the weights that
// has been read. Throws as Engine::load and Tokenizer::load, and
// Error{kBadModel} where the tokenizer has ids that the model has not.
OpenModel open_model(const ModelOptions& options, const std::function<void(double)>& on_share = {});

// Absent where the directory has no tiktoken.model.
std::optional<Tokenizer> load_tokenizer(const std::filesystem::path& dir);

}  // namespace baltoro::cli
