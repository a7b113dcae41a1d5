#include "io/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <unordered_set>

#include "core/error.h"
#include "io/json_file.h"

namespace baltoro {
namespace {

static_assert(std::endian::native == std::endian::little,
              "weights are read in place, in the file's little-endian order");

std::optional<DType> dtype_from_name(std::string_view name) {
  for (DType dtype :
       {DType::kF32, DType::kBf16, DType::kF16, DType::kU8, DType::kI32, DType::kI8}) {
    if (name == dtype_name(dtype)) return dtype;
  }
  return std::nullopt;
}

// Receives the events of the JSON parser and builds the tensor list without a document in between:
// a header of K3 has thousands of entries.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderReader(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  std::vector<TensorInfo> take() { return std::move(tensors_); }

  bool null() override { unexpected("null"); }
  bool boolean(bool) override { unexpected("a boolean"); }
  bool number_integer(number_integer_t value) override {
    if (place_ == Place::kShape) {
      bad(fmt::format("shape has {}; dimensions are 0 or more", value));
    }
    if (place_ == Place::kOffsets) {
      bad(fmt::format("data_offsets has {}; offsets are 0 or more", value));
    }
    unexpected(fmt::format("the number {}", value));
  }
  bool number_float(number_float_t, const string_t& text) override {
    unexpected("the number " + text);
  }
  bool binary(binary_t&) override { unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::kShape) {
      add_dimension(value);
    } else if (place_ == Place::kOffsets) {
      if (num_offsets_ == 2) bad("data_offsets has more than two numbers");
      offsets_[num_offsets_++] = value;
    } else {
      unexpected(fmt::format("the number {}", value));
    }
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::kMetadata) return true;
    if (place_ != Place::kTensor || field_ != kDtype) unexpected("the string \"" + value + "\"");
    const std::optional<DType> dtype = dtype_from_name(value);
    if (!dtype) {
      bad(fmt::format("the dtype {} is not supported; baltoro reads BF16, F32, F16, U8, I32",
                      value));
    }
    tensor_.dtype = *dtype;
    return true;
  }

  bool start_object(std::size_t) override {
    if (place_ == Place::kStart) {
      place_ = Place::kTop;
    } else if (place_ == Place::kTop) {
      place_ = tensor_.name == "__metadata__" ? Place::kMetadata : Place::kTensor;
    } else {
      unexpected("an object");
    }
    return true;
  }

  bool key(string_t& name) override {
    if (place_ == Place::kTop) {
      start_tensor(name);
    } else if (place_ == Place::kTensor) {
      start_field(name);
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::kTensor) finish_tensor();
    place_ = place_ == Place::kTop ? Place::kEnd : Place::kTop;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ == Place::kTensor && field_ == kShape) {
      place_ = Place::kShape;
    } else if (place_ == Place::kTensor && field_ == kOffsets) {
      place_ = Place::kOffsets;
    } else {
      unexpected("an array");
    }
    return true;
  }

  bool end_array() override {
    place_ = Place::kTensor;
    return true;
  }

  bool parse_error(std::size_t byte, const std::string&,
                   const nlohmann::detail::exception& error) override {
    fail(ErrorCode::kBadModel, "{}: header, {}", where_, json_fault(text_, byte, error.what()));
  }

 private:
  enum class Place { kStart, kTop, kMetadata, kTensor, kShape, kOffsets, kEnd };
  enum Field : unsigned { kNoField = 0, kDtype = 1, kShape = 2, kOffsets = 4 };

  [[noreturn]] void bad(const std::string& what) const {
    fail(ErrorCode::kBadModel, "{}: tensor {}: {}", where_, tensor_.name, what);
  }
  [[noreturn]] void unexpected(const std::string& what) const {
    if (place_ == Place::kStart || place_ == Place::kEnd) {
      fail(ErrorCode::kBadModel, "{}: header: expected one object, found {}", where_, what);
    }
    bad(fmt::format("unexpected {} in the header", what));
  }

  void start_tensor(const std::string& name) {
    tensor_ = TensorInfo{};
    tensor_.name = name;
    seen_fields_ = kNoField;
    field_ = kNoField;
    num_offsets_ = 0;
    if (!names_.insert(name).second) bad("the name stands twice in the header");
  }

  void start_field(const std::string& name) {
    field_ = name == "dtype"          ? kDtype
             : name == "shape"        ? kShape
             : name == "data_offsets" ? kOffsets
                                      : kNoField;
    if (field_ == kNoField) bad("unknown field \"" + name + "\" in the header");
    if (seen_fields_ & field_) bad("the field \"" + name + "\" stands twice");
    seen_fields_ |= field_;
  }

  void add_dimension(std::uint64_t value) {
    if (tensor_.shape.rank == 4) bad("more than 4 dimensions");
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      bad(fmt::format("the dimension {} is absurd", value));
    }
    tensor_.shape.dim[static_cast<std::size_t>(tensor_.shape.rank++)] =
        static_cast<std::int64_t>(value);
  }

  void finish_tensor() {
    if (seen_fields_ != (kDtype | kShape | kOffsets)) {
      bad(fmt::format("the header lacks{}{}{}", seen_fields_ & kDtype ? "" : " dtype",
                      seen_fields_ & kShape ? "" : " shape",
                      seen_fields_ & kOffsets ? "" : " data_offsets"));
    }
    if (num_offsets_ != 2) bad("data_offsets needs two numbers");
    if (offsets_[1] < offsets_[0]) {
      bad(fmt::format("data_offsets [{}, {}] run backwards", offsets_[0], offsets_[1]));
    }
    tensor_.offset = offsets_[0];
    tensor_.bytes = offsets_[1] - offsets_[0];
    const std::uint64_t expected = shape_bytes();
    if (tensor_.bytes != expected) {
      bad(fmt::format("its shape needs {} bytes, its data_offsets [{}, {}] hold {}", expected,
                      offsets_[0], offsets_[1], tensor_.bytes));
    }
    tensors_.push_back(std::move(tensor_));
  }

  std::uint64_t shape_bytes() const {
    std::uint64_t bytes = dtype_bytes(tensor_.dtype);
    for (int i = 0; i < tensor_.shape.rank; ++i) {
      if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(tensor_.shape[i]), &bytes)) {
        bad("the size of its shape overflows 64 bits");
      }
    }
    return bytes;
  }

  std::string_view text_;
  const std::string& where_;
  std::vector<TensorInfo> tensors_;
  std::unordered_set<std::string> names_;
  Place place_ = Place::kStart;
  TensorInfo tensor_;
  Field field_ = kNoField;
  unsigned seen_fields_ = 0;
  std::uint64_t offsets_[2] = {};
  std::size_t num_offsets_ = 0;
};

