// The result of `baltoro plan` as tables and as a page.
#pragma once

#include "cli/page.h"
#include "cli/plan_report.h"

namespace baltoro::cli {

// The step of the result. Throws Error{kUsage} for experts on the host, which have none.
const plan::Step& step_of(const PlanResult& result);
// One row a component, then their total.
Table components_table(const PlanResult& result);
Page plan_page(const PlanResult& result);

}  // namespace baltoro::cli
