// Rows as ExpertActivations::kFp8 wants them: e4m3 values times one power of two a row
// (core/e4m3.h), stored in the type of the row, which holds them exactly.
#pragma once

#include <cstdint>

#include "cuda/context.h"

namespace baltoro::cuda {

// Where the elements of a row lie: pieces of neighbours, all of one length. Strides in elements.
struct RowPieces {
  std::int64_t rows;
  std::int64_t row_stride;  // from a piece to the same one of the next row
  std::int64_t pieces;
  std::int64_t piece_stride;
  int piece;  // elements
  // Device memory: how many of the rows there are; null: all.
  const std::int32_t* num_rows;
};

inline RowPieces whole_rows(std::int64_t rows, std::int64_t cols) {
  return {rows, cols, 1, 0, static_cast<int>(cols), nullptr};
}

// `to` may be `from`. T: float, bf16 or __half (where 2^-24 is the smallest step).
template <typename T>
void round_fp8_rows(Context& context, const RowPieces& rows, const T* from, T* to);

}  // namespace baltoro::cuda
