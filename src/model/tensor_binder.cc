#include "model/tensor_binder.h"

#include <algorithm>
#include <span>

#include "core/e8m0.h"
#include "core/error.h"
#include "io/listing.h"

namespace baltoro {
namespace {

constexpr std::size_t kMaxListed = 20;
// No checkpoint lacks so many; a configuration of absurd counts does.
constexpr std::int64_t kMaxMissing = 2'000'000;

std::string shape_text(const Shape& shape) {
  const auto dims = std::span(shape.dim).first(static_cast<std::size_t>(shape.rank));
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

bool same_bytes(const CheckpointFiles& files, const TensorInfo& a, const TensorInfo& b) {
  if (a.dtype != b.dtype || a.shape != b.shape) return false;
  constexpr std::uint64_t kBlock = std::uint64_t{1} << 20;
  std::vector<std::byte> of_a;
  std::vector<std::byte> of_b;
  for (std::uint64_t at = 0; at < a.bytes; at += kBlock) {
    of_a.resize(std::min(kBlock, a.bytes - at));
    of_b.resize(of_a.size());
    files.files()[a.file].read(a.offset + at, of_a);
    files.files()[b.file].read(b.offset + at, of_b);
    if (of_a != of_b) return false;
  }
  return true;
}

bool is_float(DType dtype) {
  return dtype == DType::kBf16 || dtype == DType::kF16 || dtype == DType::kF32;
}

WeightFormat format_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return WeightFormat::kF32;
    case DType::kF16:
      return WeightFormat::kF16;
    default:
      return WeightFormat::kBf16;
  }
}

}  // namespace

const TensorInfo* TensorBinder::use(const std::string& name) {
  const TensorInfo* tensor = store_.find(name);
  if (tensor != nullptr) {
    used_[static_cast<std::size_t>(tensor - store_.files().tensors().data())] = true;
  }
  return tensor;
}

void TensorBinder::miss(const std::string& name) {
  if (missing_.size() < kMaxListed) missing_.push_back(name);
  if (++num_missing_ == kMaxMissing) throw_if_bad();
}

bool TensorBinder::check(const TensorInfo& tensor, const char* dtype,
                         std::initializer_list<Shape> shapes) {
  const std::string_view wanted = dtype;
  const bool dtype_ok = wanted == "U8"   ? tensor.dtype == DType::kU8
                        : wanted == "I8" ? tensor.dtype == DType::kI8
                                         : is_float(tensor.dtype);
  const bool shape_ok = std::find(shapes.begin(), shapes.end(), tensor.shape) != shapes.end();
  if (dtype_ok && shape_ok) return true;
  std::vector<std::string> expected;
  for (const Shape& shape : shapes) {
    std::string text = shape_text(shape);
    if (std::find(expected.begin(), expected.end(), text) == expected.end()) {
      expected.push_back(std::move(text));
    }
  }
  wrong_.push_back(fmt::format("{}: expected {} {}, found {} {}", tensor.name, dtype,
                               fmt::join(expected, " or "), dtype_name(tensor.dtype),
                               shape_text(tensor.shape)));
  return false;
}

const std::byte* TensorBinder::place(const TensorInfo& tensor, Split split) {
  const std::int64_t rows = tensor.shape[0];
  const std::int64_t row_bytes = WeightStore::row_bytes(tensor);
  TensorSlice slice = {0, rows, 0, row_bytes};
  if (split == Split::kRows) {
    slice.num_rows = rows / partition_.size;
    slice.first_row = slice.num_rows * partition_.rank;
  } else if (split == Split::kCols) {
    slice.num_bytes = row_bytes / partition_.size;
    slice.first_byte = slice.num_bytes * partition_.rank;
  }
  return store_.place(tensor, slice);
}

