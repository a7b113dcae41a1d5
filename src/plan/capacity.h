// What fits: weights, caches and states of one device against its memory.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/step.h"

namespace baltoro::plan {

// One device of one pipeline stage.
struct StageMemory {
  std::int64_t layers = 0;
  double weights = 0;             // all of them
  double replicated = 0;          // of weights, what other devices of the stage hold too
  double cache_per_token = 0;     // of one sequence
  double state_per_sequence = 0;  // KDA state and convolution history
};

struct Capacity {
  std::vector<StageMemory> stages;
  double usable = 0;  // of a device's memory; the rest is for the runtime and the workspace
  // Activations of the largest step: Attention Residuals' rows and the widest product.
  double workspace = 0;
  double free = 0;  // after weights on the fullest device; negative where they do not fit
  std::int64_t max_batch = 0;    // sequences at the workload's context, all devices
  std::int64_t max_context = 0;  // tokens a sequence at the workload's batch
  bool fits = false;             // the workload's batch at its context

  const StageMemory& fullest() const;
};

// Share of a device's memory that weights, caches and states may take.
constexpr double kMemoryShare = 0.9;

// Of the fullest device:
//   free = 0.9 memory - weights - max(0, workspace - 0.1 memory)
//   sequences a group = floor(free / (state + context * cache))
Capacity compute_capacity(const Scenario& scenario);

// The fewest devices of this machine that hold the workload, split by heads and pipeline stages;
// nothing where no such split does.
struct FewestDevices {
  std::int64_t devices = 0;
  Layout layout;
};
std::optional<FewestDevices> fewest_devices(const Scenario& scenario);

}  // namespace baltoro::plan
