// Speed of one generation against what the machine's memory can do.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "baltoro/engine.h"
#include "baltoro/generate.h"

namespace baltoro::cli {

struct RunStats {
  std::int64_t prompt_tokens = 0;   // read for this answer
  std::int64_t first_position = 0;  // tokens in the session when generation begins
  std::int64_t generated_tokens = 0;
  std::int64_t decode_paged_bytes = 0;  // read from the files while generating
  double load_seconds = 0;
  double prefill_seconds = 0;
  double decode_seconds = 0;
};

// Several lines for people. Measures the machine's memory bandwidth (a fraction of a second).
std::string describe(const RunStats& stats, const Engine& engine, const GenerateOptions& options);
nlohmann::ordered_json to_json(const RunStats& stats, const Engine& engine,
                               const GenerateOptions& options);

}  // namespace baltoro::cli
