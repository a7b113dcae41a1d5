// The most likely tokens after a row: what most choices of a token depend on, in place of a logit for
// each of the vocabulary.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "baltoro/types.h"

namespace baltoro {

struct TopLogits {
  // Of the allowed tokens at most kTopLogits, most likely first and the lower id among equals; empty
  // where they could not be told apart in the memory there is.
  std::span<const TokenId> ids;
  std::span<const float> logits;
  bool whole = false;  // these are all allowed tokens
  // Sums over all allowed tokens of exp(logit - largest) and of exp((logit - largest) / temperature),
  // with a relative error below 1e-6.
  double total = 0;
  double tempered_total = 0;
};

// In place of the logits of a forward pass' last token (BatchItem::top).
struct TopLogitsRequest {
  float temperature = 1;            // of tempered_total; above 0
  std::span<const TokenId> banned;  // not allowed; sorted, no token twice
  // Called once, during forward() and on its thread, unless the item fails. Returns whether this was
  // enough; if not, the session has its logits afterwards, as without a request.
  std::function<bool(const TopLogits&)> decide;
};

}  // namespace baltoro
