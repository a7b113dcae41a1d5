// The loss of a model on given tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "baltoro/engine.h"

namespace baltoro {

struct ScoreOptions {
  std::int64_t context = 1024;  // tokens that a window reads; at least 2
  // Distance between windows, in [1, context]. A window after the first scores only its last
  // `stride` predictions, so that each has at least context - stride tokens before it.
  std::int64_t stride = 512;
};

struct Score {
  double nats = 0;  // sum of -log p
  std::int64_t predicted = 0;

  Score& operator+=(const Score& other) {
    nats += other.nats;
    predicted += other.predicted;
    return *this;
  }
};

// The loss of each token of one document but the first, which nothing predicts. `progress` is
// called with the number of tokens scored so far. Throws Error{kUsage} for bad options, and as
// Engine::forward.
Score score_document(Engine& engine, std::span<const TokenId> document, const ScoreOptions& options,
                     const std::function<void(std::int64_t)>& progress = {});

}  // namespace baltoro
