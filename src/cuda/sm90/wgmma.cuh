// Asynchronous matrix products of a warpgroup (wgmma): D[64, N] += A[64, 16] B[16, N] in bf16 with f32
// sums. A lies in shared memory or registers, B in shared memory. PTX ISA, "wgmma.mma_async".
//
// A fragment of 64 x N in registers: warp w of the group holds rows 16w + lane / 4 (+ 8); element
// 4g + 2i + j is row + 8i, column 8g + 2 (lane % 4) + j.
#pragma once

#include <cstdint>

namespace baltoro::cuda::sm90 {

// Operands lie in tiles of 128-byte rows under the 128-byte swizzle, 8 rows (1024 bytes) after the
// other. `kTransposed` operands have k as the row: their rows hold 64 values of m or n each, and
// `wide_stride` bytes lie between one 64 and the next.
__device__ __forceinline__ std::uint64_t tile_descriptor(std::uint32_t shared_address,
                                                         std::uint32_t wide_stride = 0) {
  constexpr std::uint64_t kSwizzle128 = 1ull << 62;
  constexpr std::uint64_t kEightRows = (1024ull >> 4) << 32;
  return kSwizzle128 | kEightRows | static_cast<std::uint64_t>(wide_stride >> 4) << 16 |
         static_cast<std::uint64_t>((shared_address & 0x3ffffu) >> 4);
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
// Keeps the compiler from moving reads of the accumulators over a wait.
template <int kCount>
__device__ __forceinline__ void hold(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

#define BALTORO_F4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define BALTORO_F8(d, i) BALTORO_F4(d, i), BALTORO_F4(d, i + 4)
#define BALTORO_F16(d, i) BALTORO_F8(d, i), BALTORO_F8(d, i + 8)
#define BALTORO_F32(d, i) BALTORO_F16(d, i), BALTORO_F16(d, i + 16)
#define BALTORO_F64(d, i) BALTORO_F32(d, i), BALTORO_F32(d, i + 32)

// The products of one N. `sum` false: D is overwritten.
template <int kN>
struct Wgmma;

template <>
struct Wgmma<16> {
  static __device__ __forceinline__ void multiply(float (&d)[8], std::uint64_t a, std::uint64_t b,
                                                  bool sum) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %10, 0; "
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7"
        "}, %8, %9, p, 1, 1, 0, 0;}"
        : BALTORO_F8(d, 0)
        : "l"(a), "l"(b), "r"(static_cast<int>(sum)));
  }
  static __device__ __forceinline__ void multiply_transposed_a(float (&d)[8], std::uint64_t a,
                                                               std::uint64_t b, bool sum) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %10, 0; "
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7"
        "}, %8, %9, p, 1, 1, 1, 0;}"
        : BALTORO_F8(d, 0)
        : "l"(a), "l"(b), "r"(static_cast<int>(sum)));
  }
};

template <>
struct Wgmma<32> {
  static __device__ __forceinline__ void multiply(float (&d)[16], std::uint64_t a, std::uint64_t b,
                                                  bool sum) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %18, 0; "
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
        "}, %16, %17, p, 1, 1, 0, 0;}"
        : BALTORO_F16(d, 0)
        : "l"(a), "l"(b), "r"(static_cast<int>(sum)));
  }
  static __device__ __forceinline__ void multiply_transposed_a(float (&d)[16], std::uint64_t a,
                                                               std::uint64_t b, bool sum) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %18, 0; "
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
        "}, %16, %17, p, 1, 1, 1, 0;}"
        : BALTORO_F16(d, 0)
        : "l"(a), "l"(b), "r"(static_cast<int>(sum)));
  }
};

template <>
struct Wgmma<48> {
  static __device__ __forceinline__ void multiply(float (&d)[24], std::uint64_t a, std::uint64_t b,
                                                  bool sum) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %26, 0; "
        "wgmma.mma_async.sync.aligned.m64n48k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23"
        "}, %24, %25, p, 1, 1, 0, 0;}"
        : BALTORO_F16(d, 0), BALTORO_F8(d, 16)
        : "l"(a), "l"(b), "r"(static_cast<int>(sum)));
  }
  static __device__ __forceinline__ void multiply_transposed_a(float (&d)[24], std::uint64_t a,
                                                               std::uint64_t b, bool sum) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %26, 0; "
        "wgmma.mma_async.sync.aligned.m64n48k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23"
        "}, %24, %25, p, 1, 1, 1, 0;}"
        : BALTORO_F16(d, 0), BALTORO_F8(d, 16)
        : "l"(a), "l"(b), "r"(static_cast<int>(sum)));
  }
};

template <>
struct Wgmma<64> {
  static __device__ __forceinline__ void multiply(float (&d)[32], std::uint64_t a, std::uint64_t b,
                                                  bool sum) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %34, 0; "
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
        "}, %32, %33, p, 1, 1, 0, 0;}"
        : BALTORO_F32(d, 0)
        : "l"(a), "l"(b), "r"(static_cast<int>(sum)));
  }
  static __device__ __forceinline__ void multiply_transposed_a(float (&d)[32], std::uint64_t a,
                                                               std::uint64_t b, bool sum) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %34, 0; "
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
        "}, %32, %33, p, 1, 1, 1, 0;}"
        : BALTORO_F32(d, 0)
        : "l"(a), "l"(b), "r"(static_cast<int>(sum)));
  }
};

template <>
struct Wgmma<96> {
  static __device__ __forceinline__ void multiply(float (&d)[48], std::uint64_t a, std::uint64_t b,
                                                  bool sum) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %50, 0; "
        "wgmma.mma_async.sync.aligned.m64n96k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
        "}, %48, %49, p, 1, 1, 0, 0;}"
        : BALTORO_F32(d, 0), BALTORO_F16(d, 32)
        : "l"(a), "l"(b), "r"(static_cast<int>(sum)));
  }
  static __device__ __forceinline__ void multiply_transposed_a(float (&d)[48], std::uint64_t a,
                                                               std::uint64_t b, bool sum) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %50, 0; "
        "wgmma.mma_async.sync.aligned.m64n96k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
        "}, %48, %49, p, 1, 1, 1, 0;}"
        : BALTORO_F32(d, 0), BALTORO_F16(d, 32)
        : "l"(a), "l"(b), "r"(static_cast<int>(sum)));
  }
};

template <>
struct Wgmma<128> {
  static __device__ __forceinline__ void multiply(float (&d)[64], std::uint64_t a, std::uint64_t b,
                                                  bool sum) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %66, 0; "
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
        "}, %64, %65, p, 1, 1, 0, 0;}"
        : BALTORO_F64(d, 0)
        : "l"(a), "l"(b), "r"(static_cast<int>(sum)));
  }
  // A from registers: a[2h + i] are the columns 8h + 2 (lane % 4) of row + 8i, as two bf16.
  static __device__ __forceinline__ void multiply_registers_transposed_b(
      float (&d)[64], const std::uint32_t (&a)[4], std::uint64_t b, bool sum) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %69, 0; "
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
        "}, {%64, %65, %66, %67}, %68, p, 1, 1, 1;}"
        : BALTORO_F64(d, 0)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(sum)));
  }
};

#undef BALTORO_F4
#undef BALTORO_F8
#undef BALTORO_F16
#undef BALTORO_F32
#undef BALTORO_F64

}  // namespace baltoro::cuda::sm90
