// The op calls of one forward pass of a model: the model runs over a backend that computes nothing
// and notes what it is asked for, so that a prediction knows exactly the calls that the engine makes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "baltoro/engine.h"
#include "measure/model_work.h"
#include "model/loader.h"
#include "plan/kernel_call.h"

namespace baltoro {

struct OpCall {
  std::string op;  // as in Backend, and in traces
  int layer = -1;
  plan::KernelCall kernel;  // no FLOPs and no bytes where the op has nothing to do
};

struct StepCalls {
  std::vector<OpCall> ops;  // in the order of the engine
  // Bytes that the pass goes through before it meets the first again: weights, states and cache, and
  // the scratch activations.
  double working_set = 0;
};

// Experts as many as uniform routing touches in expectation. One pass: batch x tokens rows. `backend`
// has the types of the engine's.
StepCalls step_calls(const LoadedModel& loaded, const Backend& backend, const PassShape& shape);

}  // namespace baltoro
