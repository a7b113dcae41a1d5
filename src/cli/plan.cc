// `baltoro plan`: what a model costs on a machine, before either is there.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/format.h"
#include "cli/plan_commands.h"
#include "cli/plan_figures.h"
#include "cli/plan_form.h"
#include "cli/plan_options.h"
#include "cli/plan_page.h"
#include "cli/plan_report.h"
#include "core/error.h"

namespace baltoro::cli {
namespace {

struct Options {
  PlanOptions plan;
  std::string component;
  std::string figure;
  bool json = false;
  bool csv = false;
  bool html = false;
};

void check_forms(const Options& options) {
  check_plan_form({.json = options.json,
                   .csv = options.csv,
                   .svg = !options.figure.empty(),
                   .html = options.html});
  refuse_together(!options.component.empty(), "--explain",
                  options.csv || options.html || !options.figure.empty(), "--csv, --svg or --html");
}

int run(const Options& options) {
  if (options.plan.model.empty()) {
    fail(ErrorCode::kUsage, "plan needs a MODEL: a preset ({}), a directory or a config.json",
         fmt::join(plan::preset_names(), ", "));
  }
  const plan::Scenario scenario = plan_scenario(options.plan);
  check_forms(options);
  if (!options.plan.speculation.empty() && scenario.workload.phase != plan::Phase::kVerify) {
    fail(ErrorCode::kUsage, "--spec has no effect with --phase {}; the rule is --phase verify",
         plan::phase_name(scenario.workload.phase));
  }
  if (!options.component.empty()) {
    const plan::Part part = plan::parse_part(options.component);
    const plan::Step step = plan::compute_step(scenario, plan::table_step(scenario.workload));
    const plan::Explanation explanation = plan::explain(scenario, step, part);
    if (options.json) {
      print_json(explanation_json(explanation));
    } else {
      fmt::print("{}", explanation_text(explanation));
    }
    return kOk;
  }
  const PlanResult result = compute_plan(scenario);
  if (options.json) {
    nlohmann::ordered_json document = plan_json(result);
    document["options"] = plan_options_json(options.plan);
    print_json(document);
  } else if (options.csv) {
    fmt::print("{}", table_csv(components_table(result)));
  } else if (!options.figure.empty()) {
    fmt::print("{}", options.figure == "steps" ? step_chart(scenario)
                                               : roofline_chart(scenario, step_of(result)));
  } else if (options.html) {
    fmt::print("{}", page_html(plan_page(result)));
  } else {
    fmt::print("{}", plan_text(result));
  }
  return result.offload || result.capacity.fits ? kOk : kDoesNotFit;
}

std::string footer() {
  std::string text = "Presets:\n";
  for (const std::string& name : plan::preset_names()) {
    text += fmt::format("  {:<14} {}\n", name, plan::preset_note(name));
  }
  std::string machines = "Machines:";
  std::size_t column = machines.size();
  std::vector<std::string> names = plan::hardware_names();
  names.emplace_back("measured");
  for (const std::string& name : names) {
    if (column + 1 + name.size() > 98) {
      machines += "\n         ";
      column = 9;
    }
    machines += " " + name;
    column += 1 + name.size();
  }
  return text + machines +
         "\n"
         "Examples:\n"
         "  baltoro plan k3 --hw 8xh200                       does it fit, and what would?\n"
         "  baltoro plan k3 --hw 16xb200 -b 64 --ctx 128k     one step, part by part\n"
         "  baltoro plan k3 --hw 8xb300 --explain routed      the formula with its numbers\n"
         "  baltoro plan k3 --hw rtx4090 --dram 128GB --nvme 7GB\n"
         "  baltoro plan layout k3 --hw 16xh200 -b 4 --ctx 128k\n"
         "  baltoro plan tiers kimi-linear --hw rtx4090 --memory 128GB\n"
         "  baltoro plan compare k3 'k3 --dtype attn=int8'    what changed, and why\n"
         "  baltoro plan sweep k3 split=512:64,448:128,384:192\n"
         "  baltoro plan sweep k2 alpha=1,2,4 mode=eff,acc -b 64\n"
         "  baltoro plan k3 --html > k3.html\n"
         "  baltoro plan models/story --hw epyc-9005 --json\n"
         "The exit status is 6 where the model does not fit. Formulas: docs/cost-model.md.";
}

}  // namespace

Command add_plan(CLI::App& root) {
  auto options = std::make_shared<Options>();
  CLI::App* app =
      root.add_subcommand("plan", "What a model costs on a machine: time, memory, network");
  app->add_option("MODEL", options->plan.model, "Preset, model directory or config.json");
  add_plan_options(*app, options->plan);
  app->add_option("--explain", options->component,
                  "Only this component: formula, numbers and source")
      ->type_name("COMPONENT")
      ->check(not_empty);
  app->add_flag("--json", options->json, "Print one JSON document");
  app->add_flag("--csv", options->csv, "Print the components as comma-separated values");
  add_choice(*app, "--svg", options->figure, {"steps", "roofline"},
             "Print a figure: the step by component over the batch, or components under the roofs");
  app->add_flag("--html", options->html, "Print a page that needs no other file");
  app->footer(footer());
  const std::vector<Command> subcommands = add_plan_subcommands(*app);
  for (const Command& command : subcommands) command.app->allow_extras();
  return {app, [options, subcommands] {
            for (const Command& command : subcommands) {
              if (command.app->parsed()) return command.run();
            }
            return run(*options);
          }};
}

std::vector<Command> add_plan_subcommands(CLI::App& plan) {
  return {add_plan_sweep(plan), add_plan_compare(plan),   add_plan_layout(plan),
          add_plan_tiers(plan), add_plan_calibrate(plan), add_plan_verify(plan)};
}

}  // namespace baltoro::cli
