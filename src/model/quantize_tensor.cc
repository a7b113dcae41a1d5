#include "model/quantize_tensor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "core/dtype.h"
#include "core/error.h"
#include "core/mxfp4.h"
#include "core/mxint8.h"

namespace baltoro {
namespace {

// Long enough for the disk and to share between threads, short beside any memory.
constexpr std::uint64_t kBlockBytes = std::uint64_t{16} << 20;

// Values [at, at + 32) of a row of `dtype`.
void load_group(const std::byte* row, DType dtype, std::int64_t at, std::span<float, 32> out) {
  if (dtype == DType::kF32) {
    std::memcpy(out.data(), row + 4 * at, 4 * out.size());
    return;
  }
  std::uint16_t bits[32];
  std::memcpy(bits, row + 2 * at, sizeof(bits));
  for (std::size_t i = 0; i < 32; ++i) {
    out[i] = dtype == DType::kBf16 ? bf16_to_f32(bits[i]) : f16_to_f32(bits[i]);
  }
}

// Writes codes and scale of a group and what they decode to.
void encode_group(std::span<const float, 32> values, QuantizeAction action, std::uint8_t* codes,
                  std::uint8_t* scale, float* decoded) {
  if (action == QuantizeAction::kMxfp4) {
    const Mxfp4Block block = encode_mxfp4(values);
    std::memcpy(codes, block.packed, sizeof(block.packed));
    *scale = block.scale;
    decode_mxfp4_row(codes, scale, kMxGroup, decoded);
  } else {
    const Mxint8Block block = encode_mxint8(values);
    std::memcpy(codes, block.codes, sizeof(block.codes));
    *scale = block.scale;
    decode_mxint8_row(block.codes, scale, kMxGroup, decoded);
  }
}

struct RowSource {
  const std::byte* data;
  DType dtype;
  std::int64_t cols;
};

// `squares` of the result is not finite where a value is not; what follows it is left out.
QuantizeError encode_row(const RowSource& row, QuantizeAction action, std::uint8_t* codes,
                         std::uint8_t* scales) {
  const std::int64_t group_bytes = action == QuantizeAction::kMxfp4 ? kMxGroup / 2 : kMxGroup;
  QuantizeError error;
  float values[32];
  float decoded[32];
  for (std::int64_t at = 0; at < row.cols; at += kMxGroup) {
    const std::int64_t group = at / kMxGroup;
    load_group(row.data, row.dtype, at, values);
    for (const float value : values) error.squares += static_cast<double>(value) * value;
    if (!std::isfinite(error.squares)) return error;
    encode_group(values, action, codes + group * group_bytes, scales + group, decoded);
    for (std::size_t i = 0; i < 32; ++i) {
      const double difference = static_cast<double>(decoded[i]) - values[i];
      error.error_squares += difference * difference;
      error.largest = std::max(error.largest, std::fabs(difference));
    }
  }
  return error;
}

}  // namespace

void TensorQuantizer::copy(const FileReader& file, const TensorInfo& tensor,
                           SafetensorsWriter& writer,
                           const std::function<void(std::uint64_t)>& progress) {
  for (std::uint64_t at = 0; at < tensor.bytes; at += kBlockBytes) {
    source_.resize(std::min(kBlockBytes, tensor.bytes - at));
    file.read(tensor.offset + at, source_);
    writer.write(source_);
    progress(at + source_.size());
  }
}

// Adds the errors of the block's rows, the first of which is row `first` of the matrix.
void TensorQuantizer::add_errors(const std::string& where, std::int64_t first,
                                 QuantizeError& total) const {
  for (std::size_t r = 0; r < errors_.size(); ++r) {
    const QuantizeError& error = errors_[r];
    if (!std::isfinite(error.squares)) {
      fail(ErrorCode::kBadModel,
           "{}: row {} holds NaN or infinity; baltoro inspect --verify finds all such tensors",
           where, first + static_cast<std::int64_t>(r));
    }
    total.squares += error.squares;
    total.error_squares += error.error_squares;
    total.largest = std::max(total.largest, error.largest);
  }
}

QuantizeError TensorQuantizer::quantize(const FileReader& file, const TensorInfo& tensor,
                                        QuantizeAction action, SafetensorsWriter& writer,
                                        const std::function<void(std::uint64_t)>& progress) {
  const std::int64_t rows = tensor.shape[0];
  const std::int64_t cols = tensor.shape[1];
  const std::int64_t code_bytes = action == QuantizeAction::kMxfp4 ? cols / 2 : cols;
  const std::int64_t scale_cols = cols / kMxGroup;
  const std::uint64_t row_bytes = static_cast<std::uint64_t>(cols) * dtype_bytes(tensor.dtype);
  const auto block_rows = static_cast<std::int64_t>(
      std::max<std::uint64_t>(1, kBlockBytes / std::max<std::uint64_t>(1, row_bytes)));
  QuantizeError total;
  scales_.resize(static_cast<std::size_t>(rows * scale_cols));
  for (std::int64_t first = 0; first < rows; first += block_rows) {
    const std::int64_t count = std::min(block_rows, rows - first);
    source_.resize(static_cast<std::uint64_t>(count) * row_bytes);
    codes_.resize(static_cast<std::size_t>(count * code_bytes));
    errors_.resize(static_cast<std::size_t>(count));
    file.read(tensor.offset + static_cast<std::uint64_t>(first) * row_bytes, source_);
    pool_.parallel_for(count, 8, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t r = begin; r < end; ++r) {
        const RowSource row{source_.data() + static_cast<std::uint64_t>(r) * row_bytes,
                            tensor.dtype, cols};
        errors_[static_cast<std::size_t>(r)] = encode_row(
            row, action, codes_.data() + r * code_bytes, scales_.data() + (first + r) * scale_cols);
      }
    });
    add_errors(fmt::format("{}: tensor {}", file.path().string(), tensor.name), first, total);
    writer.write(std::as_bytes(std::span(codes_)));
    progress(static_cast<std::uint64_t>(first + count) * row_bytes);
  }
  writer.write(std::as_bytes(std::span(scales_)));
  return total;
}

QuantizeError TensorQuantizer::write(const CheckpointFiles& files, const TensorInfo& tensor,
                                     QuantizeAction action, SafetensorsWriter& writer,
                                     const std::function<void(std::uint64_t)>& progress) {
  const FileReader& file = files.files()[tensor.file];
  if (action != QuantizeAction::kCopy) return quantize(file, tensor, action, writer, progress);
  copy(file, tensor, writer, progress);
  return {};
}

}  // namespace baltoro
