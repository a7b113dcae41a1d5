// The scratch activations of a forward pass, allocated once for the largest batch and shared by all
// layers.
#pragma once

#include <cstdint>
#include <vector>

#include "core/buffer.h"
#include "core/tensor_view.h"
#include "model/config.h"
#include "ops/backend.h"

namespace baltoro {

// A buffer that lends [rows, cols] views of its capacity.
class ActivationBuffer {
 public:
  ActivationBuffer() = default;
  ActivationBuffer(Backend& backend, std::int64_t max_elements, DType dtype);

  TensorView view(std::int64_t rows, std::int64_t cols);
  std::int32_t* i32() { return static_cast<std::int32_t*>(buffer_.data()); }
  float* f32() { return buffer_.f32(); }
  std::size_t bytes() const noexcept { return buffer_.bytes(); }

 private:
  Buffer buffer_;
  DType dtype_ = DType::kF32;
  std::int64_t max_elements_ = 0;
};

// Sized for max_rows rows of any layer of the configuration. Names follow the equations of
// docs/model.md.
struct Workspace {
  Workspace(Backend& backend, const ModelConfig& config, std::int64_t rows);

  // Room for what a segment before this one's hands over; the first segment needs none.
  void expect_arrivals(Backend& backend, const ModelConfig& config);

  std::size_t bytes() const noexcept;
  // No row is bad yet.
  void begin_pass();

  std::int64_t max_rows;
  // Residual stream: banked sources, running prefix, last sub-layer output.
  std::vector<ActivationBuffer> stream;
  std::vector<ConstTensorView> bank;  // the banked sources of the running pass, within `stream`
  ActivationBuffer normed;            // x, the input of a sub-layer
  ActivationBuffer q, k, v;   // projections of a mixer; MLA: queries, latent (or keys), values
  ActivationBuffer low_rank;  // f_a x or q_a x
  ActivationBuffer low_rank_normed;  // the q latent after its norm
  ActivationBuffer decay;            // f_b f_a x
  ActivationBuffer beta;             // b x
  ActivationBuffer gate_low_rank;    // g_a x
  ActivationBuffer gate;             // output-gate logits
  ActivationBuffer mixed;            // mixer output before o_proj
  ActivationBuffer latent;           // z
  ActivationBuffer expert_sum;       // u, then r after the stable norm
  ActivationBuffer expert_sum_normed;
  ActivationBuffer routed;          // routed part in the model space
  ActivationBuffer expert_ids;      // [rows, A] i32
  ActivationBuffer expert_weights;  // [rows, A] f32
  // The sources of the residual stream as the segment before has left them, [sources, rows, D] in
  // memory of the host that the backend reaches; empty in the first segment.
  Buffer arriving;
  // [rows] i32, read by the host: tag of the first non-finite sub-layer output, or -1.
  Buffer first_bad_memory;
  std::int32_t* first_bad() { return static_cast<std::int32_t*>(first_bad_memory.data()); }
};

}  // namespace baltoro
