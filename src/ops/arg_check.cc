#include "ops/arg_check.h"

#include <algorithm>
#include <array>
#include <string>

#include "core/error.h"

namespace baltoro {
namespace {

std::string describe(const ConstTensorView& view) {
  if (view.data == nullptr && view.shape.rank == 0) return "nothing";
  std::string text = dtype_name(view.dtype);
  text += " [";
  for (int i = 0; i < view.shape.rank; ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(view.shape[i]);
  }
  return text + (view.data == nullptr ? "] without data" : "]");
}

bool overlap(const ConstTensorView& a, const ConstTensorView& b) {
  if (a.data == nullptr || b.data == nullptr) return false;
  const auto a_begin = reinterpret_cast<std::uintptr_t>(a.data);
  const auto b_begin = reinterpret_cast<std::uintptr_t>(b.data);
  return a_begin < b_begin + b.bytes() && b_begin < a_begin + a.bytes();
}

}  // namespace

template <typename... Args>
void ArgCheck::fail_with(const char* format, const Args&... args) const {
  const std::string where = layer_ < 0 ? op_ : fmt::format("{} (layer {})", op_, layer_);
  throw Error(ErrorCode::kInternal, where + ": " + fmt::format(fmt::runtime(format), args...));
}

void ArgCheck::view(const char* name, const ConstTensorView& view, std::int64_t rows,
                    std::int64_t cols, DType dtype) const {
  const bool shape_matches = view.shape == Shape{rows, cols} && view.dtype == dtype;
  if (shape_matches && (view.data != nullptr || rows * cols == 0)) return;
  fail_with("{}: expected {} [{}, {}], found {}", name, dtype_name(dtype), rows, cols,
            describe(view));
}

void ArgCheck::optional_view(const char* name, const ConstTensorView& view, std::int64_t rows,
                             std::int64_t cols, DType dtype) const {
  if (view.data == nullptr && view.shape.rank == 0) return;
  this->view(name, view, rows, cols, dtype);
}

void ArgCheck::weight(const char* name, const WeightView& weight, std::int64_t rows,
                      std::int64_t cols) const {
  if (weight.rows != rows || weight.cols != cols || rows <= 0 || cols <= 0) {
    fail_with("{}: expected a weight [{}, {}], found [{}, {}]", name, rows, cols, weight.rows,
              weight.cols);
  }
  if (weight.data == nullptr) fail_with("{}: the weight [{}, {}] has no data", name, rows, cols);
  if (!weight.grouped()) return;
  const char* format = weight.format == WeightFormat::kMxfp4 ? "MXFP4" : "MXINT8";
  if (weight.scales == nullptr) fail_with("{}: the {} weight has no scales", name, format);
  if (cols % kMxGroup != 0) {
    fail_with("{}: an {} weight needs whole groups of {} columns, found {}", name, format, kMxGroup,
              cols);
  }
}

void ArgCheck::pointer(const char* name, const void* pointer) const {
  if (pointer == nullptr) fail_with("{}: expected data, found a null pointer", name);
}

void ArgCheck::disjoint(const char* a_name, const ConstTensorView& a, const char* b_name,
                        const ConstTensorView& b) const {
  if (overlap(a, b)) fail_with("{} overlaps {} in memory", a_name, b_name);
}

void ArgCheck::that(bool condition, const char* what) const {
  if (!condition) fail_with("expected {}", what);
}

void ArgCheck::batch(const BatchView& batch) const {
  std::int64_t next_row = 0;
  for (std::size_t i = 0; i < batch.sequences.size(); ++i) {
    const SequenceRows& sequence = batch.sequences[i];
    if (sequence.first_row != next_row || sequence.num_rows < 1 || sequence.start_pos < 0) {
      fail_with(
          "sequence {}: expected at least one row from row {} on at a position >= 0, found {} rows "
          "from row {} on at position {}",
          i, next_row, sequence.num_rows, sequence.first_row, sequence.start_pos);
    }
    next_row += sequence.num_rows;
  }
  if (next_row != batch.num_rows()) {
    fail_with("the sequences cover {} rows, the batch has {}", next_row, batch.num_rows());
  }
}

void ArgCheck::slot_in_range(const char* name, std::int64_t slot, std::int64_t num_slots) const {
  if (slot < 0 || slot >= num_slots) {
    fail_with("{} {} is outside the pool of {} slots", name, slot, num_slots);
  }
}

void ArgCheck::slots(const BatchView& batch, std::int64_t num_slots) const {
  for (const SequenceRows& sequence : batch.sequences) {
    slot_in_range("state slot", sequence.state_slot, num_slots);
    if (sequence.boundary_slot == -1) continue;
    slot_in_range("boundary slot", sequence.boundary_slot, num_slots);
    that(sequence.origin == Origin::kPrompt, "a boundary slot for prompts only");
  }
  // One pass over the sequences per window of slots: distinctness without a heap allocation.
  constexpr std::int64_t kWindow = 8192;
  for (std::int64_t begin = 0; begin < num_slots; begin += kWindow) {
    std::array<std::uint64_t, kWindow / 64> seen{};
    const auto mark = [&](std::int64_t slot) {
      if (slot < begin || slot >= begin + kWindow) return;
      const std::uint64_t bit = std::uint64_t{1} << (slot % 64);
      std::uint64_t& word = seen[static_cast<std::size_t>((slot - begin) / 64)];
      if (word & bit) fail_with("slot {} is used twice in one batch", slot);
      word |= bit;
    };
    for (const SequenceRows& sequence : batch.sequences) {
      mark(sequence.state_slot);
      mark(sequence.boundary_slot);
    }
  }
}

void ArgCheck::pages(const BatchView& batch, Origin origin, std::int64_t num_pages) const {
  for (std::size_t i = 0; i < batch.sequences.size(); ++i) {
    const SequenceRows& sequence = batch.sequences[i];
    if (sequence.origin != origin) continue;
    const std::int64_t tokens = sequence.start_pos + sequence.num_rows;
    const std::int64_t needed = (tokens + kBlockTokens - 1) / kBlockTokens;
    if (static_cast<std::int64_t>(sequence.pages.size()) < needed) {
      fail_with("sequence {}: {} tokens need {} pages of {}, found {}", i, tokens, needed,
                kBlockTokens, sequence.pages.size());
    }
    const auto used = sequence.pages.first(static_cast<std::size_t>(needed));
    const auto outside = std::find_if(
        used.begin(), used.end(), [&](std::int32_t page) { return page < 0 || page >= num_pages; });
    if (outside != used.end()) {
      fail_with("sequence {}: page {} is outside the pool of {} pages", i, *outside, num_pages);
    }
  }
}

}  // namespace baltoro
