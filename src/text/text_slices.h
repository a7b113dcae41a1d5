// The cut of very long texts that the released tokenizer makes before anything else. It is part of
// the format: it changes ids.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace baltoro {

struct SliceLimits {
  std::size_t block_chars = 400'000;  // a slice never spans two blocks
  std::size_t run_chars = 25'000;     // of one kind, white space or not, in a row
};

// Cuts `text` into the slices that are encoded independently; their concatenation is `text`.
// Inside each block of block_chars characters the run of one kind is counted, anew whenever the
// kind changes; the character that would be number run_chars + 1 begins a slice and counts as 1.
// Characters are code points; white space is Python's str.isspace (White_Space and U+001C-001F). A
// byte that is not part of well-formed UTF-8 counts as one character that is not white space.
std::vector<std::string_view> cut_slices(std::string_view text, const SliceLimits& limits = {});

}  // namespace baltoro
