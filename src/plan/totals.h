// What a user and an owner of the machine see of a step.
#pragma once

#include "plan/step.h"

namespace baltoro::plan {

struct Totals {
  Step step;                   // of the workload's phase
  double tokens = 0;           // that the step yields: generated, or read in prefill
  double ttft = 0;             // s, of workload.prompts prompts and nothing else
  double tpot = 0;             // s a generated token; 0 in prefill
  double tokens_per_user = 0;  // 1/s
  double tokens_per_device = 0;
  double request = 0;           // s: prompt, then workload.output tokens
  double flop_utilization = 0;  // MFU: ideal FLOPs over the BF16 peak
  double byte_utilization = 0;  // MBU
};

Totals compute_totals(const Scenario& scenario);

}  // namespace baltoro::plan
