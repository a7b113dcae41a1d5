// The stream between sub-layers: Attention Residuals over depth, or the plain residual sum
// (specification 5; docs/config.md).
//
//   hin = prefix if the bank is empty else mix(bank + [prefix]; the sub-layer's own mix weights)
//   if s % S == 0: bank.append(prefix); prefix = none        (the raw prefix, never the mixed one)
//   out = sublayer(RMSNorm(hin));  prefix = out if prefix is none else prefix + out
//
// A plain residual is S = infinity with an empty bank. The bank belongs to one forward pass.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/tensor_view.h"
#include "model/config.h"
#include "model/weights.h"
#include "model/workspace.h"
#include "ops/backend.h"

namespace baltoro {

class ResidualStream {
 public:
  // Buffers that a pass needs: all banked sources, the prefix and one sub-layer output.
  static int num_buffers(const ModelConfig& config);

  // Starts a pass: empties Workspace::bank. With a first layer above 0 it goes on where the segment
  // before has handed over: its sources are taken from Workspace::arriving.
  ResidualStream(Backend& backend, const ModelConfig& config, Workspace& workspace,
                 std::int64_t rows, std::int64_t first_layer = 0);

  // Where the embedding goes.
  TensorView embedding();

  // The input of the next sub-layer: RMSNorm of the mixed stream, in Workspace::normed. `mix` is
  // null for a plain residual.
  ConstTensorView enter(const AttnResWeights* mix, std::span<const float> norm);
  // Where that sub-layer writes its output, which joins the stream at the next enter() or at
  // finish().
  TensorView output();

  // After the last layer of a segment on a backend of the host: what is banked, the prefix and the
  // last output go to the `arriving` of the workspace of the next segment, as `dtype`, and so do the
  // tags of bad rows.
  void hand_over(Workspace& next, DType dtype) const;

  // After the last sub-layer: final mix and final norm, in Workspace::normed.
  ConstTensorView finish(const AttnResWeights* mix, std::span<const float> norm);

 private:
  void arrive(std::int64_t first_layer);
  // What the next sub-layer depends on.
  std::vector<ConstTensorView> sources() const;
  ConstTensorView mix_and_norm(const AttnResWeights* mix, std::span<const float> norm);
  TensorView take_buffer();

  Backend& backend_;
  const ModelConfig& config_;
  Workspace& workspace_;
  std::int64_t rows_;
  std::size_t next_buffer_ = 0;
  TensorView prefix_;
  TensorView output_;  // of the last sub-layer; empty before the first
  TensorView spare_;   // the buffer that an added output has left free
  bool prefix_is_none_ = false;
  std::int64_t sublayer_ = 0;  // the next one to enter
};

}  // namespace baltoro
