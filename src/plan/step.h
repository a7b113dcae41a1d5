// One forward pass: work and time of each part on one device.
#pragma once

#include <array>

#include "plan/efficiency.h"
#include "plan/hardware.h"
#include "plan/layout.h"
#include "plan/model.h"
#include "plan/network.h"
#include "plan/part.h"
#include "plan/workload.h"

namespace baltoro::plan {

// All that a result depends on.
struct Scenario {
  PlanModel model;
  Hardware hardware;
  Layout layout;
  Workload workload;
  Efficiency efficiency;
};
// Throws Error{kUsage}: check_model, check_layout and check_workload.
void check_scenario(const Scenario& scenario);

// What one device computes, moves and sends for one microbatch through all layers of the model.
// FLOPs and bytes of the ops come from their cost() functions, at this device's share.
struct PartWork {
  double calls = 0;           // layers, or mixes
  double rows = 0;            // that one weight matrix meets
  double flops = 0;           // ideal
  double executed_flops = 0;  // of the usual algorithm
  double weight_bytes = 0;
  double activation_bytes = 0;
  double cache_bytes = 0;  // MLA cache and KDA state
  Traffic network;
  // Slowest rank over the mean, of FLOPs and messages, and of weight bytes.
  double load_skew = 1;
  double weight_skew = 1;
  double scan_seconds = 0;

  double bytes() const { return weight_bytes + activation_bytes + cache_bytes; }
};
using StepWork = std::array<PartWork, kNumParts>;

// The sequences and prompts of one microbatch; `shape` is that of all devices. With pp stages there
// are up to pp microbatches on their way.
struct Microbatch {
  StepShape shape;
  std::int64_t count = 1;
};
Microbatch microbatch_of(const StepShape& shape, const Layout& layout);
StepWork step_work(const Scenario& scenario, const StepShape& microbatch);

enum class Bound : std::uint8_t { kNone, kCompute, kMemory, kNetwork, kScan, kLatency };
const char* bound_name(Bound bound);  // "HBM"

struct PartTime {
  double compute = 0;
  double memory = 0;
  double scan = 0;
  double fixed = 0;
  double network = 0;  // all of it
  double hidden = 0;   // of network, behind kernels
  Bound bound = Bound::kNone;

  double kernel() const;
  double seconds() const { return kernel() + network - hidden; }
};

struct Step {
  StepShape shape;
  std::int64_t microbatches = 1;
  // Microbatches over stages: the share of work_of_all that one device does in `seconds`.
  double duty = 1;
  bool halved = false;  // two-batch overlap: a step of one row has no halves
  StepWork work;
  std::array<PartTime, kNumParts> time;

  const PartWork& work_of(Part part) const { return work[index_of(part)]; }
  const PartTime& time_of(Part part) const { return time[index_of(part)]; }
  PartWork total() const;  // rows and skews are of no use there
  double seconds() const;
  double kernel_seconds() const;
  double network_seconds() const;  // not hidden
};

// A microbatch through all stages. Throws Error{kUsage} where the machine has no link that the
// layout needs.
Step compute_step(const Scenario& scenario, const StepShape& shape);

// Time to the first token of workload.prompts prompts: their chunks one after the other, the stages
// of a pipeline at the same time on different chunks.
double prefill_seconds(const Scenario& scenario);

}  // namespace baltoro::plan
