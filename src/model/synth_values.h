// The random values of a synthetic checkpoint: a byte depends on seed, tensor name and position
// alone, through integer arithmetic and single roundings, so that a seed gives the same file on any
// machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/rng.h"
#include "model/config.h"
#include "model/tensor_inventory.h"

namespace baltoro {

// Gains are chosen so that the SiTU caps, the routing bias and the AttnRes softmax all matter and
// activations keep their size over the depth: matrices have std gain / sqrt(columns), norms lie
// around 1.
class TensorDraw {
 public:
  TensorDraw(const ModelConfig& config, const TensorSpec& tensor, std::uint64_t seed);

  // Bytes [begin, begin + out.size()) of the tensor; both whole elements.
  void fill(std::uint64_t begin, std::span<std::byte> out) const;

 private:
  float value(std::uint64_t element) const;
  // A bell over [-510, 510] of standard deviation kBellStd.
  int bell(std::uint64_t element) const;
  std::uint8_t packed_byte(std::uint64_t element) const;
  std::uint8_t scale_byte(std::uint64_t element) const;

  TensorSpec tensor_;
  Philox random_;
  float unit_ = 0.0f;  // one step of the bell, from the standard deviation
  float mean_ = 0.0f;
  std::uint64_t used_ = 0;  // elements beyond are zero: the padding of A_log
  int base_scale_ = 127;
};

}  // namespace baltoro
