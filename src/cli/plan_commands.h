// The subcommands of `baltoro plan`, one file each: cli/plan_NAME.cc. A name that stands here is no
// model.
#pragma once

#include <vector>

#include "cli/command.h"

namespace baltoro::cli {

Command add_plan_calibrate(CLI::App& plan);
Command add_plan_compare(CLI::App& plan);
Command add_plan_layout(CLI::App& plan);
Command add_plan_sweep(CLI::App& plan);
Command add_plan_tiers(CLI::App& plan);
Command add_plan_verify(CLI::App& plan);

// Of add_plan: what follows `plan`, in the order of its help.
std::vector<Command> add_plan_subcommands(CLI::App& plan);

}  // namespace baltoro::cli