// Sorts by position, makes offsets absolute, and finds what lies outside, on top of each other, or
// between.
void check_layout(SafetensorsHeader& header, std::uint64_t data_begin, std::uint64_t file_bytes,
                  const std::string& where) {
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const TensorInfo& a, const TensorInfo& b) {
              return a.offset != b.offset ? a.offset < b.offset : a.bytes < b.bytes;
            });
  const std::uint64_t data_bytes = file_bytes - data_begin;
  std::uint64_t end = 0;
  const std::string* last = nullptr;
  for (TensorInfo& tensor : header.tensors) {
    if (tensor.offset > data_bytes || tensor.bytes > data_bytes - tensor.offset) {
      fail(ErrorCode::kBadModel,
           "{}: tensor {}: bytes [{}, {}) lie outside of the file's {} data bytes; the file is "
           "truncated or its header wrong",
           where, tensor.name, tensor.offset, tensor.offset + tensor.bytes, data_bytes);
    }
    if (tensor.offset < end && tensor.bytes > 0) {
      fail(ErrorCode::kBadModel, "{}: tensor {}: its bytes overlap those of tensor {}", where,
           tensor.name, *last);
    }
    if (tensor.offset > end) header.holes.push_back({data_begin + end, tensor.offset - end});
    if (tensor.bytes > 0) last = &tensor.name;
    end = std::max(end, tensor.offset + tensor.bytes);
    tensor.offset += data_begin;
  }
  if (end < data_bytes) header.holes.push_back({data_begin + end, data_bytes - end});
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t data_begin,
                                           std::uint64_t file_bytes, const std::string& where) {
  if (data_begin > file_bytes) {
    fail(ErrorCode::kBadModel, "{}: truncated: the data begins at {} but the file has {} bytes",
         where, data_begin, file_bytes);
  }
  HeaderReader reader(json, where);
  nlohmann::json::sax_parse(json, &reader);
  SafetensorsHeader header;
  header.tensors = reader.take();
  check_layout(header, data_begin, file_bytes, where);
  return header;
}

SafetensorsHeader read_safetensors_header(const FileReader& file) {
  const std::string where = file.path().string();
  if (file.size() < 8) {
    fail(ErrorCode::kBadModel, "{}: truncated: {} bytes hold no safetensors header", where,
         file.size());
  }
  std::uint64_t length = 0;
  file.read(0, std::as_writable_bytes(std::span(&length, 1)));
  if (length > kMaxSafetensorsHeaderBytes) {
    fail(ErrorCode::kBadModel,
         "{}: a header of {} bytes is absurd (limit {}); is it a safetensors file?", where, length,
         kMaxSafetensorsHeaderBytes);
  }
  if (length > file.size() - 8) {
    fail(ErrorCode::kBadModel, "{}: truncated: a header of {} bytes in a file of {}", where, length,
         file.size());
  }
  std::string text(static_cast<std::size_t>(length), '\0');
  file.read(8, std::as_writable_bytes(std::span(text)));
  return parse_safetensors_header(text, 8 + length, file.size(), where);
}

}  // namespace baltoro
