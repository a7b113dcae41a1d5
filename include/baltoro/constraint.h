// What restricts the tokens of an answer: a grammar, the form of a chat message.
#pragma once

#include <cstdint>
#include <span>

#include "baltoro/types.h"

namespace baltoro {

// Restricts what may be chosen next. One per sequence, one thread at a time.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;

  // Sets bit t % 64 of mask[t / 64] for each token t that may come next. The mask arrives zeroed,
  // with a bit for every logit; bits behind the vocabulary stay zero. Does not change the state.
  virtual void allow(std::span<std::uint64_t> mask) = 0;

  // `token` was chosen. Throws Error{kUsage} for a token that allow() does not name; the constraint
  // is then unchanged.
  virtual void accept(TokenId token) = 0;
};

}  // namespace baltoro
