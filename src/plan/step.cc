#include "plan/step.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "plan/arithmetic.h"
#include "plan/measured.h"

namespace baltoro::plan {
namespace {

double part_flops(const Scenario& scenario, Part part) {
  switch (part) {
    case Part::kKdaState:
    case Part::kAttnCore:
    case Part::kMix:
      return scenario.hardware.bf16_flops.value;
    default:
      return mma_path(scenario.hardware, part_format(scenario.model.formats, part)).flops;
  }
}

Bound bound_of(const PartTime& time) {
  const double kernel = std::max({time.compute, time.memory, time.scan});
  const double exposed = time.network - time.hidden;
  if (kernel + time.fixed + exposed <= 0) return Bound::kNone;
  if (time.fixed > std::max(kernel, exposed)) return Bound::kLatency;
  if (exposed > kernel) return Bound::kNetwork;
  if (kernel == time.scan) return Bound::kScan;
  return kernel == time.compute ? Bound::kCompute : Bound::kMemory;
}

// Of kernels alone, by shares of the machine's peaks.
PartTime rated_time(const Scenario& scenario, Part part, const PartWork& work) {
  const Efficiency& efficiency = scenario.efficiency;
  const PartRates& rates = efficiency.parts[index_of(part)];
  PartTime time;
  const double flops = efficiency.executed_flops ? work.executed_flops : work.flops;
  if (flops > 0) {
    time.compute =
        flops * work.load_skew / (part_flops(scenario, part) * rates.flops.at(work.rows));
  }
  const double bytes = work.weight_bytes * work.weight_skew +
                       work.activation_bytes * work.load_skew + work.cache_bytes;
  if (bytes > 0) {
    time.memory = bytes / (scenario.hardware.memory_bandwidth.value *
                           rates.bandwidth.at(bytes / std::max(1.0, work.calls)));
  }
  time.scan = work.scan_seconds;
  time.fixed = work.calls * rates.fixed_seconds;
  return time;
}

PartTime part_time(const Scenario& scenario, const StepShape& microbatch, Part part,
                   const PartWork& work, double step_bytes) {
  const Efficiency& efficiency = scenario.efficiency;
  PartTime time = efficiency.calibration
                      ? measured_part_time(scenario, microbatch, part, work, step_bytes)
                      : rated_time(scenario, part, work);
  const LinkRates links = link_rates(scenario.hardware, efficiency);
  Traffic traffic = work.network;
  traffic.inside *= work.load_skew;
  traffic.outside *= work.load_skew;
  time.network = traffic_seconds(traffic, links, scenario.hardware);
  return time;
}

void fill_times(const Scenario& scenario, const StepShape& microbatch, Step& step) {
  const double bytes = step.total().bytes();
  for (const Part part : kAllParts) {
    step.time[index_of(part)] =
        part_time(scenario, microbatch, part, step.work[index_of(part)], bytes);
  }
  if (scenario.efficiency.latencies) {
    step.time[index_of(Part::kLaunch)].fixed =
        real(scenario.model.config.num_layers) * scenario.hardware.layer_seconds.value;
  }
}

// Takes `seconds` of network time out of the parts that have any, each in proportion.
void hide(Step& step, double seconds) {
  const double all = step.network_seconds();
  if (all <= 0) return;
  for (PartTime& time : step.time) time.hidden += seconds * (time.network - time.hidden) / all;
}

void apply_overlap(const Overlap& overlap, Step& step) {
  PartTime& routed = step.time[index_of(Part::kRouted)];
  switch (overlap.kind) {
    case Overlap::Kind::kNone:
      break;
    case Overlap::Kind::kShared:
      routed.hidden = std::min(routed.network, step.time_of(Part::kShared).kernel() +
                                                   step.time_of(Part::kLatent).kernel());
      break;
    case Overlap::Kind::kFused:
      routed.hidden = std::min(routed.network, routed.kernel());
      break;
    case Overlap::Kind::kTwoBatch:
      if (step.halved) hide(step, std::min(step.kernel_seconds(), step.network_seconds()));
      break;
    case Overlap::Kind::kFraction:
      hide(step, overlap.fraction * std::min(step.kernel_seconds(), step.network_seconds()));
      break;
  }
}

// The first half of a step that is cut in two; nothing where it is one row.
bool halve(StepShape& shape) {
  if (shape.sequences + shape.prompts > 1) {
    shape.sequences = (shape.sequences + 1) / 2;
    shape.prompts = (shape.prompts + 1) / 2;
    return true;
  }
  if (shape.prompt_tokens < 2) return false;
  shape.prompt_tokens = (shape.prompt_tokens + 1) / 2;
  return true;
}

StepWork twice(StepWork work) {
  for (PartWork& part : work) {
    for (double PartWork::*field :
         {&PartWork::calls, &PartWork::flops, &PartWork::executed_flops, &PartWork::weight_bytes,
          &PartWork::activation_bytes, &PartWork::cache_bytes, &PartWork::scan_seconds}) {
      part.*field *= 2;
    }
    part.network = part.network * 2;
  }
  return work;
}

}  // namespace

const char* bound_name(Bound bound) {
  constexpr std::array kNames = {"-", "compute", "HBM", "net", "scan", "latency"};
  return kNames[static_cast<std::size_t>(bound)];
}

void check_scenario(const Scenario& scenario) {
  check_model(scenario.model);
  check_layout(scenario.layout, scenario.model);
  check_workload(scenario.workload);
  if (scenario.workload.routing.kind != Routing::Kind::kUniform && scenario.model.num_moe() == 0) {
    fail(ErrorCode::kUsage, "--routing {}: {} has no routed experts; the rule is uniform",
         scenario.workload.routing.source, scenario.model.name);
  }
}

double PartTime::kernel() const { return std::max({compute, memory, scan}) + fixed; }

PartWork Step::total() const {
  PartWork sum;
  for (const PartWork& part : work) {
    sum.flops += part.flops;
    sum.executed_flops += part.executed_flops;
    sum.weight_bytes += part.weight_bytes;
    sum.activation_bytes += part.activation_bytes;
    sum.cache_bytes += part.cache_bytes;
    sum.network += part.network;
  }
  return sum;
}

double Step::seconds() const {
  double sum = 0;
  for (const PartTime& part : time) sum += part.seconds();
  return sum;
}

double Step::kernel_seconds() const {
  double sum = 0;
  for (const PartTime& part : time) sum += part.kernel();
  return sum;
}

double Step::network_seconds() const {
  double sum = 0;
  for (const PartTime& part : time) sum += part.network - part.hidden;
  return sum;
}

Microbatch microbatch_of(const StepShape& shape, const Layout& layout) {
  const std::int64_t all = shape.sequences + shape.prompts;
  Microbatch result{shape, std::min(layout.pp, std::max<std::int64_t>(all, 1))};
  const std::int64_t count = result.count;
  result.shape.sequences = ceil_div(shape.sequences, count);
  result.shape.prompts = ceil_div(shape.prompts, count);
  // Fewer prompts than microbatches: each takes its share of their rows.
  if (shape.prompts > 0 && shape.prompts < count) {
    result.shape.prompt_tokens = ceil_div(shape.prompts * shape.prompt_tokens, count);
  }
  return result;
}

Step compute_step(const Scenario& scenario, const StepShape& shape) {
  const Microbatch microbatch = microbatch_of(shape, scenario.layout);
  Step step;
  step.shape = shape;
  step.microbatches = microbatch.count;
  step.duty = real(microbatch.count) / real(scenario.layout.pp);
  StepShape half = microbatch.shape;
  step.halved = scenario.workload.overlap.kind == Overlap::Kind::kTwoBatch && halve(half);
  step.work =
      step.halved ? twice(step_work(scenario, half)) : step_work(scenario, microbatch.shape);
  fill_times(scenario, microbatch.shape, step);
  apply_overlap(scenario.workload.overlap, step);
  for (PartTime& time : step.time) time.bound = bound_of(time);
  return step;
}

double prefill_seconds(const Scenario& scenario) {
  const Workload& workload = scenario.workload;
  const std::int64_t prompt = workload.prompt_tokens();
  const std::int64_t chunk = workload.chunk_tokens();
  double seconds = 0;
  double last = 0;
  for (std::int64_t start = workload.cached; start < prompt; start += chunk) {
    const std::int64_t rows = std::min(chunk, prompt - start);
    const Step step = compute_step(scenario, prefill_step(workload.prompts, rows, start));
    last = step.seconds();
    seconds += last * real(step.microbatches);
  }
  // With pp stages a microbatch enters when the one before has left the first stage.
  const double stages = real(scenario.layout.pp);
  return seconds / stages + last * (stages - 1) / stages;
}

}  // namespace baltoro::plan
