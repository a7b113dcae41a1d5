// Rows of activations between f32, as hosts hold them, and what a device stores: f32 or bf16.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/dtype.h"

namespace baltoro {

inline void widen(const void* from, DType dtype, float* to, std::int64_t count) {
  if (dtype == DType::kF32) {
    std::copy_n(static_cast<const float*>(from), count, to);
    return;
  }
  const auto* bits = static_cast<const std::uint16_t*>(from);
  std::transform(bits, bits + count, to, bf16_to_f32);
}

// Exact for what a host with bf16 activations holds: its ops have rounded it.
inline void narrow(const float* from, DType dtype, void* to, std::int64_t count) {
  if (dtype == DType::kF32) {
    std::copy_n(from, count, static_cast<float*>(to));
    return;
  }
  std::transform(from, from + count, static_cast<std::uint16_t*>(to), f32_to_bf16);
}

}  // namespace baltoro
