// The model: embedding, blocks, output mix, head (specification 5.2, 7). Knows tensors and ops, no
// device and no request.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "model/config.h"
#include "model/mapped_weights.h"
#include "model/segment.h"
#include "model/sequence_state.h"
#include "model/weights.h"
#include "model/workspace.h"
#include "ops/backend.h"
#include "ops/batch.h"
#include "ops/head.h"

namespace baltoro {

// Immutable after construction; the weights' memory belongs to a WeightStore that outlives it.
class Model {
 public:
  // kFp8: MXFP4 experts, and a backend that serves it.
  Model(ModelConfig config, ModelWeights weights,
        ExpertActivations expert_activations = ExpertActivations::kSame);

  const ModelConfig& config() const noexcept { return config_; }
  const ModelWeights& weights() const noexcept { return weights_; }

  // Runs the batch through all layers and updates the sequences' state. Segments join, from layer 0
  // to the last; all but the last are of the host. Returns the rows after the final norm, [M, D], in
  // the last workspace, where they stay until the next pass; its first_bad then tells non-finite
  // rows. Draws of the batch are drawn. `mapped`: see LayerContext; it throws Error{kIo}.
  ConstTensorView forward(std::span<const Segment> segments, const BatchView& batch,
                          SequenceState& state, MappedWeights* mapped = nullptr) const;
  // The same in one segment.
  ConstTensorView forward(Backend& backend, const BatchView& batch, SequenceState& state,
                          Workspace& workspace, MappedWeights* mapped = nullptr) const;

  // logits[i] = lm_head normed[rows[i]].  logits [rows, V] f32, bad [rows]: HeadArgs; host memory.
  void logits(Backend& backend, const ConstTensorView& normed, std::span<const std::int32_t> rows,
              float* logits, std::int32_t* bad = nullptr) const;

  // A token from each row in place of its logits; args.weight is set here.
  void draw(Backend& backend, HeadDrawArgs args) const;

  // What a tag in Workspace::first_bad stands for, such as "the FFN of layer 7".
  std::string describe_bad_tag(std::int32_t tag) const;

 private:
  // `next`: the segment behind, or null.
  void run_segment(const Segment& segment, const Segment* next, const BatchView& batch,
                   SequenceState& state, MappedWeights* mapped) const;

  ModelConfig config_;
  ModelWeights weights_;
  ExpertActivations expert_activations_;
};

}  // namespace baltoro
