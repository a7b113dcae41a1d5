// `baltoro plan compare`: what changed between two scenarios, and why.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cmath>
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
#include "core/suggest.h"
#include "plan/compare.h"
#include "plan/explain.h"

namespace baltoro::cli {
namespace {

struct CompareOptions {
  const CLI::App* app = nullptr;
  PlanOptions plan;  // of both sides
  std::string a;
  std::string b;
  PlanForm form;
};

constexpr int kCompareSchema = 1;

// One side, and how long its step took when it was saved (0: it was not).
struct CompareSide {
  plan::Scenario scenario;
  std::string file;
  double saved_seconds = 0;
};

// What parses a side; `given` gets its options.
void parse_side(CLI::App& side, const char* name, const std::string& text, PlanOptions& given) {
  side.set_help_flag();
  side.allow_extras();
  side.add_option("MODEL", given.model);
  add_plan_options(side, given);
  try {
    side.parse(text, false);
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string message = error.what();  // "--batch: 1 required N missing"
    fail(ErrorCode::kUsage, "{} \"{}\": {} needs one value behind it", name, text,
         message.substr(0, message.find(':')));
  } catch (const CLI::ParseError& error) {
    fail(ErrorCode::kUsage, "{} \"{}\": {}", name, text, error.what());
  }
  if (!side.remaining().empty()) {
    const std::string word = side.remaining().front();
    std::vector<std::string> known;
    for (const PlanOption& option : plan_options()) known.push_back(long_name(option.flags));
    const std::string near = nearest(word, known);
    fail(ErrorCode::kUsage, "{} \"{}\": {} is no option{}; the form is \"MODEL [OPTIONS of plan]\"",
         name, text, word, near.empty() ? "" : fmt::format(", did you mean {}?", near));
  }
  if (given.model.empty()) {
    fail(ErrorCode::kUsage, "{} \"{}\" has no model; the form is \"MODEL [OPTIONS of plan]\"", name,
         text);
  }
}

// "k3 --dtype attn=int8" or "saved.json -b 64": what was saved, over it the options of both sides,
// over those the side's own.
CompareSide side_of(const char* name, const std::string& text, const CompareOptions& options) {
  CLI::App app;
  PlanOptions given;
  parse_side(app, name, text, given);
  CompareSide side;
  PlanOptions all;
  all.model = given.model;
  if (is_saved_plan(given.model)) {
    SavedPlan saved = read_saved_plan(given.model);
    all = std::move(saved.options);
    side.file = given.model;
    side.saved_seconds = saved.step_seconds;
  }
  const PlanOptions before = all;
  take_given(*options.app, options.plan, all);
  take_given(app, given, all);
  if (plan_options_json(all) != plan_options_json(before)) side.saved_seconds = 0;
  side.scenario = plan_scenario(all);
  return side;
}

// Numbers of a file that this program does not find again.
std::vector<std::string> notes_of(const CompareSide& side, const plan::Evaluated& now) {
  const double seconds = now.totals.step.seconds();
  if (side.saved_seconds == 0 || std::abs(seconds / side.saved_seconds - 1) < 1e-6) return {};
  return {
      fmt::format("{}: the step took {}s when it was saved, by other rates or formulas; what "
                  "this version computes stands here",
                  side.file, plan::with_prefix(side.saved_seconds))};
}

Table changes_table(const plan::Comparison& c) {
  Table table;
  table.columns = {
      {"what", "changed", "", "", "", 1}, {"a", "A", "", "", "", 1}, {"b", "B", "", "", "", 1}};
  for (const plan::Change& change : c.changes) {
    table.rows.push_back({change.what, change.before, change.after});
  }
  return table;
}

Table totals_table(const plan::Comparison& c) {
  const plan::Efficiency& rates = c.a.scenario.efficiency;
  Table table;
  table.columns = {{"measure", "measure", "", "", "", 1},
                   {"unit", "", "", "", "", 1},
                   {"a", "A", "", "", "", 1},
                   {"b", "B", "", "", "", 1},
                   {"ratio", "B / A", "", "", "formula", 1},
                   {"meaning", "", "", "", "", 1}};
  for (const char* key :
       {"step", "ttft", "user", "device", "flops", "hbm", "net", "intensity", "comm", "parameters",
        "active", "stored", "cache", "state", "free", "max_batch"}) {
    const plan::Measure& measure = plan::find_measure(key);
    const Column column = measure_column(measure, rates);
    const double a = measure.value(c.a);
    const double b = measure.value(c.b);
    table.rows.push_back({measure.key, measure.shown_unit, shown(column, a), shown(column, b),
                          a != 0 ? b / a : std::numeric_limits<double>::quiet_NaN(),
                          measure.meaning});
  }
  return table;
}

Table parts_table(const plan::Comparison& c) {
  const std::string rates = plan::efficiency_name(c.a.scenario.efficiency.kind);
  Table table;
  table.columns = {{"component", "component", "", "", "", 1},
                   {"a_seconds", "A", "ms", "s", rates, 1e3},
                   {"b_seconds", "B", "ms", "s", rates, 1e3},
                   {"change_seconds", "B - A", "ms", "s", rates, 1e3},
                   {"flops_ratio", "FLOPs", "B / A", "", "formula", 1},
                   {"bytes_ratio", "HBM", "B / A", "", "formula", 1},
                   {"network_ratio", "net", "B / A", "", "formula", 1},
                   {"a_bound", "A: bound", "", "", "", 1},
                   {"b_bound", "B: bound", "", "", "", 1}};
  const plan::Step& a = c.a.totals.step;
  const plan::Step& b = c.b.totals.step;
  const auto ratio = [](double before, double after) {
    return before > 0 ? after / before : std::numeric_limits<double>::quiet_NaN();
  };
  const auto add = [&](const std::string& name, double before, double after,
                       const plan::PartWork& x, const plan::PartWork& y) {
    table.rows.push_back({name, before, after, after - before, ratio(x.flops, y.flops),
                          ratio(x.bytes(), y.bytes()),
                          ratio(x.network.bytes(), y.network.bytes())});
  };
  for (const plan::PartChange& change : c.parts) {
    const plan::PartTime& before = a.time_of(change.part);
    const plan::PartTime& after = b.time_of(change.part);
    add(plan::part_name(change.part), before.seconds(), after.seconds(), a.work_of(change.part),
        b.work_of(change.part));
    table.rows.back().emplace_back(plan::bound_name(before.bound));
    table.rows.back().emplace_back(plan::bound_name(after.bound));
  }
  add("total", a.seconds(), b.seconds(), a.total(), b.total());
  for (int i = 0; i < 2; ++i) table.rows.back().emplace_back("");
  return table;
}

Table reasons_table(const plan::Comparison& c) {
  Table table;
  table.columns = {{"component", "component", "", "", "", 1}, {"why", "why", "", "", "", 1}};
  for (const plan::PartChange& change : c.parts) {
    const std::string text = plan::why(c, change);
    if (!text.empty()) table.rows.push_back({plan::part_name(change.part), text});
  }
  return table;
}

std::string compare_title(const plan::Comparison& c) {
  const auto side = [](const plan::Scenario& s) {
    return fmt::format("{} on {} x {} ({})", s.model.name, s.layout.devices(), s.hardware.title,
                       plan::describe(s.layout));
  };
  return fmt::format("A {}; B {}: {}, {}", side(c.a.scenario), side(c.b.scenario),
                     plan::phase_name(c.b.scenario.workload.phase),
                     c.b.scenario.efficiency.result_name());
}

std::string compare_chart(const plan::Comparison& c) {
  std::vector<Series> series;
  for (const plan::Part part : plan::kAllParts) {
    series.push_back({plan::part_name(part),
                      plan::index_of(part),
                      {1e3 * c.a.totals.step.time_of(part).seconds(),
                       1e3 * c.b.totals.step.time_of(part).seconds()}});
  }
  return stacked_bars(
      {fmt::format("{} and {}", c.a.scenario.model.name, c.b.scenario.model.name), "", "ms a step"},
      {"A", "B"}, series);
}

std::string compare_text(const plan::Comparison& c) {
  std::string out = wrapped("compare", compare_title(c)) + "\n";
  if (c.changes.empty()) return out + "nothing differs\n";
  out += table_text(changes_table(c)) + "\n" + table_text(totals_table(c)) + "\n" +
         table_text(parts_table(c)) + "\n";
  for (const std::vector<Cell>& row : reasons_table(c).rows) {
    out += wrapped(row[0].text, row[1].text);
  }
  return out;
}

int run_compare_command(const CompareOptions& options) {
  check_plan_form(options.form);
  if (options.b.empty()) {
    fail(ErrorCode::kUsage, "plan compare needs two scenarios, A and B: k2 k3, or k3 'k3 -b 64'");
  }
  const CompareSide a = side_of("A", options.a, options);
  const CompareSide b = side_of("B", options.b, options);
  const plan::Comparison c = plan::compare(a.scenario, b.scenario);
  std::vector<std::string> notes = notes_of(a, c.a);
  for (const std::string& note : notes_of(b, c.b)) notes.push_back(note);
  if (options.form.json) {
    print_json({{"schema", "baltoro.plan.compare"},
                {"version", kCompareSchema},
                {"title", compare_title(c)},
                {"changes", table_json(changes_table(c))},
                {"measures", table_json(totals_table(c))},
                {"components", table_json(parts_table(c))},
                {"reasons", table_json(reasons_table(c))},
                {"notes", notes}});
  } else if (options.form.csv) {
    fmt::print("{}", table_csv(parts_table(c)));
  } else if (options.form.svg) {
    fmt::print("{}", compare_chart(c));
  } else if (options.form.html) {
    Page page{compare_title(c), fmt::format("{}", fmt::join(notes, "; ")), {}, {}};
    page.sections.push_back({"A step, part by part", "", {parts_table(c)}, {compare_chart(c)}});
    page.sections.push_back({"Why", "", {reasons_table(c)}, {}});
    page.sections.push_back({"What changed", "", {changes_table(c)}, {}});
    page.sections.push_back({"What it comes to", "", {totals_table(c)}, {}});
    fmt::print("{}", page_html(page));
  } else {
    fmt::print("{}", compare_text(c));
    for (const std::string& note : notes) fmt::print("{}", wrapped("note", note));
  }
  return kOk;
}

}  // namespace

Command add_plan_compare(CLI::App& plan) {
  auto options = std::make_shared<CompareOptions>();
  CLI::App* app =
      plan.add_subcommand("compare", "Two scenarios: what changed and why, part by part");
  options->app = app;
  app->add_option("A", options->a,
                  "Model or file of plan --json, or in quotes one and options of plan");
  app->add_option("B", options->b, "The same");
  add_plan_form(*app, options->form);
  add_plan_options(*app, options->plan);
  app->footer(
      "Options outside of the quotes are those of both sides; a file brings the options that it "
      "was\n"
      "made with, and those that are given come over them.\n"
      "Examples:\n"
      "  baltoro plan compare k2 k3 --hw 16xh200 -b 64\n"
      "  baltoro plan compare k3 'k3 --dtype attn=int8'\n"
      "  baltoro plan compare 'k3 --hw 16xh200' 'k3 --hw 8xb300' --ctx 128k\n"
      "  baltoro plan k3 --hw 16xh200 --json > before.json\n"
      "  baltoro plan compare before.json 'before.json --layout tp=8,pp=2'");
  return {app, [options] { return run_compare_command(*options); }};
}

}  // namespace baltoro::cli
