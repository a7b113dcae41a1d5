// Speed of single ops on the cases that the parity tests share.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "baltoro/engine.h"
#include "baltoro/types.h"
#include "measure/bench_row.h"
#include "ops/backend.h"
#include "ops/parity/cases.h"

namespace baltoro {

// Checks the case against the reference backend (ops/parity/compare.h: every output, guards, inputs)
// and times it where all agrees; else the row has a fault and no time. Both
// backends have the same Activations.
BenchRow bench_op(const OpCase& op_case, Backend& reference, Backend& candidate, Roof& roof,
                  const RepeatOptions& repeat);

struct OpBench {
  std::optional<std::string> isa;  // as in EngineOptions
  Activations activations = Activations::kBf16;
  std::vector<int> threads = {0};
  RepeatOptions repeat;
};

// The suite of a device (measure/device_suite.h), in full shapes: cases whose name holds `filter`.
// Each op is compared with the reference backend first; where that fails its rows have a fault.
// Throws Error{kUsage} where no name does, and as make_backend.
std::vector<std::string> device_case_names(const std::string& filter);

// Every op of the shared cases on the device of `options` against the reference backend; what is
// wrong, empty where all agree.
std::string check_device_ops(const EngineOptions& options);

struct DeviceBench {
  EngineOptions engine;  // device, activations, deterministic
  std::string filter;
  int samples = 50;
};
void bench_device(const DeviceBench& bench,
                  const std::function<void(const Backend&, Roof&)>& on_device,
                  const std::function<void(const BenchRow&)>& on_row);

// Every case on the CPU backend at every thread count, `on_row` as each is done. `on_backend` is
// called once for each thread count, first. Throws as make_cpu_backend.
void bench_ops(const std::vector<OpCase>& cases, const OpBench& bench,
               const std::function<void(const Backend&)>& on_backend,
               const std::function<void(const BenchRow&)>& on_row, Roof& roof);

}  // namespace baltoro
