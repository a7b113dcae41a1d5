// The (row, slot) pairs of a batch sorted by expert, on the device: what grouped products walk.
#pragma once

#include <cstdint>

#include "cuda/context.h"

namespace baltoro::cuda {

// Pairs [first, first + count) of the sorted list, all of one expert.
struct RowGroup {
  std::int32_t expert;
  std::int32_t first;
  std::int32_t count;
};

// Pointers are of device memory. A pair is row * top_k + slot. The order within an expert is not
// fixed; no result depends on it.
struct ExpertGroups {
  std::int32_t* pairs;          // [max_positions], -1 at positions that only align
  RowGroup* groups;             // [max_groups], the experts ascending
  std::int32_t* num_groups;     // how many there are
  std::int32_t* num_positions;  // of `pairs` in use
  std::int64_t num_pairs;
  std::int64_t max_positions;  // what launches may depend on
  std::int64_t max_groups;     // likewise
  int group_rows;              // the most pairs of a group; an expert with more has several
  int align;                   // groups start at multiples; divides group_rows
  // One row alone: its ids, each a group, and the list is not made. Else null.
  const std::int32_t* row_ids;
};

#ifdef __CUDACC__

__device__ __forceinline__ std::int64_t count_of(const ExpertGroups& groups) {
  return groups.row_ids != nullptr ? groups.num_pairs : *groups.num_groups;
}
// Past L1: ids may be read before the kernel ahead has ended.
__device__ __forceinline__ RowGroup group_at(const ExpertGroups& groups, std::int64_t i) {
  if (groups.row_ids == nullptr) return groups.groups[i];
  return {__ldcg(groups.row_ids + i), static_cast<std::int32_t>(i), 1};
}
__device__ __forceinline__ std::int32_t pair_at(const ExpertGroups& groups, std::int32_t position) {
  return groups.row_ids != nullptr ? position : groups.pairs[position];
}

#endif

constexpr std::int64_t kMaxGroupedExperts = 8192;

// No group memory yet: only the counts.
ExpertGroups plan_groups(std::int64_t num_pairs, std::int64_t num_experts, int group_rows,
                         int align = 1);
std::size_t group_bytes(const ExpertGroups& groups);
void take_groups(Scratch& scratch, ExpertGroups& groups);

// Fills `groups` from ids [num_pairs], one launch; none for one row.
void group_pairs(Context& context, ExpertGroups& groups, const std::int32_t* ids,
                 std::int64_t num_experts, std::int64_t rows);

}  // namespace baltoro::cuda
