// How absorbed decode splits the pages of the generated rows over blocks: in even shares of all
// pages, or, where bits may not depend on neighbours, in pieces of a fixed number of pages.
#pragma once

#include "cuda/batch_stage.h"

namespace baltoro::cuda {

// One generated row. Rows are numbered in batch order ("ordinals").
struct SplitRow {
  std::int32_t row;           // in the batch
  std::int32_t length;        // keys that it sees, its own included
  std::int32_t first_page;    // in DeviceBatch::pages
  std::int32_t pages_before;  // pages of the rows before it
};

// Pages [begin, end) of one row, for one block. A segment's partial result lies at `index`; indices
// of one row are consecutive and in page order.
struct Segment {
  std::int32_t ordinal, begin, end, index;
};

struct SplitPlan {
  SplitRow* rows;  // [num_rows + 1], the last with the total in pages_before
  std::int32_t num_rows;
  std::int32_t num_blocks;
  std::int32_t fixed_pages;  // of a piece; 0 for even shares
  std::int32_t max_pieces;   // of one row, where pieces are fixed

  std::int32_t num_segments() const { return fixed_pages > 0 ? num_blocks : num_blocks + num_rows; }
};

#ifdef __CUDACC__

// Fewer pages are not worth a block of their own.
constexpr std::int64_t kLeastShare = 2;

__device__ __forceinline__ std::int64_t sharing_blocks(const SplitPlan& plan, std::int64_t total) {
  const std::int64_t most = (total + kLeastShare - 1) / kLeastShare;
  return most < plan.num_blocks ? most : plan.num_blocks;
}

// The first segment of a block at or behind page `from` of all; end == begin where there is none.
// Even shares: `from` goes on at from + (end - begin).
__device__ __forceinline__ Segment segment_at(const SplitPlan& plan, std::int32_t block,
                                              std::int32_t from) {
  const SplitRow* rows = plan.rows;
  if (plan.fixed_pages > 0) {
    const std::int32_t ordinal = block / plan.max_pieces;
    const std::int32_t pages = rows[ordinal + 1].pages_before - rows[ordinal].pages_before;
    const std::int32_t begin = min(block % plan.max_pieces * plan.fixed_pages, pages);
    return {ordinal, begin, from > 0 ? begin : min(begin + plan.fixed_pages, pages), block};
  }
  const std::int64_t total = rows[plan.num_rows].pages_before;
  const std::int64_t blocks = sharing_blocks(plan, total);
  if (block >= blocks) return {0, 0, 0, 0};
  const std::int64_t begin = max(block * total / blocks, static_cast<std::int64_t>(from));
  const std::int64_t end = (block + 1) * total / blocks;
  if (begin >= end) return {0, 0, 0, 0};
  std::int32_t low = 0, high = plan.num_rows;  // rows[low].pages_before <= begin < rows[high]
  while (high - low > 1) {
    const std::int32_t middle = (low + high) / 2;
    (rows[middle].pages_before <= begin ? low : high) = middle;
  }
  const auto before = static_cast<std::int64_t>(rows[low].pages_before);
  const auto last = min(end, static_cast<std::int64_t>(rows[low + 1].pages_before));
  return {low, static_cast<std::int32_t>(begin - before), static_cast<std::int32_t>(last - before),
          block + low};
}

// The indices [first, last] of the segments of a row.
__device__ __forceinline__ int2 segments_of(const SplitPlan& plan, std::int32_t ordinal) {
  const std::int64_t before = plan.rows[ordinal].pages_before;
  const std::int64_t after = plan.rows[ordinal + 1].pages_before;
  if (plan.fixed_pages > 0) {
    const std::int32_t first = ordinal * plan.max_pieces;
    return {first, first + static_cast<std::int32_t>((after - before - 1) / plan.fixed_pages)};
  }
  const std::int64_t total = plan.rows[plan.num_rows].pages_before;
  const std::int64_t blocks = sharing_blocks(plan, total);
  const auto block_of = [&](std::int64_t page) {
    return static_cast<std::int32_t>(((page + 1) * blocks - 1) / total);
  };
  return {block_of(before) + ordinal, block_of(after - 1) + ordinal};
}

#endif

}  // namespace baltoro::cuda
