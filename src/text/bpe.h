// Byte-pair encoding of one piece.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/vocabulary.h"

namespace baltoro {

// Working memory of encode_piece, kept between calls so that they do not allocate.
struct BpeScratch {
  struct Part {
    std::uint32_t next;      // where the following part begins
    std::uint32_t previous;  // where the part in front begins
    TokenId id;
    TokenId pair;  // the token that this part and the next make; kAbsent: none, or merged away
  };
  std::vector<Part> parts;          // by the offset of the first byte
  std::vector<std::uint64_t> heap;  // rank << 32 | offset of the left part
};

// Appends the ids of `piece` (fewer than 2^32 - 1 bytes): the token that equals it, else single
// bytes of which the adjacent pair whose concatenation has the lowest rank is merged, leftmost on
// ties, until no pair is a token. Takes O(n log n) for n bytes.
void encode_piece(const Vocabulary& vocabulary, std::string_view piece, BpeScratch& scratch,
                  std::vector<TokenId>& ids);

}  // namespace baltoro
