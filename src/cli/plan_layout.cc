// `baltoro plan layout`: the best ways to spread a model over a machine, and why the others are not.
#include <fmt/format.h>

#include <memory>

#include "cli/arguments.h"
#include "cli/chart.h"
#include "cli/command.h"
#include "cli/format.h"
#include "cli/page.h"
#include "cli/plan_commands.h"
#include "cli/plan_form.h"
#include "cli/plan_options.h"
#include "cli/plan_tables.h"
#include "core/error.h"
#include "plan/explain.h"
#include "plan/key_value.h"
#include "plan/search.h"

namespace baltoro::cli {
namespace {

struct LayoutOptions {
  PlanOptions plan;
  std::string limits;
  std::int64_t rivals = 10;
  PlanForm form;
};

constexpr int kLayoutSchema = 1;

// "20ms" or "2s".
double parse_seconds(const std::string& name, const std::string& text) {
  const std::size_t end = text.find_last_not_of("abcdefghijklmnopqrstuvwxyz") + 1;
  const std::string unit = text.substr(end);
  if (end == 0 || (unit != "ms" && unit != "s")) {
    fail(ErrorCode::kUsage, "{} is \"{}\"; the units are ms and s, the form is 20ms or 2s", name,
         text);
  }
  const double number = plan::parse_number(name, text.substr(0, end), 0);
  if (number == 0) fail(ErrorCode::kUsage, "{} is {}; it must be above 0", name, text);
  return number * (unit == "ms" ? 1e-3 : 1);
}

plan::Limits parse_limits(const std::string& text) {
  plan::Limits limits;
  if (text.empty()) return limits;  // not given
  for (const auto& [key, value] : plan::split_key_values("--slo", text)) {
    if (key == "tpot") {
      limits.tpot = parse_seconds("--slo tpot", value);
    } else if (key == "ttft") {
      limits.ttft = parse_seconds("--slo ttft", value);
    } else {
      plan::fail_unknown("--slo ", key, "key", {"tpot", "ttft"});
    }
  }
  return limits;
}

bool is_prefill(const plan::Scenario& scenario) {
  return scenario.workload.phase == plan::Phase::kPrefill;
}

// Numbers of layouts that do not fit are left empty.
Table candidates_table(const std::vector<plan::Candidate>& candidates,
                       const plan::Scenario& scenario) {
  const std::string rates = plan::efficiency_name(scenario.efficiency.kind);
  const bool prefill = is_prefill(scenario);
  Table table;
  table.columns = {{"layout", "layout", "", "", "", 1},
                   {"devices", "devices", "", "devices", "formula", 1},
                   {"latency", prefill ? "TTFT" : "TPOT", "ms", "s", rates, 1e3},
                   {"ttft", "TTFT", "ms", "s", rates, 1e3},
                   {"throughput", "tok/s", "of all", "1/s", rates, 1},
                   {"throughput_device", "tok/s", "a device", "1/s", rates, 1},
                   {"batch", "at batch", "", "sequences", "formula", 1},
                   {"verdict", "verdict", "", "", "", 1},
                   {"reason", "reason", "", "", "", 1}};
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  for (const plan::Candidate& c : candidates) {
    const bool fits = c.verdict != plan::Verdict::kNoFit;
    const auto devices = static_cast<double>(c.layout.devices());
    table.rows.push_back(
        {plan::describe(c.layout), devices, fits ? c.latency : kNone, fits ? c.ttft : kNone,
         fits ? c.throughput : kNone, fits ? c.throughput / devices : kNone,
         fits ? static_cast<double>(c.batch) : kNone, plan::verdict_name(c.verdict), c.reason});
  }
  return table;
}

// Without verdicts and reasons; of prefill, without its latency again.
Table best_table(const plan::LayoutSearch& search, const plan::Scenario& scenario) {
  Table table = candidates_table(search.best, scenario);
  const auto cut = [&](auto& list) {
    list.erase(list.end() - 2, list.end());
    if (is_prefill(scenario)) list.erase(list.begin() + 3);
  };
  cut(table.columns);
  for (std::vector<Cell>& row : table.rows) cut(row);
  return table;
}

std::string layout_title(const plan::Scenario& scenario, std::int64_t devices) {
  const plan::Workload& w = scenario.workload;
  return fmt::format("{} on up to {} x {}: {}, {}, context {} ({})", scenario.model.name, devices,
                     scenario.hardware.title, plan::phase_name(w.phase),
                     is_prefill(scenario) ? fmt::format("{} prompts", w.prompts)
                                          : fmt::format("batch {}", w.batch),
                     w.context, scenario.efficiency.result_name());
}

std::string rival_line(const plan::Candidate& rival, bool prefill) {
  std::string text = fmt::format("{}: ", plan::describe(rival.layout));
  if (rival.verdict != plan::Verdict::kNoFit) {
    text += fmt::format("{} {}s, {} tok/s; ", prefill ? "TTFT" : "TPOT",
                        plan::with_prefix(rival.latency), short_number(rival.throughput));
  }
  return wrapped(plan::verdict_name(rival.verdict), text + rival.reason);
}

std::string layout_text(const plan::LayoutSearch& search, const plan::Scenario& scenario,
                        std::int64_t devices, std::int64_t most_rivals) {
  std::string out = layout_title(scenario, devices) + "\n";
  out += fmt::format(
      "{} layouts tried; no other has less latency, more tokens and fewer devices at "
      "once:\n\n",
      search.tried);
  if (search.best.empty()) {
    out += "none: no layout holds the workload within the limits\n";
  } else {
    out += table_text(best_table(search, scenario));
  }
  if (!is_prefill(scenario)) {
    out += "tok/s at the largest batch that fits (and keeps TPOT), TPOT at the batch asked for\n";
  }
  out += "\nThe best of each other tp, dp, pp, ep and attn, and why it is not there:\n";
  // Those that compete, then the nearest to fit.
  std::int64_t shown_rivals = 0;
  std::int64_t misfits = 0;
  for (const plan::Candidate& rival : search.rivals) {
    const bool misfit = rival.verdict == plan::Verdict::kNoFit;
    if (misfit) ++misfits;
    const bool is_shown = misfit ? misfits <= 3 : shown_rivals < most_rivals;
    if (!is_shown) continue;
    if (!misfit) ++shown_rivals;
    out += rival_line(rival, is_prefill(scenario));
  }
  return out + fmt::format("{} further rivals in --csv and --json, {} that do not fit among them\n",
                           static_cast<std::int64_t>(search.rivals.size()) - shown_rivals -
                               std::min<std::int64_t>(misfits, 3),
                           std::max<std::int64_t>(0, misfits - 3));
}

std::string layout_chart(const std::vector<plan::Candidate>& candidates,
                         const plan::Scenario& scenario, std::int64_t devices) {
  std::vector<ScatterPoint> points;
  for (const plan::Candidate& c : candidates) {
    if (c.verdict == plan::Verdict::kNoFit) continue;
    const std::string name =
        c.verdict == plan::Verdict::kBest
            ? fmt::format("{} ({})", plan::describe(c.layout), c.layout.devices())
            : "";
    points.push_back({name, 1e3 * c.latency, c.throughput});
  }
  if (points.empty()) {
    fail(ErrorCode::kDoesNotFit, "no layout of {} devices holds the workload; more devices may",
         devices);
  }
  return scatter({layout_title(scenario, devices), is_prefill(scenario) ? "TTFT, ms" : "TPOT, ms",
                  "tok/s of all devices"},
                 points);
}

int run_layout_command(const LayoutOptions& options) {
  check_plan_form(options.form);
  if (options.plan.model.empty()) fail(ErrorCode::kUsage, "plan layout needs a MODEL");
  if (!options.plan.layout.empty()) {
    fail(ErrorCode::kUsage, "plan layout looks for what --layout says; leave it out");
  }
  const plan::Limits limits = parse_limits(options.limits);
  const plan::Scenario scenario = plan_scenario(options.plan);
  const std::int64_t devices = std::max<std::int64_t>(1, plan_machine(options.plan).devices);
  const plan::LayoutSearch search = plan::search_layouts(scenario, devices, limits);
  std::vector<plan::Candidate> all = search.best;
  all.insert(all.end(), search.rivals.begin(), search.rivals.end());
  if (options.form.json) {
    print_json({{"schema", "baltoro.plan.layout"},
                {"version", kLayoutSchema},
                {"title", layout_title(scenario, devices)},
                {"tried", search.tried},
                {"layouts", table_json(candidates_table(all, scenario))}});
  } else if (options.form.csv) {
    fmt::print("{}", table_csv(candidates_table(all, scenario)));
  } else if (options.form.svg) {
    fmt::print("{}", layout_chart(all, scenario, devices));
  } else if (options.form.html) {
    Page page{
        layout_title(scenario, devices), fmt::format("{} layouts tried", search.tried), {}, {}};
    page.sections.push_back(
        {"No other has less latency, more tokens and fewer devices at once",
         "tok/s at the largest batch that fits, latency at the batch asked for.",
         {best_table(search, scenario)},
         {layout_chart(all, scenario, devices)}});
    page.sections.push_back({"The best of each other tp, dp, pp, ep and attn",
                             "",
                             {candidates_table(search.rivals, scenario)},
                             {}});
    fmt::print("{}", page_html(page));
  } else {
    fmt::print("{}", layout_text(search, scenario, devices, options.rivals));
  }
  return search.best.empty() ? kDoesNotFit : kOk;
}

}  // namespace

Command add_plan_layout(CLI::App& plan) {
  auto options = std::make_shared<LayoutOptions>();
  CLI::App* app = plan.add_subcommand("layout", "Search the layouts of a machine");
  app->add_option("MODEL", options->plan.model, "Preset, model directory or config.json");
  app->add_option("--slo", options->limits, "Limits to keep")
      ->type_name("tpot=20ms,ttft=2s")
      ->check(not_empty);
  add_number(*app, "--rivals", options->rivals, "Layouts to tell the reason of", {0, 1000});
  add_plan_form(*app, options->form);
  add_plan_options(*app, options->plan);
  app->footer(
      "Layouts of --hw COUNTxNAME and of each divisor of COUNT. The exit status is 6 where none "
      "holds\nthe workload within the limits.\n"
      "Examples:\n"
      "  baltoro plan layout k3 --hw 16xh200 -b 4 --ctx 128k\n"
      "  baltoro plan layout k3 --hw 72xgb200 -b 256 --slo tpot=25ms\n"
      "  baltoro plan layout k3 --hw 16xgb200 --phase prefill --prompts 16");
  return {app, [options] { return run_layout_command(*options); }};
}

}  // namespace baltoro::cli
