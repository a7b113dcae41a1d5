// Which row of the planner's tables an op of a running pass belongs to.
#pragma once

#include <string_view>

#include "model/config.h"
#include "plan/part.h"

namespace baltoro {

// Is told the ops of a pass, in their order: products before a mixer's core and the one behind it are
// its projections, later ones in the layer those around the routed experts.
class PartFinder {
 public:
  explicit PartFinder(const ModelConfig& config) : config_(config) {}

  // `op` and `layer` as in Backend and in traces.
  plan::Part of(std::string_view op, int layer);

 private:
  plan::Part product();
  bool is_kda() const;

  const ModelConfig& config_;
  int layer_ = -1;
  int after_core_ = -1;  // products since the mixer's core; -1: it is to come
};

}  // namespace baltoro
