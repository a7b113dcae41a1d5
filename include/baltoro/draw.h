// A token drawn within a forward pass: on a GPU it is chosen there, and no logits come to the host.
#pragma once

#include <cstdint>
#include <span>

#include "baltoro/types.h"

namespace baltoro {

// In place of the logits of a forward pass' last token (BatchItem::draw). Sampler::draw_request makes
// one where the choice depends on nothing else.
struct DrawRequest {
  // As in SamplingParams; top_k is at most 256.
  float temperature = 1;
  std::int64_t top_k = 0;
  float top_p = 1;
  float min_p = 0;
  double part = 0;                       // the random number, in [0, 1)
  std::span<const TokenId> banned = {};  // never drawn; sorted, no token twice
};

struct DrawnToken {
  TokenId token = 0;
  float logprob = 0;  // as in TokenLogprob
};

}  // namespace baltoro
