// One component of a step: formula, the same with its numbers, and where it comes from.
#pragma once

#include <string>
#include <vector>

#include "plan/step.h"

namespace baltoro::plan {

struct ExplainedTerm {
  std::string name;     // "weight bytes"
  std::string formula;  // "D(t) M l m w / devices"
  std::string numbers;  // "16.0 x 3 x 3584 x 3072 x 0.53125 x 92 layers / 8 = 3.23 GB"
};
struct Explanation {
  Part part = Part::kEmbed;
  std::string what;
  std::vector<ExplainedTerm> terms;
  std::string source;
};

// Throws Error{kUsage} where the model or layout has no such part.
Explanation explain(const Scenario& scenario, const Step& step, Part part);

// "12.2 G" with three digits and a decimal prefix.
std::string with_prefix(double value);

}  // namespace baltoro::plan
