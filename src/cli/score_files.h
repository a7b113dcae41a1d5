// The loss of a model on files, for the commands that print it.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <numbers>
#include <optional>
#include <string>

#include "cli/model_options.h"
#include "cli/progress.h"
#include "measure/score.h"

namespace baltoro::cli {

// How files are read and cut into windows.
struct ScoreInput {
  std::string format = "text";
  std::string separator;
  std::int64_t context = 1024;
  std::optional<std::int64_t> stride;
};

struct FileScore {
  std::string name;
  Score score;
  std::uint64_t bytes = 0;
  std::size_t documents = 0;

  double nats_per_token() const { return score.nats / static_cast<double>(score.predicted); }
  double bits_per_byte() const {
    return score.nats / std::numbers::ln2 / static_cast<double>(bytes);
  }
};

// Adds --format, --separator, --context and --stride.
void add_score_options(CLI::App& app, ScoreInput& input);

// Reads `path` ("-" is standard input) and scores its documents, with a progress bar. Throws
// Error{kUsage} where the file or the options do not fit the model, and as Engine::forward.
FileScore score_file(const ScoreInput& input, const std::string& path, const OpenModel& model,
                     ProgressMode progress);

nlohmann::ordered_json to_json(const FileScore& file);

// "book.txt: 1 document, 4,096 tokens, 1.2345 nats/token, 0.4321 bits/byte"
std::string score_line(const FileScore& file);

}  // namespace baltoro::cli
