// `baltoro bench-ops`: the speed of single ops in the shapes of the released models.
#include "measure/bench_ops.h"

#include <fmt/format.h>

#include <memory>
#include <set>

#include "cli/arguments.h"
#include "cli/bench_options.h"
#include "cli/bench_report.h"
#include "cli/command.h"
#include "core/error.h"

namespace baltoro::cli {
namespace {

struct BenchOpsCommand {
  BenchOptions common;
  std::string filter;
  std::string device = "cpu";
  bool deterministic = false;
  std::string isa;
  std::string activations = "bf16";
  bool list = false;
};

std::string full_name(const OpCase& op_case) { return op_case.op + " " + op_case.name; }

std::vector<OpCase> chosen_cases(const std::string& filter) {
  std::vector<OpCase> cases;
  std::set<std::string> ops;
  for (OpCase& op_case : bench_cases()) {
    ops.insert(op_case.op);
    if (full_name(op_case).find(filter) != std::string::npos) cases.push_back(std::move(op_case));
  }
  if (cases.empty()) {
    fail(ErrorCode::kUsage,
         "no case's name holds \"{}\"; the ops are {}, and --list prints the cases", filter,
         fmt::join(ops, ", "));
  }
  return cases;
}

int run_device(const BenchOpsCommand& command) {
  if (command.list) {
    for (const std::string& name : device_case_names(command.filter)) fmt::print("{}\n", name);
    return kOk;
  }
  DeviceBench bench;
  bench.engine.device = command.device;
  bench.engine.deterministic = command.deterministic;
  bench.engine.activations = command.activations == "f32" ? Activations::kF32 : Activations::kBf16;
  bench.filter = command.filter;
  BenchReport report("ops", command.common, describe_machine());
  report.detail("activations", command.activations);
  report.detail("deterministic", command.deterministic);
  bench_device(
      bench,
      [&](const Backend& device, Roof& roof) {
        report.note("device", std::string(device.name()));
        report.roofs(roof, 1);
      },
      [&](const BenchRow& row) { report.row(row); });
  return report.finish();
}

int run(const BenchOpsCommand& command) {
  if (command.device != "cpu") return run_device(command);
  const std::vector<OpCase> cases = chosen_cases(command.filter);
  if (command.list) {
    for (const OpCase& op_case : cases) fmt::print("{}\n", full_name(op_case));
    return kOk;
  }
  OpBench bench;
  bench.activations = command.activations == "f32" ? Activations::kF32 : Activations::kBf16;
  if (!command.isa.empty()) bench.isa = command.isa;
  bench.threads = command.common.threads;
  bench.repeat = command.common.repeat;

  BenchReport report("ops", command.common, describe_machine());
  report.detail("activations", command.activations);
  Roof roof(cpu_probes(bench.isa));
  const auto on_backend = [&](const Backend& backend) {
    report.detail("backend", backend.name());
    report.roofs(roof, backend.num_threads());
  };
  bench_ops(
      cases, bench, on_backend, [&](const BenchRow& row) { report.row(row); }, roof);
  return report.finish();
}

}  // namespace

Command add_bench_ops(CLI::App& root) {
  auto command = std::make_shared<BenchOpsCommand>();
  CLI::App* app =
      root.add_subcommand("bench-ops", "Measure single ops in the shapes of the released models");
  app->add_option("FILTER", command->filter, "Only cases whose name holds this text");
  app->add_option("--device", command->device,
                  "cpu, cuda or cuda:N; a GPU runs a suite of full shapes")
      ->capture_default_str();
  app->add_flag("--deterministic", command->deterministic,
                "On a GPU: kernels whose rows do not depend on their batch");
  add_isa(*app, command->isa);
  add_activations(*app, command->activations);
  app->add_flag("--list", command->list, "Print the names of the cases and measure nothing");
  add_bench_options(*app, command->common);
  app->footer(
      "Examples:\n"
      "  baltoro bench-ops --list\n"
      "  baltoro bench-ops kda_mix -t 1,2\n"
      "  baltoro bench-ops \"mxfp4 M=1 \" --json mxfp4.json\n"
      "  baltoro bench-ops linear --isa avx512\n"
      "  baltoro bench-ops --device cuda KDA --json h200-kda.json\n"
      "Each case is first compared with the reference backend, output by output; where that "
      "fails,\n"
      "nothing is timed. Bytes and FLOPs are those of the op's cost function. See\n"
      "docs/measuring.md; scripts/compare_bench.py compares two files.");
  return {app, [command] { return run(*command); }};
}

}  // namespace baltoro::cli
