// What a session, a fork or a snapshot holds: tokens, state slots, cache pages, last logits. Owns
// its share of the pools.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "baltoro/types.h"
#include "engine/state_pool.h"

namespace baltoro {

// The rows of a timeline that the next forward pass must compute.
struct Feed {
  std::int64_t begin = 0;  // may lie before the new tokens: an open prompt block starts over
  std::int64_t end = 0;
};

// Guarded by the engine's mutex. While a prompt is read, the boundary slot holds the state at
// `restart_pos`, the last absolute block boundary or the start of the prompt: a prompt that
// continues within an open block starts over from there, so that its bits do not depend on where it
// was split (docs/numerics.md).
class Timeline {
 public:
  explicit Timeline(StatePool& pool);
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  // An independent timeline with the same content: copies of the slots, shared pages.
  std::unique_ptr<Timeline> clone() const;

  // Appends tokens and says which rows to compute. Prepares the slots for them.
  Feed append(std::span<const TokenId> tokens, Origin origin);
  // Makes pages for positions [begin, end) that belong to this timeline alone.
  void own_pages(std::int64_t begin, std::int64_t end);
  // A pass has computed prompt rows [begin, end): the boundary slot may have moved.
  void note_prompt_rows(std::int64_t begin, std::int64_t end);

  std::int64_t position() const { return static_cast<std::int64_t>(tokens.size()); }
  StatePool& pool() const { return pool_; }

  std::vector<TokenId> tokens;
  std::vector<std::int32_t> pages;
  std::vector<float> logits;  // [V] after the last token; empty before the first
  std::int32_t live_slot = -1;
  std::int32_t boundary_slot = -1;
  std::int64_t restart_pos = 0;
  bool prompt_is_open = false;  // the last token arrived as input
  std::string failure;          // not empty: a computation failed and the state is unusable

 private:
  StatePool& pool_;
};

}  // namespace baltoro
