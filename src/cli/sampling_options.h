// Sampling flags over the model's own defaults.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "baltoro/engine.h"
#include "baltoro/generate.h"
#include "baltoro/tokenizer.h"

namespace baltoro::cli {

struct SamplingOptions {
  std::optional<float> temperature;
  std::optional<std::int64_t> top_k;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<std::int64_t> max_tokens;
  std::uint64_t seed = 0;
  std::vector<std::string> stop;
  int logprobs = 0;
  bool ignore_stop_ids = false;
};

void add_sampling_options(CLI::App& app, SamplingOptions& options);

// What applies: a flag where given, else generation_config.json, else greedy with max_tokens
// `default_max_tokens`. A model that gives any sampling value, or do_sample, is sampled;
// do_sample false is greedy.
GenerateOptions resolve(const SamplingOptions& options, const GenerationDefaults& defaults,
                        std::int64_t default_max_tokens);

// The applied values as "temperature 0.7, top-p 0.95, ..." and as JSON.
std::string describe(const GenerateOptions& options);
nlohmann::ordered_json to_json(const GenerateOptions& options);

}  // namespace baltoro::cli
