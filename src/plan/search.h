// All layouts of a machine, the best of them, and why each of the others is not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/step.h"

namespace baltoro::plan {

// What a deployment has to keep; 0: nothing asked.
struct Limits {
  double tpot = 0;  // s
  double ttft = 0;
};

enum class Verdict : std::uint8_t {
  kBest,       // no other has less latency, more tokens and fewer devices at once
  kDominated,  // another has
  kTooSlow,    // beyond a limit
  kNoFit,      // does not hold the workload
};
const char* verdict_name(Verdict verdict);

struct Candidate {
  Layout layout;
  Verdict verdict = Verdict::kBest;
  // Of the workload's batch: TPOT, or TTFT in prefill.
  double latency = 0;
  double ttft = 0;
  // Tokens a second of all devices, of prefill at the workload, else at the largest batch that fits
  // and keeps TPOT.
  double throughput = 0;
  std::int64_t batch = 0;
  std::string reason;  // why it is not the best
};

struct LayoutSearch {
  std::int64_t tried = 0;         // layouts that the rules allow
  std::vector<Candidate> best;    // the Pareto set, shortest latency first
  std::vector<Candidate> rivals;  // of each other (tp, dp, pp, ep, attn) its best: by latency
};

// Layouts of `devices` devices and of each of its divisors. tp divides the heads; ep is 1, the
// devices of a stage, or those of a domain; dcp 1 or tp; every sp, attn and replicate. Layouts
// within 1 % of a kept one in all three are left out. Throws Error{kUsage} for experts on the host.
LayoutSearch search_layouts(const Scenario& scenario, std::int64_t devices, const Limits& limits);

}  // namespace baltoro::plan
