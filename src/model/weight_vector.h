// A vector of weights, f32, where the ops of the model's backend read it.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace baltoro {

class WeightVector {
 public:
  WeightVector() = default;
  WeightVector(std::vector<float> values) : values_(std::move(values)) {}

  std::size_t size() const noexcept { return values_.size(); }
  bool empty() const noexcept { return values_.empty(); }
  // Host memory, unless a copy elsewhere was named.
  const float* data() const noexcept { return placed_ != nullptr ? placed_ : values_.data(); }
  operator std::span<const float>() const noexcept { return {data(), size()}; }
  // The values in host memory.
  std::span<const float> values() const noexcept { return values_; }
  // `copy`: the values in memory of a device, owned by others.
  void place(const float* copy) noexcept { placed_ = copy; }

 private:
  std::vector<float> values_;
  const float* placed_ = nullptr;
};

}  // namespace baltoro
