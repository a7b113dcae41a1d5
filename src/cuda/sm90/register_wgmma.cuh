// Products of a warpgroup with A in registers: D[64, N] += A[64, 16] B[16, N] in bf16, f32 sums.
// Thread fragments as of mma_bf16, 16 rows a warp. PTX ISA, "wgmma.mma_async".
#pragma once

#include <cstdint>

namespace baltoro::cuda {

#define BALTORO_D8(i)                                                                         \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define BALTORO_D16(i) BALTORO_D8(i), BALTORO_D8(i + 8)
#define BALTORO_D32(i) BALTORO_D16(i), BALTORO_D16(i + 16)

// B: its descriptor, rows of n with 16 values of k. `sum` false: D is overwritten.
template <int kN>
struct RegisterWgmma;

template <>
struct RegisterWgmma<32> {
  static __device__ __forceinline__ void multiply(float (&d)[16], const std::uint32_t (&a)[4],
                                                  std::uint64_t b, bool sum) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %21, 0; "
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
        "}, {%16, %17, %18, %19}, %20, p, 1, 1, 0;}"
        : BALTORO_D16(0)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(sum)));
  }
};

template <>
struct RegisterWgmma<64> {
  static __device__ __forceinline__ void multiply(float (&d)[32], const std::uint32_t (&a)[4],
                                                  std::uint64_t b, bool sum) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %37, 0; "
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
        "}, {%32, %33, %34, %35}, %36, p, 1, 1, 0;}"
        : BALTORO_D32(0)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(sum)));
  }
};

template <>
struct RegisterWgmma<80> {
  static __device__ __forceinline__ void multiply(float (&d)[40], const std::uint32_t (&a)[4],
                                                  std::uint64_t b, bool sum) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %45, 0; "
        "wgmma.mma_async.sync.aligned.m64n80k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39"
        "}, {%40, %41, %42, %43}, %44, p, 1, 1, 0;}"
        : BALTORO_D32(0), BALTORO_D8(32)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(sum)));
  }
};

template <>
struct RegisterWgmma<96> {
  static __device__ __forceinline__ void multiply(float (&d)[48], const std::uint32_t (&a)[4],
                                                  std::uint64_t b, bool sum) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %53, 0; "
        "wgmma.mma_async.sync.aligned.m64n96k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
        "}, {%48, %49, %50, %51}, %52, p, 1, 1, 0;}"
        : BALTORO_D32(0), BALTORO_D16(32)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(sum)));
  }
};

template <>
struct RegisterWgmma<128> {
  static __device__ __forceinline__ void multiply(float (&d)[64], const std::uint32_t (&a)[4],
                                                  std::uint64_t b, bool sum) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %69, 0; "
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
        "}, {%64, %65, %66, %67}, %68, p, 1, 1, 0;}"
        : BALTORO_D32(0), BALTORO_D32(32)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(sum)));
  }
};

#undef BALTORO_D8
#undef BALTORO_D16
#undef BALTORO_D32

// Of tiles of 128-byte rows under the 128-byte swizzle, eight rows (1024 bytes) after the other.
__device__ __forceinline__ std::uint64_t swizzled_descriptor(std::uint32_t shared_address) {
  constexpr std::uint64_t kSwizzle128 = 1ull << 62, kEightRows = (1024ull >> 4) << 32;
  return kSwizzle128 | kEightRows | (shared_address & 0x3ffffu) >> 4;
}

__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// At most kPending of the committed groups are still running.
template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Keeps the compiler from moving reads of the sums over a wait.
template <int kCount>
__device__ __forceinline__ void hold(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

}  // namespace baltoro::cuda
