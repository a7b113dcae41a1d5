#include "cli/plan_page.h"

#include <fmt/format.h>

#include "cli/chart.h"
#include "cli/plan_figures.h"
#include "core/error.h"
#include "plan/inventory.h"

namespace baltoro::cli {
namespace {

using plan::with_prefix;

Table hardware_table(const plan::Hardware& hardware) {
  Table table;
  table.columns = {{"number", "number", "", "", "", 1},
                   {"value", "value", "", "", "", 1},
                   {"class", "class", "", "", "", 1},
                   {"source", "source", "", "", "", 1}};
  for (const plan::HardwareKey& key : plan::hardware_keys()) {
    const plan::Quantity& quantity = hardware.*key.field;
    if (!quantity) continue;
    table.rows.push_back({key.name, with_prefix(quantity.value) + key.unit,
                          plan::provenance_name(quantity.provenance), quantity.source});
  }
  return table;
}

Table knees_table(const std::vector<plan::Knee>& knees) {
  Table table;
  table.columns = {{"value", "from", "", "", "", 1},
                   {"unit", "", "", "", "", 1},
                   {"meaning", "what", "", "", "", 1},
                   {"formula", "formula", "", "", "", 1}};
  for (const plan::Knee& knee : knees) {
    const bool always = knee.value == 0;
    table.rows.push_back({always ? Cell("any") : Cell(knee.value), always ? "" : knee.unit,
                          knee.meaning, knee.formula});
  }
  return table;
}

Table advice_table(const std::vector<plan::Recommendation>& list) {
  Table table;
  table.columns = {{"change", "change", "", "", "", 1},
                   {"how", "how", "", "", "", 1},
                   {"seconds", "step", "ms", "s", "", 1e3},
                   {"share", "of it", "%", "", "", 100},
                   {"batch", "largest batch", "sequences", "", "", 1}};
  for (const plan::Recommendation& item : list) {
    table.rows.push_back(
        {item.change, item.how, item.seconds, item.seconds / item.before, item.batch});
  }
  return table;
}

std::vector<std::pair<std::string, std::string>> facts_of(const PlanResult& r) {
  const plan::PlanModel& model = r.scenario.model;
  const plan::Totals& t = *r.totals;
  std::vector<std::pair<std::string, std::string>> facts = {
      {"parameters", with_prefix(plan::total_parameters(model))},
      {"active", with_prefix(plan::active_parameters(model))},
      {"weights", with_prefix(plan::total_bytes(model)) + "B"},
      {"fits", r.capacity.fits ? "yes" : "NO"},
      {"largest batch", short_number(static_cast<double>(r.capacity.max_batch))},
      {"step", with_prefix(t.step.seconds()) + "s"},
      {"TTFT", with_prefix(t.ttft) + "s"}};
  if (t.tpot > 0) facts.emplace_back("tok/s a user", short_number(t.tokens_per_user));
  facts.emplace_back("tok/s a device", short_number(t.tokens_per_device));
  facts.emplace_back("MBU", fmt::format("{:.1f} %", 100 * t.byte_utilization));
  return facts;
}

std::string user_map(const plan::Scenario& scenario) {
  const plan::Sweep sweep = plan::run_sweep(
      scenario, 0, {plan::parse_axis("batch=1..256:log"), plan::parse_axis("ctx=4k..1M:log")});
  const HeatMap map = heat_map(sweep, "user");
  return heat_chart({fmt::format("{}: tok/s of a user", scenario.model.name), "context", "batch"},
                    map);
}

}  // namespace

const plan::Step& step_of(const PlanResult& result) {
  if (!result.totals) {
    fail(ErrorCode::kUsage,
         "experts=host has no step by component; the rule is text or --json, or experts=gpu");
  }
  return result.totals->step;
}

Table components_table(const PlanResult& result) {
  const plan::Step& step = step_of(result);
  const std::string rates = plan::efficiency_name(result.scenario.efficiency.kind);
  Table table;
  table.columns = {{"component", "component", "", "", "", 1},
                   {"flops", "FLOPs", "G", "FLOP", "formula", 1e-9},
                   {"weights", "weights", "GB", "B", "formula", 1e-9},
                   {"activations", "activations", "GB", "B", "formula", 1e-9},
                   {"cache", "cache", "GB", "B", "formula", 1e-9},
                   {"network", "network", "MB", "B", "formula", 1e-6},
                   {"intensity", "FLOP/B", "", "FLOP/B", "formula", 1},
                   {"seconds", "time", "ms", "s", rates, 1e3},
                   {"share", "share", "%", "", rates, 100},
                   {"bound", "bound", "", "", "", 1}};
  const auto add = [&](const char* name, const plan::PartWork& w, double seconds,
                       const char* bound) {
    table.rows.push_back({name, w.flops, w.weight_bytes, w.activation_bytes, w.cache_bytes,
                          w.network.bytes(), w.bytes() > 0 ? w.flops / w.bytes() : 0.0, seconds,
                          seconds / step.seconds(), bound});
  };
  for (const plan::Part part : plan::kAllParts) {
    const plan::PartTime& time = step.time_of(part);
    if (step.work_of(part).bytes() == 0 && time.seconds() == 0) continue;
    add(plan::part_name(part), step.work_of(part), time.seconds(), plan::bound_name(time.bound));
  }
  add("total", step.total(), step.seconds(), "");
  return table;
}

Page plan_page(const PlanResult& result) {
  const plan::Scenario& s = result.scenario;
  const plan::Step& step = step_of(result);
  Page page;
  page.title = fmt::format("{} on {} x {}", s.model.name, s.layout.devices(), s.hardware.title);
  page.subtitle =
      fmt::format("{}, layout {}, batch {}, context {}; times are {} {} ({} rates)",
                  plan::phase_name(s.workload.phase), plan::describe(s.layout), s.workload.batch,
                  s.workload.context, s.efficiency.result_name()[0] == 'e' ? "an" : "a",
                  s.efficiency.result_name(), plan::efficiency_name(s.efficiency.kind));
  page.facts = facts_of(result);
  PageSection figures{"Where the time goes", "", {}, {step_chart(s), roofline_chart(s, step)}};
  if (s.workload.phase != plan::Phase::kPrefill) figures.charts.push_back(user_map(s));
  page.sections.push_back(std::move(figures));
  page.sections.push_back({s.layout.pp > 1 ? "One step, all stages" : "One step of one device",
                           stage_note(s),
                           {components_table(result)},
                           {}});
  page.sections.push_back(
      {"Knees", "Where one limit gives way to another.", {knees_table(result.knees)}, {}});
  if (!result.recommendations.empty()) {
    page.sections.push_back({"What would help", "", {advice_table(result.recommendations)}, {}});
  }
  page.sections.push_back({"The machine", "", {hardware_table(s.hardware)}, {}});
  return page;
}

}  // namespace baltoro::cli
