// Where the reading of a prompt stops to keep its state, and how prompts share the rows of a step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace baltoro {

// Prompt tokens are counted from 0; the position of token i in its sequence is i + shift, where the
// sequence goes on from a state of other tokens than the prompt's.
struct Reading {
  std::int64_t length = 0;  // of the prompt
  std::int64_t begin = 0;   // its first token to read
  std::int64_t shift = 0;
};

// The last token count at or before `limit` that ends a block of 64 positions.
std::int64_t block_end(const Reading& reading, std::int64_t limit);

// The token counts at which a prompt's state is kept, ascending, between its begin and its length:
// at the last end of a block, at the last one of the `shared` tokens that another prompt begins with
// too, and every 4,096 positions.
std::vector<std::int64_t> kept_stops(const Reading& reading, std::int64_t shared);

// The rest of a prompt that wants rows.
struct PromptPart {
  std::int64_t position = 0;  // of the sequence's next token
  std::int64_t left = 0;      // tokens up to where it must stop
};

// Rows of each part: whole blocks (up to the next multiple of 64 of its position, or its stop) in
// turns that begin with part `first`, as many as fit into `budget`, at least 64. Part `first` is
// never left out.
std::vector<std::int64_t> share_rows(std::span<const PromptPart> parts, std::int64_t budget,
                                     std::size_t first);

}  // namespace baltoro
