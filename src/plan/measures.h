// The numbers that tables of several scenarios show, by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plan/capacity.h"
#include "plan/totals.h"

namespace baltoro::plan {

// One scenario and what follows from it.
struct Evaluated {
  Scenario scenario;
  Totals totals;
  Capacity capacity;
};
// Throws Error{kUsage} for experts on the host, which have no step (compute_offload), and as
// compute_step.
Evaluated evaluate(const Scenario& scenario);

struct Measure {
  const char* key;   // "step"
  const char* head;  // "step": of a column, with its shown unit behind
  const char* unit;  // of the value
  const char* shown_unit;
  double scale;  // shown = value * scale
  bool is_time;  // depends on the machine's rates, else follows from sizes alone
  bool more_is_better;
  const char* meaning;
  double (*value)(const Evaluated& point);  // not a number where the model has no such thing
};
const std::vector<Measure>& measures();
// Throws Error{kUsage} with the nearest one.
const Measure& find_measure(std::string_view key);

// The part that takes the most of a step, and what binds it: "routed, HBM".
std::string longest_part(const Step& step);

}  // namespace baltoro::plan
