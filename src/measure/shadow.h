// Copies of what an op writes, for a second run of the same op on the same inputs.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor_view.h"
#include "ops/batch.h"
#include "ops/kda.h"
#include "ops/mla.h"

namespace baltoro {

// The content of an f32 view before the op, to be written by the second backend.
class ShadowTensor {
 public:
  explicit ShadowTensor(const TensorView& original);

  TensorView view();
  const std::vector<float>& values() const { return values_; }

 private:
  std::vector<float> values_;
  Shape shape_;
};

// Values of an f32 view now.
std::vector<float> values_of(const ConstTensorView& view);

// The slots of a batch, renumbered from 0: a sequence's live slot, then its boundary slot.
class ShadowSlots {
 public:
  ShadowSlots(const KdaMixArgs& args);

  BatchView batch() const { return {token_ids_, sequences_}; }
  KdaStatePool pool();

  // Live and boundary slots of the copy, and of the original as it is now.
  const std::vector<float>& state() const { return state_; }
  const std::vector<float>& conv() const { return conv_; }
  std::vector<float> original_state(const KdaMixArgs& args) const;
  std::vector<float> original_conv(const KdaMixArgs& args) const;

 private:
  std::span<const std::int32_t> token_ids_;
  std::vector<SequenceRows> sequences_;
  std::vector<std::int32_t> slots_;  // original slot of each copy
  std::vector<float> state_;
  std::vector<float> conv_;
};

// The cache pages of a batch, renumbered from 0, in the second backend's dtype.
class ShadowPages {
 public:
  ShadowPages(const MlaArgs& args, DType dtype);

  BatchView batch() const { return {token_ids_, sequences_}; }
  MlaCache cache();

  // The rows that the op writes, in order: of the copy, and of the original as it is now. `origin`:
  // only sequences of this origin.
  std::vector<float> written(const MlaArgs& args, Origin origin) const;
  static std::vector<float> original_written(const MlaArgs& args, Origin origin);

 private:
  std::span<const std::int32_t> token_ids_;
  std::vector<SequenceRows> sequences_;
  std::vector<std::vector<std::int32_t>> page_lists_;
  std::vector<std::byte> data_;
  DType dtype_;
  std::int64_t num_pages_ = 0;
};

}  // namespace baltoro
