// The state of the machine, now: on a virtual one it changes from one moment to the next, when the
// host moves the processors or gives their siblings, caches and memory to others, and no counter
// tells.
#pragma once

#include <functional>
#include <vector>

#include "measure/rotating_memory.h"
#include "ops/backend.h"
#include "plan/kernel.h"

namespace baltoro {

class StateProbe {
 public:
  explicit StateProbe(Backend& backend);

  // P of a bf16 product of 64 rows in the cache, t0 of one linear op of a few thousand FLOPs for each
  // thread, B(x) of products of one row with matrices that go round in the working set, less t0 for each. Some fifty
  // milliseconds.
  plan::MachineState state(double working_set);

 private:
  double bandwidth(double working_set, double dispatch_seconds);

  RotatingMemory fixed_, stream_;
  std::function<void()> product_, nothing_;
};

// Two states with a quantity that is not the same.
bool states_differ(const plan::MachineState& a, const plan::MachineState& b);
// Of at least one.
plan::MachineState mean(const std::vector<plan::MachineState>& states);

}  // namespace baltoro
