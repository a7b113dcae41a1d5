// What every part of a layer needs while one batch passes through it.
#pragma once

#include "model/config.h"
#include "model/mapped_weights.h"
#include "model/sequence_state.h"
#include "model/workspace.h"
#include "ops/backend.h"
#include "ops/batch.h"

namespace baltoro {

struct LayerContext {
  Backend& backend;
  const ModelConfig& config;
  const BatchView& batch;
  SequenceState& state;
  Workspace& workspace;
  MappedWeights* mapped = nullptr;  // null: all weights stay in memory
  ExpertActivations expert_activations = ExpertActivations::kSame;
  int layer = 0;
};

}  // namespace baltoro
