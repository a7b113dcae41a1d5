#include "engine/prompt_rows.h"

#include <algorithm>

#include "ops/batch.h"

namespace baltoro {
namespace {

constexpr std::int64_t kKeptEvery = 4096;

}  // namespace

std::int64_t block_end(const Reading& reading, std::int64_t limit) {
  return (limit + reading.shift) / kBlockTokens * kBlockTokens - reading.shift;
}

std::vector<std::int64_t> kept_stops(const Reading& reading, std::int64_t shared) {
  // The last token is never part of a kept state: its logits are wanted.
  const std::int64_t last = reading.length - 1;
  std::vector<std::int64_t> stops = {block_end(reading, last),
                                     block_end(reading, std::min(shared, last))};
  const std::int64_t first_position =
      ((reading.begin + reading.shift) / kKeptEvery + 1) * kKeptEvery;
  for (std::int64_t stop = first_position - reading.shift; stop <= last; stop += kKeptEvery) {
    stops.push_back(stop);
  }
  std::erase_if(stops, [&](std::int64_t stop) { return stop <= reading.begin; });
  std::ranges::sort(stops);
  stops.erase(std::unique(stops.begin(), stops.end()), stops.end());
  return stops;
}

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
