// The form in which a subcommand of plan prints its result.
#pragma once

#include <CLI/App.hpp>

namespace baltoro::cli {

// At most one; text where there is none.
struct PlanForm {
  bool json = false;
  bool csv = false;
  bool svg = false;
  bool html = false;
};
// --json, --csv, --svg and --html, each of which excludes the others.
void add_plan_form(CLI::App& app, PlanForm& form);
// Throws Error{kUsage} where there are two.
void check_plan_form(const PlanForm& form);

}  // namespace baltoro::cli
