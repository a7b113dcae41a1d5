// Single ops in the full shapes of Kimi K3, with memory of their own on a device: what a benchmark
// of a GPU times. Inputs rotate over more than the device's cache.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "measure/bench_row.h"
#include "ops/backend.h"
#include "ops/batch.h"
#include "ops/cost.h"

namespace baltoro {

// One case, ready to run on the backend that prepared it, which must outlive it.
struct SuiteRun {
  std::shared_ptr<void> memory;       // of everything below
  std::function<void(int set)> call;  // the op on one of `num_sets` sets of inputs
  int num_sets = 1;
  BatchView batch;        // of the op, or one generated row where it knows no batch
  bool recorded = false;  // decoding: a recorded pass is timed, as sessions run it
  Cost cost;
};

struct SuiteCase {
  std::string op;    // as in Backend, "kda_mix"; decides which parity cases are its gate
  std::string name;  // "E1 experts MXFP4 B=32"
  std::function<SuiteRun(Backend&)> prepare;
};

// Identifiers as in docs/cuda.md.
std::vector<SuiteCase> device_suite();

// The median time of a call over `samples` samples of a few milliseconds each. `roof` knows the
// device (measure/device_probes.h).
BenchRow time_suite_case(const SuiteCase& suite_case, Backend& backend, Roof& roof, int samples);

// What is wrong with an op on the backend over the shared cases, small and in the released shapes;
// empty where all agree with the reference backend.
std::string check_op(const std::string& op, Backend& reference, Backend& candidate);

}  // namespace baltoro
