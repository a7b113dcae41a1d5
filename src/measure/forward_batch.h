// Sequences at one depth, and the forward passes that benchmarks time.
#pragma once

#include <cstdint>
#include <vector>

#include "baltoro/engine.h"
#include "baltoro/session.h"

namespace baltoro {

// The sequences share no memory but the weights. Tokens are random, the same in every run; a decode
// feeds them as generated ones and samples nothing. Every call starts again at the depth. A past of
// more than 65,536 tokens of all sequences together is not read: the first reads at most 16,384,
// whose cache repeats, and the others are copies of it. Sizes count, not what is said.
class ForwardBatch {
 public:
  // Throws as Session::prefill.
  ForwardBatch(Engine& engine, std::int64_t size, std::int64_t depth);

  // Seconds of one pass in which every sequence reads `count` tokens. Throws as Engine::forward, and
  // what an item failed with; so does decode().
  double prefill(std::int64_t count) { return run(count, count, Origin::kPrompt); }
  // Seconds of `count` passes with one generated token of every sequence.
  double decode(std::int64_t count) { return run(count, 1, Origin::kGenerated); }

 private:
  double run(std::int64_t count, std::int64_t tokens_a_pass, Origin origin);

  Engine& engine_;
  std::vector<Session> sessions_;
};

}  // namespace baltoro
