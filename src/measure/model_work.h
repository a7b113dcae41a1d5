// The ideal work of one forward pass of a model: what its ops' cost() functions and its matrices add
// up to.
#pragma once

#include <cstdint>

#include "baltoro/engine.h"
#include "measure/roof.h"
#include "model/config.h"

namespace baltoro {

struct PassShape {
  std::int64_t batch = 1;   // sequences
  std::int64_t tokens = 1;  // new tokens of each
  std::int64_t depth = 0;   // tokens before them
  Origin origin = Origin::kPrompt;
};

// FLOPs: 2 a parameter that a token meets (the head for the last token of each sequence), and what
// kda_mix_cost and mla_*_cost count beside them. Bytes: each weight that the pass needs once, the
// experts as many as uniform routing touches in expectation; the recurrent state there and back; the
// cache of the past read, of the new tokens written. Activations are not counted.
Work pass_work(const ModelConfig& config, const EngineInfo& info, const PassShape& shape);

}  // namespace baltoro
