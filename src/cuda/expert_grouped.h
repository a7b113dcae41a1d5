// Experts of bf16 activations from aligned MXFP4 or BF16: pairs are grouped by expert, one of five
// kinds of products fills a row of `down` for each pair, and the slots of each row are summed
// (docs/cuda/experts.md).
#pragma once

#include <optional>
#include <string>

#include "cuda/context.h"
#include "cuda/expert_groups.h"
#include "cuda/expert_table.h"
#include "ops/expert_mlp.h"

namespace baltoro::cuda {

// Why this way does not serve the call; nothing when it does.
std::optional<std::string> grouped_experts_why_not(const Context& context,
                                                   const ExpertMlpArgs& args);
void grouped_experts(Context& context, const ExpertMlpArgs& args, const ExpertEntry* table);

// The weighted sum of the slots.
struct SlotSum {
  const float* weights;  // [pairs]
  void* out;             // bf16 [M, width]
};

struct GroupedExperts {
  const ExpertEntry* table;  // [num_experts]
  int num_experts;
  ExpertGroups groups;
  const void* z;      // bf16 [M, width]
  std::int64_t rows;  // M
  int top_k;
  std::int64_t width;  // Z
  std::int64_t inner;  // F
  Activation activation;
  // Rows are multiplied as ExpertActivations::kFp8 says: z has been rounded, hidden rows are by each
  // kind (fp8_rows.h).
  bool fp8_rows;
  // bf16 [pairs, width], to be filled with round(w2 act(w1 z, w3 z)); or null: `sum` is made at once.
  void* down;
  SlotSum sum;
};

// Each kind: the multiples that widths must be of, the most rows of a group, what it takes of the
// scratch memory, and the products. In all but the last the bits of a row do not depend on the
// other rows.

// MXFP4 as fp16, for a few rows an expert, SiTU only: groups of 2, 4 or 8. Memory: half_rows_bytes.
constexpr int kHalfRows = 8;
void half_experts(Context& context, const GroupedExperts& experts);

// MXFP4 as bf16: groups of 8, 16 or 32.
constexpr int kMmaRows = 32;
std::size_t mma_experts_bytes(const GroupedExperts& experts);
void mma_experts(Context& context, const GroupedExperts& experts);

// BF16: groups of 8, 16 or 32. One row of few slots may have no `down`; it then sums in another
// order.
constexpr int kMostRowSlots = 32;
std::size_t bf16_experts_bytes(const GroupedExperts& experts);
void bf16_experts(Context& context, const GroupedExperts& experts);

// MXFP4 as fp16 through a ring of shared memory, compute capability 9.0a, SiTU and some widths only
// (K3's): groups of 8, 16 or 24. Memory: half_rows_bytes.
constexpr int kRingRows = 24;
bool ring_serves(const Context& context, std::int64_t width, std::int64_t inner);
void ring_experts(Context& context, const GroupedExperts& experts);

// MXFP4 on warpgroup products, compute capability 9.0a: groups of 32, 64, .. 160, at multiples of 8
// positions.
constexpr int kWideRows = 160;
std::size_t wide_experts_bytes(const GroupedExperts& experts);
void wide_experts(Context& context, const GroupedExperts& experts);

}  // namespace baltoro::cuda