WeightView TensorBinder::matrix(const std::string& name, std::int64_t rows, std::int64_t cols,
                                Split split) {
  const TensorInfo* plain = use(name + ".weight");
  const TensorInfo* codes = use(name + ".weight_packed");
  const TensorInfo* scales = use(name + ".weight_scale");
  WeightView view;
  view.rows = split == Split::kRows ? rows / partition_.size : rows;
  view.cols = split == Split::kCols ? cols / partition_.size : cols;
  if (plain != nullptr && codes != nullptr) {
    wrong_.push_back(name + ": both weight and weight_packed are present; keep one");
    return {};
  }
  if (plain != nullptr) {
    if (!check(*plain, "BF16", {{rows, cols}})) return {};
    view.format = format_of(plain->dtype);
    view.data = place(*plain, split);
    return view;
  }
  if (codes == nullptr && scales == nullptr) {
    miss(name + ".weight");
    return {};
  }
  if (codes == nullptr || scales == nullptr) {
    miss(name + (codes == nullptr ? ".weight_packed" : ".weight_scale"));
    return {};
  }
  if (cols % kMxGroup != 0 || view.cols % kMxGroup != 0) {
    wrong_.push_back(fmt::format("{}.weight_packed: {} columns are no multiple of the group of {}",
                                 name, view.cols, kMxGroup));
    return {};
  }
  view.format = codes->dtype == DType::kI8 ? WeightFormat::kMxint8 : WeightFormat::kMxfp4;
  const bool codes_ok = view.format == WeightFormat::kMxint8
                            ? check(*codes, "I8", {{rows, cols}})
                            : check(*codes, "U8", {{rows, cols / 2}});
  const bool scales_ok = check(*scales, "U8", {{rows, cols / kMxGroup}});
  if (!codes_ok || !scales_ok) return {};
  view.data = place(*codes, split);
  view.scales = reinterpret_cast<const std::uint8_t*>(place(*scales, split));
  return view;
}

WeightView TensorBinder::plain_matrix(const std::string& name, std::int64_t rows, std::int64_t cols,
                                      Split split) {
  const TensorInfo* codes = use(name + ".weight_packed");
  if (codes == nullptr) return matrix(name, rows, cols, split);
  use(name + ".weight_scale");
  wrong_.push_back(
      fmt::format("{}: packed weights are not supported for this matrix; expected {}.weight of "
                  "BF16, F16 or F32",
                  codes->name, name));
  return {};
}

std::vector<float> TensorBinder::vector(const std::string& name,
                                        std::initializer_list<Shape> shapes, std::int64_t used,
                                        Split split) {
  const TensorInfo* tensor = use(name);
  if (tensor == nullptr) {
    miss(name);
    return {};
  }
  if (!check(*tensor, "F32 or BF16", shapes)) return {};
  const std::int64_t count = split == Split::kRows ? used / partition_.size : used;
  return store_.read_f32(*tensor, split == Split::kRows ? count * partition_.rank : 0, count);
}

void TensorBinder::tied(const std::string& head, const std::string& embedding) {
  const TensorInfo* table = store_.find(embedding + ".weight");
  for (const char* suffix : {".weight", ".weight_packed"}) {
    const TensorInfo* copy = use(head + suffix);
    if (copy == nullptr || table == nullptr || same_bytes(store_.files(), *copy, *table)) continue;
    wrong_.push_back(
        fmt::format("{}: differs from {}, but tie_word_embeddings is true; set it to "
                    "false",
                    copy->name, table->name));
  }
}

void TensorBinder::ignore(const std::string& name) {
  for (const char* suffix : {".weight", ".weight_packed", ".weight_scale"}) use(name + suffix);
}

void TensorBinder::throw_if_bad() const {
  if (missing_.empty() && wrong_.empty()) return;
  std::string text = store_.files().path().string() + ":";
  if (!wrong_.empty())
    text += fmt::format(" {}", list_names(wrong_, wrong_.size(), kMaxListed, "; "));
  if (!missing_.empty()) {
    const auto count = static_cast<std::uint64_t>(num_missing_);
    text += fmt::format("{} {} missing: {}", wrong_.empty() ? "" : ";",
                        counted(count, "tensor is", "tensors are"),
                        list_names(missing_, count, kMaxListed));
  }
  throw Error(ErrorCode::kBadModel, text);
}

BindReport TensorBinder::report() const {
  BindReport report;
  const std::vector<TensorInfo>& tensors = store_.files().tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (is_vision_tensor(tensors[i].name)) {
      ++report.num_vision;
    } else if (!used_[i]) {
      report.unused.push_back(tensors[i].name);
    }
  }
  return report;
}

}  // namespace baltoro
