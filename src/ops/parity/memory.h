// Memory of one op call on one backend, for parity tests and benchmarks: seeded inputs that are the
// same for every backend, poisoned outputs, and guards around each region.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "core/buffer.h"
#include "core/rng.h"
#include "core/tensor_view.h"
#include "ops/backend.h"
#include "ops/latent_page.h"

namespace baltoro {

// Everything that an op may write, copied to the host; int32 values as f32.
struct OpOutput {
  std::string name;
  std::vector<float> values;
};

// n values uniform in [-scale, scale), a function of seed and name alone.
std::vector<float> random_values(std::uint64_t seed, const std::string& name, std::int64_t n,
                                 float scale);

class OpMemory {
 public:
  explicit OpMemory(Backend& backend) : backend_(backend) {}

  // [rows, cols] activations; rounded to bf16 where the backend's activations are bf16.
  ConstTensorView input(const std::string& name, std::vector<float> values, std::int64_t cols);
  // [rows, cols] activations that the op may update.
  TensorView in_out(const std::string& name, std::vector<float> values, std::int64_t cols);
  // [rows, cols] activations, NaN until written.
  TensorView output(const std::string& name, std::int64_t rows, std::int64_t cols);
  const float* input_f32(const std::string& name, const std::vector<float>& values);
  const std::int32_t* input_i32(const std::string& name, const std::vector<std::int32_t>& values);
  // Updated by the op and part of outputs().
  void* state(const std::string& name, const std::vector<float>& values, DType dtype);
  float* state_f32(const std::string& name, const std::vector<float>& values);
  std::int32_t* state_i32(const std::string& name, const std::vector<std::int32_t>& values);
  void* cache(const std::string& name, const std::vector<float>& values);
  // A cache of kE4m3 that holds these rows; outputs() gives what can be read of it.
  void* latents(const std::string& name, const std::vector<float>& values,
                const LatentPage& layout);
  // A random weight, uniform in about [-gain, gain) / sqrt(cols) * 1.7. Data start off the
  // alignment of a vector, data of grouped formats at an odd byte, as in a checkpoint; after
  // align_weights() at a multiple of 64 bytes.
  WeightView weight(std::uint64_t seed, const std::string& name, WeightFormat format,
                    std::int64_t rows, std::int64_t cols, float gain = 1);

  void align_weights() { align_weights_ = true; }

  std::vector<OpOutput> outputs();
  // Which input was changed or which region's guard was overwritten; nothing when all is well.
  std::optional<std::string> damage();

 private:
  struct Region {
    std::string name;
    Buffer buffer;
    std::vector<std::byte> original;  // guards included
    std::size_t offset;               // of the data in the buffer
    std::size_t bytes;
    DType dtype;
    bool is_input;
    std::optional<LatentPage> latents = {};
  };
  struct Placement {
    DType dtype;
    bool is_input;
    std::size_t misalign;
  };
  void* place(const std::string& name, const void* data, std::size_t bytes, Placement placement);
  void* place_values(const std::string& name, const std::vector<float>& values, DType dtype,
                     bool is_input);
  std::vector<float> rounded(std::vector<float> values) const;
  std::vector<std::byte> download(const Region& region);
  static std::vector<float> read(const Region& region, const std::byte* data);

  Backend& backend_;
  bool align_weights_ = false;
  std::deque<Region> regions_;
};

}  // namespace baltoro
