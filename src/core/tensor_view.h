// Borrowed tensors: pointer, type and shape, row-major and dense, passed by value. The owner is a
// Buffer or a WeightStore.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "core/dtype.h"
#include "core/e8m0.h"

namespace baltoro {

// Up to four dimensions, slowest first.
struct Shape {
  std::array<std::int64_t, 4> dim{};
  int rank = 0;

  constexpr Shape() = default;
  constexpr Shape(std::initializer_list<std::int64_t> dims) {
    for (std::int64_t d : dims) dim[static_cast<std::size_t>(rank++)] = d;
  }
  constexpr std::int64_t operator[](int i) const { return dim[static_cast<std::size_t>(i)]; }
  constexpr std::int64_t count() const {
    std::int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= dim[static_cast<std::size_t>(i)];
    return n;
  }
  constexpr bool operator==(const Shape&) const = default;
};

struct ConstTensorView {
  const void* data = nullptr;
  DType dtype = DType::kF32;
  Shape shape;

  constexpr explicit operator bool() const { return data != nullptr; }
  constexpr std::int64_t rows() const { return shape[0]; }
  constexpr std::int64_t cols() const { return shape[1]; }
  std::size_t bytes() const { return static_cast<std::size_t>(shape.count()) * dtype_bytes(dtype); }
  const float* f32() const { return static_cast<const float*>(data); }
};

struct TensorView {
  void* data = nullptr;
  DType dtype = DType::kF32;
  Shape shape;

  constexpr explicit operator bool() const { return data != nullptr; }
  constexpr operator ConstTensorView() const { return {data, dtype, shape}; }
  constexpr std::int64_t rows() const { return shape[0]; }
  constexpr std::int64_t cols() const { return shape[1]; }
  std::size_t bytes() const { return static_cast<std::size_t>(shape.count()) * dtype_bytes(dtype); }
  float* f32() const { return static_cast<float*>(data); }
};

// A weight matrix [rows, cols] = [out, in] as it lies in the checkpoint. kMxfp4: `data` is packed
// [rows, cols / 2]; kMxint8: int8 [rows, cols]; both with `scales` [rows, cols / 32] E8M0. The other
// formats have no scales.
enum class WeightFormat : std::uint8_t { kF32, kBf16, kF16, kMxfp4, kMxint8 };

constexpr const char* weight_format_name(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
      return "f32";
    case WeightFormat::kBf16:
      return "bf16";
    case WeightFormat::kF16:
      return "f16";
    case WeightFormat::kMxfp4:
      return "mxfp4";
    case WeightFormat::kMxint8:
      return "mxint8";
  }
  return "?";
}

struct WeightView {
  const void* data = nullptr;
  const std::uint8_t* scales = nullptr;
  WeightFormat format = WeightFormat::kBf16;
  std::int64_t rows = 0;
  std::int64_t cols = 0;

  constexpr explicit operator bool() const { return data != nullptr; }
  // Whether 32 columns of a row share a scale.
  constexpr bool grouped() const {
    return format == WeightFormat::kMxfp4 || format == WeightFormat::kMxint8;
  }
  // Scales of one row.
  constexpr std::int64_t scale_cols() const { return grouped() ? cols / kMxGroup : 0; }
  // Bytes of one row of `data`.
  constexpr std::int64_t row_bytes() const {
    switch (format) {
      case WeightFormat::kF32:
        return cols * 4;
      case WeightFormat::kBf16:
      case WeightFormat::kF16:
        return cols * 2;
      case WeightFormat::kMxfp4:
        return cols / 2;
      case WeightFormat::kMxint8:
        return cols;
    }
    return 0;
  }
  // All bytes, scales included.
  constexpr std::int64_t bytes() const { return rows * (row_bytes() + scale_cols()); }
  // Rows [begin, begin + count).
  WeightView slice_rows(std::int64_t begin, std::int64_t count) const {
    WeightView slice = *this;
    slice.data = static_cast<const std::byte*>(data) + begin * row_bytes();
    if (scales != nullptr) slice.scales = scales + begin * scale_cols();
    slice.rows = count;
    return slice;
  }
};

}  // namespace baltoro
