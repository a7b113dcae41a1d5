// Changes of the deployment that the model says pay, each with what it predicts.
#pragma once

#include <string>
#include <vector>

#include "plan/step.h"

namespace baltoro::plan {

struct Recommendation {
  std::string change;  // "latent projections split over tp ranks"
  std::string how;     // "--layout tp=8,replicate=none"
  double seconds = 0;  // change of the step, negative where shorter
  double before = 0;   // s of the step
  double batch = 0;    // change of the largest batch
};

// Of the workload's phase; those that shorten the step by 1 % or let 5 % more sequences fit and cost
// less than 1 %. The largest saving first.
std::vector<Recommendation> recommend(const Scenario& scenario);

}  // namespace baltoro::plan
