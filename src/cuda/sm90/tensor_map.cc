#include "cuda/sm90/tensor_map.h"

#include <cudaTypedefs.h>

#include "core/error.h"
#include "cuda/check.h"
#include "ops/batch.h"

namespace baltoro::cuda::sm90 {
namespace {

// From the driver that the runtime has opened; libcuda is not linked.
PFN_cuTensorMapEncodeTiled_v12000 encoder() {
  static const auto function = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000,
                                           cudaEnableDefault, &result),
          "look up cuTensorMapEncodeTiled in the driver");
    BALTORO_CHECK(result == cudaDriverEntryPointSuccess && found != nullptr,
                  "the driver has no cuTensorMapEncodeTiled");
    return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(found);
  }();
  return function;
}

}  // namespace

CUtensorMap tile_map(const void* data, std::int64_t rows, std::int64_t cols,
                     std::int64_t row_stride, int box_rows) {
  CUtensorMap map{};
  const cuuint64_t size[] = {static_cast<cuuint64_t>(cols), static_cast<cuuint64_t>(rows)};
  const cuuint64_t stride_bytes[] = {static_cast<cuuint64_t>(row_stride) * 2};
  const cuuint32_t box[] = {64, static_cast<cuuint32_t>(box_rows)};
  const cuuint32_t step[] = {1, 1};
  const CUresult result =
      encoder()(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<void*>(data), size,
                stride_bytes, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  BALTORO_CHECK(result == CUDA_SUCCESS, "cuTensorMapEncodeTiled of [{}, {}], stride {}: error {}",
                rows, cols, row_stride, static_cast<int>(result));
  return map;
}

CUtensorMap page_map(const void* data, PageOf type, std::int64_t cols, std::int64_t pages,
                     std::int64_t page_bytes) {
  CUtensorMap map{};
  const bool halves = type == PageOf::kBf16;
  const cuuint64_t size[] = {static_cast<cuuint64_t>(cols), kBlockTokens,
                             static_cast<cuuint64_t>(pages)};
  const cuuint64_t stride_bytes[] = {static_cast<cuuint64_t>(cols) * (halves ? 2 : 1),
                                     static_cast<cuuint64_t>(page_bytes)};
  const cuuint32_t box[] = {64, kBlockTokens, 1};
  const cuuint32_t step[] = {1, 1, 1};
  const CUresult result = encoder()(
      &map, halves ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_UINT8, 3,
      const_cast<void*>(data), size, stride_bytes, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
      halves ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  BALTORO_CHECK(result == CUDA_SUCCESS, "cuTensorMapEncodeTiled of {} pages of {} bytes: error {}",
                pages, page_bytes, static_cast<int>(result));
  return map;
}

}  // namespace baltoro::cuda::sm90
