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
};

constexpr std::int64_t kMaxGroupedExperts = 8192;

// No group memory yet: only the counts.
ExpertGroups plan_groups(std::int64_t num_pairs, std::int64_t num_experts, int group_rows,
                         int align = 1);
std::size_t group_bytes(const ExpertGroups& groups);
void take_groups(Scratch& scratch, ExpertGroups& groups);

// Fills `groups` from ids [num_pairs], one launch.
void group_pairs(Context& context, const ExpertGroups& groups, const std::int32_t* ids,
                 std::int64_t num_experts);

}  // namespace baltoro::cuda
