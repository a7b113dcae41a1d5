// What a session, a fork or a snapshot holds: tokens, state slots, cache pages, last logits. Owns
// its share of the pools.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "baltoro/types.h"
#include "engine/logit_row.h"
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
  // Empty, at position 0.
  explicit Timeline(StatePool& pool);
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  // An independent timeline with the same content: copied state, shared pages.
  std::unique_ptr<Timeline> clone() const;

  // Appends tokens and says which rows to compute. Prepares slots and pages for them. Throws
  // Error{kOutOfMemory}; nothing has then changed.
  Feed append(std::span<const TokenId> new_tokens, Origin origin);
  // The next token will be a generated one: gives back what only a prompt that goes on needs.
  void close_prompt();
  // Makes pages for positions [begin, end) that belong to this timeline alone.
  void own_pages(std::int64_t begin, std::int64_t end);
  // SessionAccess::repeat_past().
  void repeat_past(std::int64_t to);
  // A pass has computed prompt rows [begin, end): the boundary slot may have moved.
  void note_prompt_rows(std::int64_t begin, std::int64_t end);
  // Takes a boundary slot, content unspecified, where there is none yet.
  void make_boundary_slot();

  std::int64_t position() const { return static_cast<std::int64_t>(tokens.size()); }
  // Whether going on needs the boundary slot: a prompt stands within an open block.
  bool needs_boundary() const { return prompt_is_open && restart_pos != position(); }
  StatePool& pool() const { return pool_; }

  std::vector<TokenId> tokens;
  std::vector<std::int32_t> pages;
  LogitRow logits;  // [V] after the last token; empty before the first
  std::int32_t live_slot = -1;
  std::int32_t boundary_slot = -1;  // -1 where no prompt is being read
  std::int64_t restart_pos = 0;
  bool prompt_is_open = false;  // the last token arrived as input
  std::string failure;          // not empty: a computation failed and the state is unusable

 private:
  struct NoState {};
  // Owns nothing yet, so that a constructor or clone() that fails half-way gives back what it took.
  Timeline(StatePool& pool, NoState /*tag*/) : pool_(pool) {}
  void release_boundary_slot();

  StatePool& pool_;
};

}  // namespace baltoro
