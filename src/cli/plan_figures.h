// Charts of one scenario.
#pragma once

#include <string>

#include "plan/step.h"
#include "plan/sweep.h"

namespace baltoro::cli {

// The step time of each point of a sweep over one axis, stacked by component. Impossible points are
// left out.
std::string step_chart(const plan::Sweep& sweep, const std::string& title);
// The same over the batch (or, in prefill, the prompt) of a scenario.
std::string step_chart(const plan::Scenario& scenario);
// Each component of a step under the machine's roofs.
std::string roofline_chart(const plan::Scenario& scenario, const plan::Step& step);

}  // namespace baltoro::cli
