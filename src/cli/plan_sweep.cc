// `baltoro plan sweep`: one scenario along axes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "cli/arguments.h"
#include "cli/chart.h"
#include "cli/command.h"
#include "cli/format.h"
#include "cli/page.h"
#include "cli/plan_commands.h"
#include "cli/plan_figures.h"
#include "cli/plan_form.h"
#include "cli/plan_options.h"
#include "cli/plan_tables.h"
#include "core/error.h"

namespace baltoro::cli {
namespace {

struct SweepOptions {
  const CLI::App* app = nullptr;
  PlanOptions plan;
  std::vector<std::string> axes;
  std::string columns;
  std::string map;
  PlanForm form;
};

constexpr int kSweepSchema = 1;
constexpr const char* kMachineAxis = "hw";

std::vector<std::string> all_measures() {
  std::vector<std::string> keys;
  for (const plan::Measure& measure : plan::measures()) keys.emplace_back(measure.key);
  return keys;
}

std::string sweep_title(const plan::Sweep& sweep, const plan::Scenario& scenario) {
  std::vector<std::string> names;
  for (const plan::Axis& axis : sweep.axes) names.push_back(axis.name);
  const std::int64_t devices = scenario.layout.devices();
  const std::string machine = fmt::format(
      " on {}{}", devices > 1 ? fmt::format("{} x ", devices) : "", scenario.hardware.title);
  const bool several = sweep.axes.front().name == kMachineAxis;
  return fmt::format("{}{} over {}: {} ({})", scenario.model.name, several ? "" : machine,
                     fmt::join(names, " and "), plan::phase_name(scenario.workload.phase),
                     scenario.efficiency.result_name());
}

std::string reasons(const plan::Sweep& sweep) {
  std::string out;
  for (const plan::SweepPoint& point : sweep.points) {
    if (!point.evaluated)
      out += fmt::format("{}: {}\n", fmt::join(point.labels, ", "), point.reason);
  }
  return out;
}

std::vector<std::string> sweep_keys(const SweepOptions& options, const plan::Sweep& sweep) {
  if (options.columns.empty()) return plan::columns_of(sweep.axes);
  std::vector<std::string> keys = split_list(options.columns);
  for (std::size_t i = 0; i < keys.size(); ++i)
    check_item("--columns", options.columns, keys[i], i);
  return keys;
}

// Why a sweep of splits does not settle what it asks.
std::string split_note(const plan::Sweep& sweep) {
  const bool has_split =
      std::ranges::any_of(sweep.axes, [](const plan::Axis& axis) { return axis.name == "split"; });
  if (!has_split) return "";
  return "\n" +
         wrapped("512;64",
                 "at one cache c + s the step reads the same bytes: a wider s takes FLOPs from "
                 "decode and adds them to prefill. Cost singles out no split; that K3 has "
                 "512;64 follows from the widths that kernels ship, and from quality, which is "
                 "measured and not computed (docs/plan.md)");
}

std::string sweep_text(const SweepOptions& options, const plan::Sweep& sweep,
                       const plan::Scenario& scenario) {
  std::string out = sweep_title(sweep, scenario) + "\n\n";
  if (!options.map.empty()) {
    const HeatMap map = heat_map(sweep, options.map);
    out += fmt::format("{} {}: {}\n", map.measure->head, map.measure->shown_unit,
                       map.measure->meaning);
    out += table_text(heat_table(map, scenario.efficiency));
    if (out.find('*') != std::string::npos) out += "* does not fit into memory\n";
    return out + reasons(sweep);
  }
  const std::vector<std::string> keys = sweep_keys(options, sweep);
  out += table_text(sweep_table(sweep, keys, scenario.efficiency)) + "\n";
  for (const std::string& key : keys) {
    const plan::Measure& measure = plan::find_measure(key);
    out += fmt::format("{:<16}{}\n", key, measure.meaning);
  }
  return out + split_note(sweep);
}

// One axis: the step by component; two: a heat map.
std::string sweep_chart(const SweepOptions& options, const plan::Sweep& sweep,
                        const plan::Scenario& scenario) {
  const std::string title = sweep_title(sweep, scenario);
  if (sweep.axes.size() == 1 && options.map.empty()) return step_chart(sweep, title);
  const HeatMap map = heat_map(sweep, options.map.empty() ? "step" : options.map);
  return heat_chart({title, map.column_axis,
                     fmt::format("{}; {} [{}]: {}", map.row_axis, map.measure->head,
                                 map.measure->shown_unit, map.measure->meaning)},
                    map);
}

std::string sweep_page(const SweepOptions& options, const plan::Sweep& sweep,
                       const plan::Scenario& scenario) {
  Page page;
  page.title = sweep_title(sweep, scenario);
  page.subtitle = fmt::format("layout {}, batch {}, context {}", plan::describe(scenario.layout),
                              scenario.workload.batch, scenario.workload.context);
  if (sweep.axes.size() <= 2) {
    page.sections.push_back({"Figure", "", {}, {sweep_chart(options, sweep, scenario)}});
  }
  page.sections.push_back({"What the axes ask",
                           "",
                           {sweep_table(sweep, sweep_keys(options, sweep), scenario.efficiency)},
                           {}});
  page.sections.push_back(
      {"All measures", "", {sweep_table(sweep, all_measures(), scenario.efficiency)}, {}});
  return page_html(page);
}

// Machines: a layout that is not given follows each, with its own rates.
plan::Axis machine_axis(std::string_view values, const PlanOptions& options) {
  plan::Axis axis{kMachineAxis, plan::AxisTopic::kDeployment, {}};
  for (const std::string& value : plan::split_axis_values(kMachineAxis, values, false)) {
    PlanOptions there = options;
    there.hardware = value;
    axis.points.push_back({value, [there, machine = plan_machine(there)](plan::Trial& trial) {
                             trial.scenario.hardware = machine.hardware;
                             trial.scenario.efficiency = machine.efficiency;
                             trial.scenario.layout =
                                 plan_layout(there, trial.scenario.model, machine.devices);
                             if (trial.devices > 0) trial.devices = machine.devices;
                           }});
  }
  return axis;
}

// In their order, but machines first: a layout's axes change what those bring.
std::vector<plan::Axis> sweep_axes(const SweepOptions& options) {
  const std::string prefix = std::string(kMachineAxis) + "=";
  std::vector<plan::Axis> axes;
  for (const std::string& text : options.axes) {
    if (!text.starts_with(prefix)) {
      axes.push_back(plan::parse_axis(text, {kMachineAxis}));
      continue;
    }
    refuse_together(options.app->get_option("--hw")->count() > 0, "--hw", true, "an axis hw");
    axes.insert(axes.begin(), machine_axis(text.substr(prefix.size()), options.plan));
  }
  return axes;
}

// The scenario of the options, on the first machine of an axis of machines.
plan::Scenario sweep_scenario(const SweepOptions& options, const std::vector<plan::Axis>& axes) {
  PlanOptions first = options.plan;
  if (!axes.empty() && axes.front().name == kMachineAxis) {
    first.hardware = axes.front().points.front().label;
  }
  return plan_scenario(first);
}

int run_sweep_command(const SweepOptions& options) {
  check_plan_form(options.form);
  if (options.plan.model.empty()) fail(ErrorCode::kUsage, "plan sweep needs a MODEL and an AXIS");
  std::vector<plan::Axis> axes = sweep_axes(options);
  const plan::Scenario scenario = sweep_scenario(options, axes);
  const plan::Sweep sweep =
      plan::run_sweep(scenario, plan_machine(options.plan).devices, std::move(axes));
  if (options.form.json) {
    print_json({{"schema", "baltoro.plan.sweep"},
                {"version", kSweepSchema},
                {"title", sweep_title(sweep, scenario)},
                {"points", table_json(sweep_table(sweep, all_measures(), scenario.efficiency))}});
  } else if (options.form.csv) {
    fmt::print("{}", table_csv(sweep_table(sweep, all_measures(), scenario.efficiency)));
  } else if (options.form.svg) {
    fmt::print("{}", sweep_chart(options, sweep, scenario));
  } else if (options.form.html) {
    fmt::print("{}", sweep_page(options, sweep, scenario));
  } else {
    fmt::print("{}", sweep_text(options, sweep, scenario));
  }
  return kOk;
}

std::string sweep_footer() {
  return fmt::format(
      "Axes: {} {}, and the sizes of --set (N, K, m, R, ratio, ...). Values: A,B,C or A|B|C;\n"
      "FIRST..LAST, FIRST..LAST:STEP, FIRST..LAST:log (doubles). 8k is 8192.\n"
      "Measures: {}.\n"
      "With --hw COUNTxNAME a swept tp leaves the other devices to dp, a swept pp to tp.\n"
      "Examples:\n"
      "  baltoro plan sweep k3 split=512:64,448:128,384:192\n"
      "  baltoro plan sweep k3 'kv=mla:512+64|unified:576|mqa:576|gqa:2x144'\n"
      "  baltoro plan sweep k2 --dtype routed=mxfp4 alpha=1,2,4 mode=eff,acc\n"
      "  baltoro plan sweep k3 --hw 16xh200 batch=1..256:log ctx=4k..1M:log --map user\n"
      "  baltoro plan sweep k3 hw=16xh200,8xb200,8xb300 batch=1,16,64\n"
      "  baltoro plan sweep k3 --hw 16xh200 'layout=tp=16|tp=16,dcp=16|tp=8,pp=2' --csv",
      kMachineAxis, fmt::join(plan::axis_names(), " "), fmt::join(all_measures(), " "));
}

}  // namespace

Command add_plan_sweep(CLI::App& plan) {
  auto options = std::make_shared<SweepOptions>();
  CLI::App* app = plan.add_subcommand("sweep", "One scenario along axes: tables and heat maps");
  options->app = app;
  app->add_option("MODEL", options->plan.model, "Preset, model directory or config.json");
  app->add_option("AXIS", options->axes, "NAME=VALUES, as batch=1..64:log; every combination");
  app->add_option("--columns", options->columns, "Measures of the table (default: by the axes)")
      ->type_name("NAME,...")
      ->check(not_empty);
  app->add_option("--map", options->map, "Two axes as a map of this measure")
      ->type_name("NAME")
      ->check(not_empty);
  add_plan_form(*app, options->form);
  add_plan_options(*app, options->plan);
  app->footer(sweep_footer());
  return {app, [options] { return run_sweep_command(*options); }};
}

}  // namespace baltoro::cli
