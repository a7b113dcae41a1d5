#include "measure/bench_ops.h"

#include <chrono>
#include <map>
#include <memory>

#include "core/error.h"
#include "cpu/backend.h"
#include "engine/make_backend.h"
#include "measure/device_probes.h"
#include "measure/device_suite.h"
#include "ops/parity/compare.h"
#include "ops/reference/reference_backend.h"

namespace baltoro {
namespace {

// What an op multiplies: these are f32 inside in both activation types (docs/numerics.md).
Activations products_of(const OpCase& op_case, const Backend& backend) {
  const bool f32 = op_case.op == "kda_mix" || op_case.op == "mix_norm" || op_case.op == "route";
  return f32 ? Activations::kF32 : backend.activations();
}

}  // namespace

BenchRow bench_op(const OpCase& op_case, Backend& reference, Backend& candidate, Roof& roof,
                  const RepeatOptions& options) {
  BenchRow row;
  row.name = op_case.op + " " + op_case.name;
  row.threads = candidate.num_threads();
  row.fault = check_parity(op_case, reference, candidate);
  if (!row.fault.empty()) return row;

  PreparedOp op = op_case.prepare(candidate);
  row.work = {op.cost().flops, op.cost().bytes(), op.cost().updated_bytes};
  const Activations products = products_of(op_case, candidate);
  row.floor = roof.floor(row.threads, row.work, products);
  const auto run = [&] {
    const auto start = std::chrono::steady_clock::now();
    op.run();
    candidate.synchronize();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    return seconds.count();
  };
  row.time(run, options, roof.floor_now(row.threads, row.work, products, row.floor.bound));
  return row;
}

std::vector<std::string> device_case_names(const std::string& filter) {
  std::vector<std::string> names;
  for (const SuiteCase& one : device_suite()) {
    if (one.name.find(filter) != std::string::npos) names.push_back(one.name);
  }
  return names;
}

std::string check_device_ops(const EngineOptions& options) {
  const std::unique_ptr<Backend> device = make_backend(options);
  const std::unique_ptr<Backend> reference = make_reference_backend(options.activations);
  std::string faults;
  for (const OpCase& op_case : op_cases()) faults += check_parity(op_case, *reference, *device);
  return faults;
}

void bench_device(const DeviceBench& bench,
                  const std::function<void(const Backend&, Roof&)>& on_device,
                  const std::function<void(const BenchRow&)>& on_row) {
  std::vector<SuiteCase> cases = device_suite();
  std::erase_if(cases, [&](const SuiteCase& one) {
    return one.name.find(bench.filter) == std::string::npos;
  });
  if (cases.empty()) {
    fail(ErrorCode::kUsage, "no case's name holds \"{}\"; --list prints the cases", bench.filter);
  }
  const std::unique_ptr<Backend> device = make_backend(bench.engine);
  const std::unique_ptr<Backend> reference = make_reference_backend(bench.engine.activations);
  Roof roof(device_probes(*device));
  on_device(*device, roof);
  std::map<std::string, std::string> faults;
  for (const SuiteCase& one : cases) {
    if (!faults.contains(one.op)) faults[one.op] = check_op(one.op, *reference, *device);
    const std::string& fault = faults[one.op];
    on_row(fault.empty() ? time_suite_case(one, *device, roof, bench.samples)
                         : BenchRow{.name = one.name, .fault = fault});
  }
}

void bench_ops(const std::vector<OpCase>& cases, const OpBench& bench,
               const std::function<void(const Backend&)>& on_backend,
               const std::function<void(const BenchRow&)>& on_row, Roof& roof) {
  const std::unique_ptr<Backend> reference = make_reference_backend(bench.activations);
  std::vector<std::unique_ptr<Backend>> candidates;
  for (const int threads : bench.threads) {
    candidates.push_back(make_cpu_backend(
        {.activations = bench.activations, .num_threads = threads, .isa = bench.isa}));
    on_backend(*candidates.back());
  }
  for (const OpCase& op_case : cases) {
    for (const std::unique_ptr<Backend>& candidate : candidates) {
      on_row(bench_op(op_case, *reference, *candidate, roof, bench.repeat));
    }
  }
}

}  // namespace baltoro
