// Choosing the next token from logits.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "baltoro/types.h"

namespace baltoro {

// Filters apply to the tempered distribution, in the order top-k, top-p, min-p; the most likely
// token always stays. Ties go to the lower id.
struct SamplingParams {
  float temperature = 1.0f;  // 0: greedy
  std::int64_t top_k = 0;    // 0: off
  float top_p = 1.0f;        // keeps the smallest set with at least this probability; 1: off
  float min_p = 0.0f;        // drops tokens below min_p times the largest probability; 0: off
  // Counter-based: the choice at a step depends on (seed, step) and the logits alone.
  std::uint64_t seed = 0;
  int num_logprobs = 0;  // alternatives to report with each choice
};

struct TokenLogprob {
  TokenId token = 0;
  float logprob = 0;  // natural logarithm, of the untempered distribution over the allowed tokens
};

struct Choice {
  TokenId token = 0;
  float logprob = 0;
  std::vector<TokenLogprob> top;  // num_logprobs entries, most likely first
};

// Not thread safe; keeps scratch memory, so that sampling allocates nothing after the first call
// (with num_logprobs 0).
class Sampler {
 public:
  // `banned` ids are never chosen (reserved tokens). Throws Error{kUsage} for parameters out of
  // range, naming the parameter.
  Sampler(const SamplingParams& params, std::span<const TokenId> banned);

  // Throws Error{kNonFinite} where no allowed token has a finite logit or any is NaN. +infinity is
  // chosen outright: it has all probability, the others none.
  Choice choose(std::span<const float> logits, std::uint64_t step);

 private:
  TokenId draw(std::span<const float> logits, float max, std::uint64_t step);

  SamplingParams params_;
  std::vector<TokenId> banned_;
  std::vector<float> probability_;
  std::vector<TokenId> order_;
};

}  // namespace baltoro
