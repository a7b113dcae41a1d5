#include "ops/reference/matrix.h"

#include <cstring>

#include "core/mxfp4.h"
#include "core/mxint8.h"

namespace baltoro::reference {
namespace {

const std::byte* row_data(const WeightView& weight, std::int64_t row) {
  return static_cast<const std::byte*>(weight.data) + row * weight.row_bytes();
}

// A checkpoint tensor lies at any byte offset of its file.
std::uint16_t load_u16(const std::byte* data, std::int64_t index) {
  std::uint16_t bits;
  std::memcpy(&bits, data + index * 2, sizeof bits);
  return bits;
}

}  // namespace

void decode_weight_row(const WeightView& weight, std::int64_t row, float* out) {
  const std::byte* data = row_data(weight, row);
  switch (weight.format) {
    case WeightFormat::kF32:
      std::memcpy(out, data, static_cast<std::size_t>(weight.row_bytes()));
      break;
    case WeightFormat::kBf16:
      for (std::int64_t i = 0; i < weight.cols; ++i) out[i] = bf16_to_f32(load_u16(data, i));
      break;
    case WeightFormat::kF16:
      for (std::int64_t i = 0; i < weight.cols; ++i) out[i] = f16_to_f32(load_u16(data, i));
      break;
    case WeightFormat::kMxfp4:
      decode_mxfp4_row(reinterpret_cast<const std::uint8_t*>(data),
                       weight.scales + row * weight.scale_cols(), weight.cols, out);
      break;
    case WeightFormat::kMxint8:
      decode_mxint8_row(reinterpret_cast<const std::int8_t*>(data),
                        weight.scales + row * weight.scale_cols(), weight.cols, out);
      break;
  }
}

std::vector<double> decode_weight(const WeightView& weight) {
  std::vector<float> row(static_cast<std::size_t>(weight.cols));
  std::vector<double> all;
  all.reserve(static_cast<std::size_t>(weight.rows * weight.cols));
  for (std::int64_t r = 0; r < weight.rows; ++r) {
    decode_weight_row(weight, r, row.data());
    all.insert(all.end(), row.begin(), row.end());
  }
  return all;
}

double dot(const float* w, const double* x, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += static_cast<double>(w[i]) * x[i];
  return sum;
}

std::vector<double> to_double(const ConstTensorView& view) {
  return {view.f32(), view.f32() + view.shape.count()};
}

std::vector<double> multiply(const WeightView& weight, const std::vector<double>& x) {
  const std::int64_t rows = static_cast<std::int64_t>(x.size()) / weight.cols;
  std::vector<float> w(static_cast<std::size_t>(weight.cols));
  std::vector<double> out(static_cast<std::size_t>(rows * weight.rows));
  for (std::int64_t n = 0; n < weight.rows; ++n) {
    decode_weight_row(weight, n, w.data());
    for (std::int64_t m = 0; m < rows; ++m) {
      out[static_cast<std::size_t>(m * weight.rows + n)] =
          dot(w.data(), x.data() + m * weight.cols, weight.cols);
    }
  }
  return out;
}

}  // namespace baltoro::reference
