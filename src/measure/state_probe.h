// Two states of the machine, now: on a virtual one they change from one moment to the next, when the
// host moves the processors or gives their siblings to others, and no counter tells.
#pragma once

#include <functional>

#include "measure/rotating_memory.h"
#include "ops/backend.h"

namespace baltoro {

class StateProbe {
 public:
  explicit StateProbe(Backend& backend);

  // Of a bf16 product of 64 rows in the cache. Some ten milliseconds.
  double flops_per_second();
  // Of one linear op of a few thousand FLOPs for each thread. Some milliseconds.
  double dispatch_seconds();

 private:
  RotatingMemory memory_;
  std::function<void()> product_, nothing_;
};

}  // namespace baltoro
