// The numbers that describe a loaded model, from its bound weights.
#pragma once

#include "baltoro/engine.h"
#include "model/model.h"
#include "model/sequence_state.h"
#include "ops/backend.h"

namespace baltoro {

// Fills all of EngineInfo but `fingerprint` and `generation`.
EngineInfo describe(const Model& model, const Backend& backend, const SequenceState& state,
                    const MemoryPlan& plan);

}  // namespace baltoro
