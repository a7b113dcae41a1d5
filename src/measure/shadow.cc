#include "measure/shadow.h"

#include <algorithm>
#include <cstring>

#include "core/dtype.h"
#include "core/error.h"

namespace baltoro {
namespace {

float load(const void* data, DType dtype, std::int64_t index) {
  if (dtype == DType::kF32) return static_cast<const float*>(data)[index];
  BALTORO_CHECK(dtype == DType::kBf16, "a cache of {}", dtype_name(dtype));
  return bf16_to_f32(static_cast<const std::uint16_t*>(data)[index]);
}

void store(void* data, DType dtype, std::int64_t index, float value) {
  if (dtype == DType::kF32) {
    static_cast<float*>(data)[index] = value;
  } else {
    static_cast<std::uint16_t*>(data)[index] = f32_to_bf16(value);
  }
}

// The cache rows of a batch's new tokens.
std::vector<float> new_rows(const MlaCache& cache, std::span<const SequenceRows> sequences,
                            std::int64_t width, Origin origin) {
  std::vector<float> values;
  for (const SequenceRows& s : sequences) {
    if (s.origin != origin) continue;
    for (std::int64_t pos = s.start_pos; pos < s.start_pos + s.num_rows; ++pos) {
      const auto page = s.pages[static_cast<std::size_t>(pos / kBlockTokens)];
      const std::int64_t row = std::int64_t{page} * kBlockTokens + pos % kBlockTokens;
      for (std::int64_t i = 0; i < width; ++i) {
        values.push_back(load(cache.data, cache.dtype, row * width + i));
      }
    }
  }
  return values;
}

std::vector<float> gather(const float* pool, std::span<const std::int32_t> slots,
                          std::int64_t elements) {
  std::vector<float> values;
  values.reserve(slots.size() * static_cast<std::size_t>(elements));
  for (std::int32_t slot : slots) {
    const float* begin = pool + slot * elements;
    values.insert(values.end(), begin, begin + elements);
  }
  return values;
}

}  // namespace

std::vector<float> values_of(const ConstTensorView& view) {
  BALTORO_CHECK(view.dtype == DType::kF32, "activations of {}", dtype_name(view.dtype));
  return {view.f32(), view.f32() + view.shape.count()};
}

ShadowTensor::ShadowTensor(const TensorView& original)
    : values_(values_of(original)), shape_(original.shape) {}

TensorView ShadowTensor::view() { return {values_.data(), DType::kF32, shape_}; }

ShadowSlots::ShadowSlots(const KdaMixArgs& args)
    : token_ids_(args.batch.token_ids),
      sequences_(args.batch.sequences.begin(), args.batch.sequences.end()) {
  const auto renumber = [&](std::int32_t& slot) {
    slots_.push_back(slot);
    slot = static_cast<std::int32_t>(slots_.size()) - 1;
  };
  for (SequenceRows& s : sequences_) {
    renumber(s.state_slot);
    if (s.boundary_slot >= 0) renumber(s.boundary_slot);
  }
  state_ = original_state(args);
  conv_ = original_conv(args);
}

KdaStatePool ShadowSlots::pool() {
  return {state_.data(), conv_.data(), static_cast<std::int64_t>(slots_.size())};
}

std::vector<float> ShadowSlots::original_state(const KdaMixArgs& args) const {
  BALTORO_CHECK(args.pool.dtype == DType::kF32, "compare reads KDA states of f32");
  return gather(args.pool.f32(), slots_, args.shape.state_elements());
}

std::vector<float> ShadowSlots::original_conv(const KdaMixArgs& args) const {
  return gather(args.pool.conv, slots_, args.shape.conv_elements());
}

ShadowPages::ShadowPages(const MlaArgs& args, DType dtype)
    : token_ids_(args.batch.token_ids),
      sequences_(args.batch.sequences.begin(), args.batch.sequences.end()),
      dtype_(dtype) {
  const std::int64_t page_elements = kBlockTokens * args.shape.cache_width();
  for (const SequenceRows& s : sequences_) {
    num_pages_ += static_cast<std::int64_t>(s.pages.size());
  }
  data_.resize(static_cast<std::size_t>(num_pages_ * page_elements) * dtype_bytes(dtype));
  // Lists first: their memory must stay where it is.
  page_lists_.resize(sequences_.size());
  std::int32_t next = 0;
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    for (std::int32_t page : sequences_[i].pages) {
      page_lists_[i].push_back(next);
      for (std::int64_t j = 0; j < page_elements; ++j) {
        store(data_.data(), dtype, next * page_elements + j,
              load(args.cache.data, args.cache.dtype, page * page_elements + j));
      }
      ++next;
    }
    sequences_[i].pages = page_lists_[i];
  }
}

MlaCache ShadowPages::cache() { return {data_.data(), dtype_, num_pages_}; }

std::vector<float> ShadowPages::written(const MlaArgs& args, Origin origin) const {
  const MlaCache cache{const_cast<std::byte*>(data_.data()), dtype_, num_pages_};
  return new_rows(cache, sequences_, args.shape.cache_width(), origin);
}

std::vector<float> ShadowPages::original_written(const MlaArgs& args, Origin origin) {
  return new_rows(args.cache, args.batch.sequences, args.shape.cache_width(), origin);
}

}  // namespace baltoro
