// What expanded and absorbed attention share: the rows of a batch by origin, the cache's pages, the
// online softmax over pages.
#pragma once

#include <cstdint>

#include "cpu/product.h"
#include "ops/mla.h"

namespace baltoro::cpu {

// A page of the cache that holds `count` positions of a sequence from `first_pos` on.
struct CachePage {
  const std::uint8_t* data = nullptr;
  std::int64_t first_pos = 0;
  std::int64_t count = 0;
};

// Page `index` of the sequence's first `length` positions.
CachePage cache_page(const MlaArgs& args, const SequenceRows& sequence, std::int64_t index,
                     std::int64_t length);

// Columns [begin, begin + cols) of the page's rows as f32, out [count, out_stride].
struct PageColumns {
  std::int64_t begin = 0;
  std::int64_t cols = 0;
};
void decode_page(const Context& context, const MlaArgs& args, const CachePage& page,
                 PageColumns columns, const Output& out);

// Writes the cache rows of all rows of `origin`.
void write_cache(Context& context, const MlaArgs& args, Origin origin);

// One head's query of batch row `row` at `position`: [nope | side], the side rotated where asked.
void load_query(const Context& context, const MlaArgs& args, std::int64_t row,
                std::int64_t position, std::int64_t head, float* out);

// Running softmax of one row: the largest score and the sum of exp(score - largest).
struct SoftmaxState {
  float largest = 0;
  float sum = 0;
  bool empty = true;
};

// Turns `count` raw scores into weights relative to the running maximum, after scaling what was
// accumulated before in out [cols].
void merge_scores(const LeafTable& leaf, float* scores, std::int64_t count, SoftmaxState& state,
                  float* out, std::int64_t cols);

// out = round(round(attention) * round(sigmoid(gate))) for one head of a row; attention may be out.
void finish_head(const Context& context, const MlaArgs& args, std::int64_t row, std::int64_t head,
                 const float* attention);

}  // namespace baltoro::cpu
