// Vectors of the MX formats as bf16, exactly.
#pragma once

#include <cstdint>

#include "cuda/device/activation.cuh"

namespace baltoro::cuda {

// 2^(scale - 133), what a unit of an MXINT8 code stands for, as bf16 in both halves of a word.
__device__ __forceinline__ __nv_bfloat162 mxint8_unit(std::uint32_t scale) {
  std::uint32_t bits = scale < 7 ? 1u << scale : (scale - 6) << 7;  // subnormal, normal
  if (scale == 255) bits = 0x7fc0;
  bits |= bits << 16;
  return *reinterpret_cast<const __nv_bfloat162*>(&bits);
}

// Two codes in the low bytes of the halves of a word. With 128 as bf16 being 0x4300 and its last bit
// worth 1, seven bits of the code make 128 + code; the sign bit makes 128 the 256 to take off.
__device__ __forceinline__ std::uint32_t mxint8_pair(std::uint32_t codes, __nv_bfloat162 unit) {
  const std::uint32_t sum = (codes & 0x007f007fu) | 0x43004300u;
  const std::uint32_t off = (codes & 0x00800080u) | 0x43004300u;
  const __nv_bfloat162 value = __hmul2(__hsub2(*reinterpret_cast<const __nv_bfloat162*>(&sum),
                                               *reinterpret_cast<const __nv_bfloat162*>(&off)),
                                       unit);
  return *reinterpret_cast<const std::uint32_t*>(&value);
}

// Eight codes of one group.
__device__ __forceinline__ uint4 mxint8_to_bf16(uint2 codes, std::uint32_t scale) {
  const __nv_bfloat162 unit = mxint8_unit(scale);
  return {mxint8_pair(__byte_perm(codes.x, 0, 0x4140), unit),
          mxint8_pair(__byte_perm(codes.x, 0, 0x4342), unit),
          mxint8_pair(__byte_perm(codes.y, 0, 0x4140), unit),
          mxint8_pair(__byte_perm(codes.y, 0, 0x4342), unit)};
}

}  // namespace baltoro::cuda
