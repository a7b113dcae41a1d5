#include "engine/prompt_rows.h"

#include <algorithm>

#include "ops/batch.h"

namespace baltoro {

std::vector<std::int64_t> share_rows(std::span<const PromptPart> parts, std::int64_t budget,
                                     std::size_t first) {
  std::vector<std::int64_t> rows(parts.size(), 0);
  for (bool gave = true; gave;) {
    gave = false;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::size_t part = (first + i) % parts.size();
      const std::int64_t to_boundary =
          kBlockTokens - (parts[part].position + rows[part]) % kBlockTokens;
      const std::int64_t block = std::min(to_boundary, parts[part].left - rows[part]);
      if (block <= 0 || block > budget) continue;
      rows[part] += block;
      budget -= block;
      gave = true;
    }
  }
  return rows;
}

}  // namespace baltoro
