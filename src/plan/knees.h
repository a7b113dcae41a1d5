// Where one limit gives way to another.
#pragma once

#include <string>
#include <vector>

#include "plan/step.h"

namespace baltoro::plan {

struct Knee {
  std::string key;      // "expert_compute_batch"
  double value = 0;     // infinite: never; 0: always, and `meaning` says of what
  std::string unit;     // "tokens"
  std::string meaning;  // "of a step above which routed experts are bound by FLOPs"
  std::string formula;
};

// Those that the model and machine have.
std::vector<Knee> find_knees(const Scenario& scenario);

// Sequences that decode above which their KDA state moves more bytes than all weights but experts.
double state_over_weights_batch(const PlanModel& model);
// Tokens of context above which reading the cache moves more bytes than the state, read and written;
// and above which it takes more memory.
double cache_over_state_context(const PlanModel& model);
double cache_over_state_memory(const PlanModel& model);
// Tokens of context above which attention over the cache has more FLOPs than the rest of a decode
// step.
double attention_over_rest_context(const PlanModel& model);

}  // namespace baltoro::plan
