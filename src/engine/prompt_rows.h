// How prompts that are being read share the rows of a step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace baltoro {

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
