// Descriptions of bf16 matrices for the bulk copy engine.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace baltoro::cuda::sm90 {

// Boxes of `box_rows` rows and 64 columns (128 bytes) of a matrix [rows, cols] whose rows start
// `row_stride` values after each other, put into shared memory under the 128-byte swizzle. What
// lies outside of the matrix reads as zero. `data` and row_stride * 2 are multiples of 16 bytes.
CUtensorMap tile_map(const void* data, std::int64_t rows, std::int64_t cols,
                     std::int64_t row_stride, int box_rows);

// The same of `cols` columns in each of many pages, [pages, kBlockTokens, cols], a page `page_bytes` (a
// multiple of 16) behind the one before: boxes of all rows of a page and 64 columns, either bf16 under
// the 128-byte swizzle, or bytes one row behind the other.
enum class PageOf : std::uint8_t { kBf16, kBytes };
CUtensorMap page_map(const void* data, PageOf type, std::int64_t cols, std::int64_t pages,
                     std::int64_t page_bytes);

}  // namespace baltoro::cuda::sm90
