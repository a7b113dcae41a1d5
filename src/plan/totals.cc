#include "plan/totals.h"

namespace baltoro::plan {

Totals compute_totals(const Scenario& scenario) {
  const Workload& workload = scenario.workload;
  Totals totals;
  totals.step = compute_step(scenario, table_step(workload));
  totals.ttft = prefill_seconds(scenario);
  const double seconds = totals.step.seconds();
  const auto batch = static_cast<double>(workload.batch);
  if (workload.phase == Phase::kPrefill) {
    totals.tokens = static_cast<double>(totals.step.shape.tokens());
  } else {
    const double each = workload.phase == Phase::kVerify ? workload.accepted : 1;
    totals.tokens = batch * each;
    totals.tpot = seconds / each;
    totals.tokens_per_user = 1 / totals.tpot;
    totals.request = totals.ttft + static_cast<double>(workload.output - 1) * totals.tpot;
  }
  const auto devices = static_cast<double>(scenario.layout.devices());
  totals.tokens_per_device = totals.tokens / seconds / devices;
  const PartWork work = totals.step.total();
  totals.flop_utilization =
      work.flops * totals.step.duty / seconds / scenario.hardware.bf16_flops.value;
  totals.byte_utilization =
      work.bytes() * totals.step.duty / seconds / scenario.hardware.memory_bandwidth.value;
  return totals;
}

}  // namespace baltoro::plan
