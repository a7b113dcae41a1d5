// Memory for calls of single ops that meet their weights, states and caches where a forward pass over
// a working set of so many bytes would: each call takes the next part, round and round.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "core/buffer.h"
#include "core/tensor_view.h"
#include "ops/backend.h"
#include "ops/batch.h"

namespace baltoro {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
// Working sets: beyond the private caches of a core, and beyond all caches (a larger one is no
// slower).
constexpr std::int64_t kCachedBytes = 8 * kMiB;
constexpr std::int64_t kMemoryBytes = 256 * kMiB;

// Of one backend, which outlives it. Throws Error{kOutOfMemory}.
class RotatingMemory {
 public:
  explicit RotatingMemory(Backend& backend) : backend_(backend) {}

  Backend& backend() const { return backend_; }
  // From now on weights and items go round in this many bytes each. Views from before become
  // invalid.
  void set_working_set(std::int64_t bytes);

  // Values of magnitude 1/64 to 1; scales of grouped formats about 1/16.
  WeightView weight(WeightFormat format, std::int64_t rows, std::int64_t cols);
  // What an op reads or updates in place: states, cache pages, banked activations. f32 or bf16.
  std::byte* items(std::int64_t bytes);

  // Memory of their own, which every call meets again: the inputs and outputs of an op.
  TensorView activations(std::int64_t rows, std::int64_t cols);
  // Writes all of them as a forward pass would before the op, by mix_norm: where a row comes from
  // another core's cache, that is part of what an op takes.
  void renew_activations();
  const float* vector(std::int64_t count);
  // These numbers, where ops read and write them.
  std::int32_t* ints(const std::vector<std::int32_t>& values);

  // The batch of the pass that calls of the op belong to, in memory that outlives them; by default one
  // generated row.
  void set_batch(const BatchView& batch) { batch_ = batch; }
  const BatchView& batch() const { return batch_; }

 private:
  struct Ring {
    Buffer buffer;
    std::int64_t size = 0;  // of the buffer, what is in use
    std::int64_t next = 0;
  };
  std::byte* take(Ring& ring, std::int64_t bytes, std::span<const std::uint16_t> pattern);
  Buffer filled(std::int64_t bytes, std::span<const std::uint16_t> pattern);

  Backend& backend_;
  Ring weights_, scales_, items_;
  std::deque<Buffer> fixed_;
  struct Activation {
    TensorView view, source;
    const float* norm;
  };
  std::vector<Activation> activations_;
  BatchView batch_;
};

}  // namespace baltoro
