// Warpgroup matrix instructions with the left operand in registers (PTX ISA, wgmma.mma_async; sm_90a).
// Warp w of the group has rows [16 w, +16) of left and accumulator, as fragments of mma.cuh. The
// right operand lies in shared memory in panels of 64 columns of bf16: rows of 128 bytes whose
// 16-byte chunk c of row r is in place c ^ (r % 8), 1024-byte aligned.
#pragma once

#include <cstdint>

namespace baltoro::cuda {

// Of a panel whose rows are the output columns and whose columns are summed over; `at` may point
// at any 16 of its columns.
__device__ __forceinline__ std::uint64_t panel_descriptor(const void* at) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(at));
  constexpr std::uint64_t kSwizzle128 = std::uint64_t{1} << 62, kEightRows = 1024;
  return kSwizzle128 | (kEightRows >> 4) << 32 | std::uint64_t{1} << 16 | (address & 0x3ffffu) >> 4;
}
// Of panels whose rows are summed over and whose columns are output columns, `panel_bytes` apart.
__device__ __forceinline__ std::uint64_t transposed_descriptor(const void* at,
                                                               std::uint64_t panel_bytes) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(at));
  constexpr std::uint64_t kSwizzle128 = std::uint64_t{1} << 62, kEightRows = 1024;
  return kSwizzle128 | (kEightRows >> 4) << 32 | (panel_bytes >> 4) << 16 |
         (address & 0x3ffffu) >> 4;
}

// Before the first of several products, and after registers of theirs were written.
__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Until at most kPending groups are under way.
template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// c += a b, 64 output columns.
__device__ __forceinline__ void wgmma_n64(float4* c, uint4 a, std::uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,"
      "%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
      "}, {%32,%33,%34,%35}, %36, 1, 1, 1, 0;"
      : "+f"(c[0].x), "+f"(c[0].y), "+f"(c[0].z), "+f"(c[0].w), "+f"(c[1].x), "+f"(c[1].y),
        "+f"(c[1].z), "+f"(c[1].w), "+f"(c[2].x), "+f"(c[2].y), "+f"(c[2].z), "+f"(c[2].w),
        "+f"(c[3].x), "+f"(c[3].y), "+f"(c[3].z), "+f"(c[3].w), "+f"(c[4].x), "+f"(c[4].y),
        "+f"(c[4].z), "+f"(c[4].w), "+f"(c[5].x), "+f"(c[5].y), "+f"(c[5].z), "+f"(c[5].w),
        "+f"(c[6].x), "+f"(c[6].y), "+f"(c[6].z), "+f"(c[6].w), "+f"(c[7].x), "+f"(c[7].y),
        "+f"(c[7].z), "+f"(c[7].w)
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b));
}

// 128 output columns; b is transposed.
__device__ __forceinline__ void wgmma_n128_transposed(float4* c, uint4 a, std::uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,"
      "%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,"
      "%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,"
      "%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
      "}, {%64,%65,%66,%67}, %68, 1, 1, 1, 1;"
      : "+f"(c[0].x), "+f"(c[0].y), "+f"(c[0].z), "+f"(c[0].w), "+f"(c[1].x), "+f"(c[1].y),
        "+f"(c[1].z), "+f"(c[1].w), "+f"(c[2].x), "+f"(c[2].y), "+f"(c[2].z), "+f"(c[2].w),
        "+f"(c[3].x), "+f"(c[3].y), "+f"(c[3].z), "+f"(c[3].w), "+f"(c[4].x), "+f"(c[4].y),
        "+f"(c[4].z), "+f"(c[4].w), "+f"(c[5].x), "+f"(c[5].y), "+f"(c[5].z), "+f"(c[5].w),
        "+f"(c[6].x), "+f"(c[6].y), "+f"(c[6].z), "+f"(c[6].w), "+f"(c[7].x), "+f"(c[7].y),
        "+f"(c[7].z), "+f"(c[7].w), "+f"(c[8].x), "+f"(c[8].y), "+f"(c[8].z), "+f"(c[8].w),
        "+f"(c[9].x), "+f"(c[9].y), "+f"(c[9].z), "+f"(c[9].w), "+f"(c[10].x), "+f"(c[10].y),
        "+f"(c[10].z), "+f"(c[10].w), "+f"(c[11].x), "+f"(c[11].y), "+f"(c[11].z), "+f"(c[11].w),
        "+f"(c[12].x), "+f"(c[12].y), "+f"(c[12].z), "+f"(c[12].w), "+f"(c[13].x), "+f"(c[13].y),
        "+f"(c[13].z), "+f"(c[13].w), "+f"(c[14].x), "+f"(c[14].y), "+f"(c[14].z), "+f"(c[14].w),
        "+f"(c[15].x), "+f"(c[15].y), "+f"(c[15].z), "+f"(c[15].w)
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b));
}

}  // namespace baltoro::cuda
