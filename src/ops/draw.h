// Choosing a token from a row of logits where the logits are, so that none of them need cross to the
// host: what a sampler does (baltoro/sampler.h) but for what depends on earlier tokens.
#pragma once

#include <cstdint>
#include <span>

namespace baltoro {

// A backend need not look further down than this many of the most likely tokens: larger top-k are not
// for it, and a nucleus that is wider may stay undecided.
inline constexpr std::size_t kDrawDepth = 256;

// The filters are those of SamplingParams, in the same order.
struct Draw {
  const std::uint8_t* banned = nullptr;  // [V] in the backend's memory, not 0: never drawn; or null
  double part = 0;                       // the random number, in [0, 1)
  std::int32_t top_k = 0;                // 0: off
  float temperature = 1;                 // 0: the most likely token
  float top_p = 1;                       // 1: off
  float min_p = 0;                       // 0: off
};

struct Drawn {
  // Negative: not decided, for the choice hangs on the last digits of a sum, which another order of
  // the same terms would give otherwise, on tokens further down than kDrawDepth, or there is none.
  std::int32_t token = -1;
  float logprob = 0;     // of the model's own distribution over the tokens that are not banned
  std::int32_t bad = 0;  // not 0: a logit of the row is an infinity or NaN; the others say nothing
};

// The plain form, for a row in memory of the host.
Drawn draw_token(std::span<const float> logits, const Draw& draw);

}  // namespace baltoro
