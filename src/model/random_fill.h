// Random bits of weights in memory of a backend, for measurements without weights: a block of them
// is drawn on the host and repeated.
#pragma once

#include <map>
#include <utility>

#include "core/buffer.h"
#include "core/tensor_view.h"
#include "ops/backend.h"

namespace baltoro {

class RandomFill {
 public:
  explicit RandomFill(Backend& backend) : backend_(backend) {}

  // Values of standard deviation about cols^-0.5, so that activations keep their size. `view` names
  // memory of the backend, any format.
  void fill(const WeightView& view);

 private:
  void repeat(const Buffer& pattern, void* to, std::int64_t bytes);
  const Buffer& codes(const WeightView& view);
  const Buffer& scales(const WeightView& view);
  Buffer upload(const void* data, std::size_t bytes);

  Backend& backend_;
  std::map<std::pair<WeightFormat, std::int64_t>, Buffer> codes_;
  std::map<std::pair<WeightFormat, std::int64_t>, Buffer> scales_;
};

}  // namespace baltoro
