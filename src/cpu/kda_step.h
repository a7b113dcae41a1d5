// The recurrent form of KDA, for generated rows: a few heads of a sequence at a time.
#pragma once

#include <algorithm>

#include "cpu/context.h"
#include "ops/kda.h"

namespace baltoro::cpu {

// Heads side by side share the calls of what is done channel by channel, and their states are then
// updated one behind the other: a stream for the prefetcher of the processor, which is faster than lines
// asked for (docs/performance.md).
constexpr std::int64_t kStepHeads = 16;

struct KdaStepWork {
  std::int64_t heads = 0, dk = 0, dv = 0;
  float* q = nullptr;        // [heads, Dk]
  float* k = nullptr;        // [heads, Dk]
  float* v = nullptr;        // [heads, Dv]
  float* decay = nullptr;    // [heads, Dk], exp(g)
  float* beta = nullptr;     // [heads]
  float* out = nullptr;      // [heads, Dv]
  float* decayed = nullptr;  // [2 Dk]

  explicit KdaStepWork(const KdaShape& shape)
      : heads(std::min(shape.num_heads, kStepHeads)), dk(shape.head_dim_k), dv(shape.head_dim_v) {}
  void carve(Carver& carver);
};

// All rows of a sequence of generated rows for `count` <= kStepHeads heads from `head` on: states
// and conv histories in args.pool are updated in place, rows of args.out written. A head's bits do
// not depend on `head` and `count`.
void kda_steps(const Context& context, const KdaMixArgs& args, const SequenceRows& sequence,
               std::int64_t head, std::int64_t count, const KdaStepWork& work);

}  // namespace baltoro::cpu
