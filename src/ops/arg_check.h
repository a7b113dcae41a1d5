// Argument checks of the op entries: once per op, in every build, so that kernels may rely on the
// contract. Nothing here allocates unless a check fails; a failed one throws Error{kInternal} that
// names op, layer, argument, what was expected and what was found.
#pragma once

#include <cstdint>

#include "core/tensor_view.h"
#include "ops/backend.h"
#include "ops/batch.h"

namespace baltoro {

class ArgCheck {
 public:
  // layer -1: the op belongs to no layer.
  ArgCheck(const char* op, int layer) : op_(op), layer_(layer) {}

  // A dense [rows, cols] view with data, unless it has no element.
  void view(const char* name, const ConstTensorView& view, std::int64_t rows, std::int64_t cols,
            DType dtype) const;
  // As view(), or no view at all.
  void optional_view(const char* name, const ConstTensorView& view, std::int64_t rows,
                     std::int64_t cols, DType dtype) const;
  // A matrix with data; one of a grouped format with scales and whole groups.
  void weight(const char* name, const WeightView& weight, std::int64_t rows,
              std::int64_t cols) const;
  void pointer(const char* name, const void* pointer) const;
  // The two views share no byte.
  void disjoint(const char* a_name, const ConstTensorView& a, const char* b_name,
                const ConstTensorView& b) const;
  // A condition in words: "expected <what>".
  void that(bool condition, const char* what) const;

  // Sequences lie one after the other over all rows, each with at least one; positions are not
  // negative.
  void batch(const BatchView& batch) const;
  // State slots and boundary slots lie in [0, num_slots) and are all different; a boundary slot
  // belongs to a prompt.
  void slots(const BatchView& batch, std::int64_t num_slots) const;
  // Each sequence of `origin` has the pages of all its positions, each in [0, num_pages).
  void pages(const BatchView& batch, Origin origin, std::int64_t num_pages) const;

 private:
  template <typename... Args>
  [[noreturn]] void fail_with(const char* format, const Args&... args) const;
  void slot_in_range(const char* name, std::int64_t slot, std::int64_t num_slots) const;

  const char* op_;
  int layer_;
};

}  // namespace baltoro
