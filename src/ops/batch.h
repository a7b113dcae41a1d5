// The ragged batch that every op of a forward pass sees: M rows, consecutive rows of one sequence
// together, in time order.
#pragma once

#include <cstdint>
#include <span>

#include "baltoro/types.h"
#include "ops/draw.h"

namespace baltoro {

// Chunkwise KDA works on blocks that start at absolute multiples of this, and a page of the MLA
// cache holds this many tokens.
constexpr std::int64_t kBlockTokens = 64;

struct SequenceRows {
  std::int64_t first_row = 0;   // in the batch
  std::int64_t num_rows = 0;    // >= 1
  std::int64_t start_pos = 0;   // position in the sequence of first_row
  std::int32_t state_slot = 0;  // slot of the KDA and conv state pools, updated in place
  // Receives the state and conv history at the last multiple of kBlockTokens in (start_pos,
  // start_pos + num_rows], where there is one. -1: not wanted. Only for kPrompt.
  std::int32_t boundary_slot = -1;
  Origin origin = Origin::kPrompt;
  // Pages of the MLA cache that hold positions [0, start_pos + num_rows), kBlockTokens positions
  // each. A page id is valid in every layer's pool.
  std::span<const std::int32_t> pages;
};

struct BatchView {
  std::span<const std::int32_t> token_ids;  // [M]
  std::span<const SequenceRows> sequences;
  // [M] each, or empty and null: the token after each row is drawn in the pass too, into memory of
  // allocate_shared() (HeadDrawArgs).
  std::span<const Draw> draws = {};
  Drawn* drawn = nullptr;

  std::int64_t num_rows() const { return static_cast<std::int64_t>(token_ids.size()); }
};

}  // namespace baltoro
