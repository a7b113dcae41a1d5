#include "cli/plan_figures.h"

#include <fmt/format.h>

#include "cli/chart.h"

namespace baltoro::cli {
namespace {

std::string scenario_name(const plan::Scenario& s) {
  return fmt::format("{} on {} x {} ({})", s.model.name, s.layout.devices(), s.hardware.title,
                     plan::describe(s.layout));
}

// The peaks that its products can use.
std::vector<Roof> roofs_of(const plan::Hardware& hardware) {
  std::vector<Roof> roofs;
  const auto add = [&](const char* name, const plan::Quantity& peak) {
    if (peak)
      roofs.push_back({fmt::format("{} {:.0f} TFLOP/s", name, peak.value / 1e12), peak.value});
  };
  add("BF16", hardware.bf16_flops);
  add("FP8", hardware.fp8_flops);
  return roofs;
}

}  // namespace

std::string step_chart(const plan::Sweep& sweep, const std::string& title) {
  std::vector<std::string> labels;
  std::vector<Series> series;
  for (const plan::Part part : plan::kAllParts) {
    series.push_back({plan::part_name(part), plan::index_of(part), {}});
  }
  for (const plan::SweepPoint& point : sweep.points) {
    if (!point.evaluated) continue;
    labels.push_back(point.labels.front() + (point.evaluated->capacity.fits ? "" : "*"));
    for (const plan::Part part : plan::kAllParts) {
      const double seconds = point.evaluated->totals.step.time_of(part).seconds();
      series[plan::index_of(part)].values.push_back(1e3 * seconds);
    }
  }
  return stacked_bars(
      {title, sweep.axes.front().name + " (* does not fit into memory)", "ms a step"}, labels,
      series);
}

std::string step_chart(const plan::Scenario& scenario) {
  const bool prefill = scenario.workload.phase == plan::Phase::kPrefill;
  const plan::Sweep sweep = plan::run_sweep(
      scenario, 0, {plan::parse_axis(prefill ? "isl=128..16k:log" : "batch=1..256:log")});
  return step_chart(sweep, fmt::format("{}: {}", scenario_name(scenario),
                                       plan::phase_name(scenario.workload.phase)));
}

std::string roofline_chart(const plan::Scenario& scenario, const plan::Step& step) {
  std::vector<RooflinePoint> points;
  for (const plan::Part part : plan::kAllParts) {
    const plan::PartWork& work = step.work_of(part);
    const double seconds = step.time_of(part).seconds();
    const double share = seconds / step.seconds();
    if (work.flops <= 0 || work.bytes() <= 0 || share < 5e-3) continue;
    points.push_back({plan::part_name(part), plan::index_of(part), work.flops / work.bytes(),
                      work.flops / seconds, share});
  }
  const plan::Workload& w = scenario.workload;
  return roofline({fmt::format("{}: {}, batch {}, context {}", scenario_name(scenario),
                               plan::phase_name(w.phase), w.batch, w.context),
                   "FLOP a byte of HBM", "FLOP/s of one device, messages in the time"},
                  scenario.hardware.memory_bandwidth.value, roofs_of(scenario.hardware), points);
}

}  // namespace baltoro::cli
