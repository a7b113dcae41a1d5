// The reference's router and routed experts (specification 6.3, 6.4).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/expert_mlp.h"
#include "ops/reference/rounding.h"
#include "ops/route.h"

namespace baltoro::reference {

struct Choice {
  std::vector<std::int32_t> ids;
  std::vector<double> weights;
};

// One row's choice from its router logits: see RouteArgs. Only top_k, renormalize, scale and bias
// of the arguments are read.
Choice choose_experts(std::span<const double> logits, const RouteArgs& args);

void route(const RouteArgs& args);

// Throws Error{kInternal} for an id outside the table or an absent expert.
void expert_mlp(const ExpertMlpArgs& args, Rounding round);

}  // namespace baltoro::reference
