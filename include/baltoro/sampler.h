// Choosing the next token from logits.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "baltoro/constraint.h"
#include "baltoro/draw.h"
#include "baltoro/types.h"

namespace baltoro {

struct TokenBias {
  TokenId token = 0;
  float bias = 0;  // in [-100, 100], added to the logit
};

// A choice goes: penalties, in the order in which they stand here, then the bias, then the
// constraint, then temperature, then the filters top-k, top-p, min-p on the tempered distribution;
// the most likely token that is left always stays. Ties go to the lower id.
struct SamplingParams {
  float temperature = 1.0f;  // 0: greedy
  std::int64_t top_k = 0;    // 0: off
  float top_p = 1.0f;        // keeps the smallest set with at least this probability; 1: off
  float min_p = 0.0f;        // drops tokens below min_p times the largest probability; 0: off
  // For tokens of the prompt or the answer: divides a positive logit, multiplies a negative one.
  // In [0.01, 100]; 1: off.
  float repetition_penalty = 1.0f;
  // Taken off the logit of a token of the answer, once; in [-2, 2], 0: off.
  float presence_penalty = 0.0f;
  // The same for each time that it stands in the answer.
  float frequency_penalty = 0.0f;
  std::vector<TokenBias> logit_bias = {};  // no token twice
  // Counter-based: the random number of a step depends on (seed, step) alone.
  std::uint64_t seed = 0;
  int num_logprobs = 0;  // alternatives to report with each choice
};

struct TokenLogprob {
  TokenId token = 0;
  // Natural logarithm, of the model's own distribution over the tokens that are not banned: neither
  // temperature and filters nor penalties, bias and constraint change it.
  float logprob = 0;
};

struct Choice {
  TokenId token = 0;
  float logprob = 0;
  std::vector<TokenLogprob> top;  // num_logprobs entries, most likely first
};

// One sequence, one thread at a time; keeps scratch memory, so that sampling allocates nothing
// after the first call (with num_logprobs 0).
class Sampler {
 public:
  // `banned` ids are never chosen (reserved tokens), whatever the constraint allows. Throws
  // Error{kUsage} for parameters out of range, naming the parameter.
  Sampler(const SamplingParams& params, std::span<const TokenId> banned,
          std::shared_ptr<TokenConstraint> constraint = nullptr);

  // Tokens before the answer; the repetition penalty alone asks for them. Before the first choose().
  void read_prompt(std::span<const TokenId> tokens);

  // Chooses, counts the token as one of the answer and lets the constraint accept it. Throws
  // Error{kNonFinite} where no allowed token has a finite logit or any is NaN. +infinity is
  // chosen outright: it has all probability, the others none. Throws Error{kUsage} where a token of
  // the bias or the prompt is not in the vocabulary.
  Choice choose(std::span<const float> logits, std::uint64_t step);

  // For a pass to draw the token that choose() would choose at this step, with its log probability
  // within 1e-6. Nothing where more than the row decides or is wanted: penalties, bias, constraint,
  // alternatives to report, a top-k above 256. Views the sampler.
  std::optional<DrawRequest> draw_request(std::uint64_t step) const;

 private:
  bool penalizes() const;
  void count_prompt(std::size_t vocab_size);
  std::span<const float> adjust(std::span<const float> logits);
  void apply_constraint();
  double weigh(std::span<const float> logits, float max, float temperature);
  void filter(std::span<const float> logits, float max, double total);
  TokenId draw(std::span<const float> logits, float max, double total, std::uint64_t step);
  TokenId draw_from_all(double left) const;
  double random_part(std::uint64_t step) const;  // in [0, 1)
  void report(std::span<const float> logits, float max, double norm, TokenId best, Choice& choice);

  SamplingParams params_;
  std::vector<TokenId> banned_;
  std::shared_ptr<TokenConstraint> constraint_;
  std::vector<TokenId> prompt_;  // sorted, until the first choice
  // [V], where there are penalties: times in the answer, kInPrompt added for tokens of the prompt.
  std::vector<std::uint32_t> seen_;
  std::vector<float> adjusted_;  // [V]
  std::vector<std::uint64_t> mask_;
  std::vector<float> weights_;  // [V]
  std::vector<TokenId> order_;
};

}  // namespace baltoro
