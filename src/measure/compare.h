// One model, two backends (or instruction sets, or activation types), the same input: where and by
// how much do they differ?
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "baltoro/engine.h"
#include "measure/compare_backend.h"
#include "model/loader.h"

namespace baltoro {

enum class Verdict : std::uint8_t {
  kIdentical,  // every logit has the same bits
  kAgree,      // the same tokens; no op beyond its tolerance
  kTie,        // other tokens, but only where their margin is below twice the largest difference
  kDiverged,   // an op beyond its tolerance, or other tokens without a tie
};
// "identical", "agree", "tie", "diverged".
std::string_view to_string(Verdict verdict);

struct CompareInput {
  std::filesystem::path dir;
  EngineOptions first;
  EngineOptions second;
  std::vector<TokenId> ids;  // the prompt, not empty
  // Tokens that the first one then generates greedily; both read them.
  std::int64_t num_decode = 16;
};

// What the op by op pass saw.
struct OpComparison {
  std::optional<OpDifference> first_exceeding;  // in order of computation
  std::optional<OpDifference> worst;            // nearest to its tolerance, or furthest beyond
  RouteFlips route_flips;
};

struct CompareReport {
  Verdict verdict = Verdict::kIdentical;
  std::int64_t num_positions = 0;
  std::int64_t num_other_tokens = 0;    // positions where the most likely tokens differ
  std::int64_t num_ties = 0;            // of them
  std::int64_t first_other_token = -1;  // position, -1: none
  double max_abs = 0;                   // of the logits
  double nmse = 0;                      // sum (a - b)^2 / sum a^2
  OpComparison ops;                     // empty where the logits are identical
};

// Runs a prompt and then generated tokens through the model, each op on both backends with the
// first one's inputs.
OpComparison compare_ops(const LoadedModel& loaded, Backend& first, Backend& second,
                         std::span<const TokenId> prompt, std::span<const TokenId> generated);

// Loads the model once for each side and, where the logits differ, once more for the op by op pass.
// `stage` is told what begins. Throws as Engine::load and Engine::forward.
CompareReport compare(const CompareInput& input,
                      const std::function<void(std::string_view)>& stage = {});

}  // namespace baltoro
