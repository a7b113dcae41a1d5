// `baltoro bench`: the speed of a model, against what the machine can do.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>

#include "cli/arguments.h"
#include "cli/bench_options.h"
#include "cli/bench_report.h"
#include "cli/command.h"
#include "cli/format.h"
#include "cli/model_options.h"
#include "core/error.h"
#include "measure/bench_gate.h"
#include "measure/bench_model.h"
#include "measure/bench_ops.h"
#include "measure/compare.h"
#include "measure/device_probes.h"
#include "measure/explain_step.h"

namespace baltoro::cli {
namespace {

struct BenchCommand {
  bool random_weights = false;
  bool explain = false;
  std::int64_t rows = EngineOptions().max_batch_rows;
  ModelOptions model;
  BenchOptions common;
  ModelBench bench;
};

// 0 stands for none.
void drop_zeros(std::vector<std::int64_t>& sizes) { std::erase(sizes, 0); }

std::string describe_model(const ModelOptions& options, const EngineInfo& info) {
  return fmt::format("{}, {}, {} activations: {} parameters, {} active; {} B a token", options.dir,
                     info.backend, options.activations,
                     with_commas(static_cast<std::uint64_t>(info.total_params)),
                     with_commas(static_cast<std::uint64_t>(info.active_params)),
                     with_commas(static_cast<std::uint64_t>(info.decode_weight_bytes)));
}

// What must hold before a number is printed. Memory of a device is not compared op by op while a
// model runs, and random weights have no right result: there the ops are compared by themselves.
std::string pass_gate(const ModelBench& bench) {
  if (bench.engine.device.starts_with("cuda")) {
    const std::string fault = check_device_ops(bench.engine);
    if (!fault.empty()) {
      fail(ErrorCode::kInternal, "nothing was timed, for an op is wrong: {}", fault);
    }
    return "every op agrees with the reference backend on the shared cases";
  }
  const GateReport gate = check_model(bench.dir, bench.engine,
                                      [](const CompareInput& input) { return compare(input); });
  if (!gate.passed) {
    fail(ErrorCode::kInternal, "nothing was timed, for the result is wrong: {}", gate.text);
  }
  return gate.text;
}

// Sessions that memory cannot hold would fill it first, for hours, and fail then.
void check_memory(const ModelBench& bench, const EngineInfo& info) {
  const auto largest = [](const std::vector<std::int64_t>& sizes) {
    return sizes.empty() ? 0 : std::ranges::max(sizes);
  };
  const std::int64_t depth = largest(bench.depths);
  const std::int64_t tokens = std::max(largest(bench.prompts), largest(bench.generated));
  const std::int64_t batch = largest(bench.batches);
  const auto check = [&](std::int64_t state, std::int64_t cache, std::uint64_t limit,
                         const char* option) {
    const double bytes =
        static_cast<double>(batch) *
        (static_cast<double>(state) +
         (static_cast<double>(depth) + static_cast<double>(tokens)) * static_cast<double>(cache));
    if (bytes <= static_cast<double>(limit)) return;
    fail(ErrorCode::kDoesNotFit,
         "--batch {}, --depth {} and {} tokens behind it take {} of cache and state, and the limit "
         "is {}; fewer of them, or a larger {}",
         batch, depth, tokens, human_bytes(static_cast<std::uint64_t>(std::min(bytes, 1e18))),
         human_bytes(limit), option);
  };
  const MemoryPlan& plan = info.memory;
  if (plan.device_limit == 0) {
    check(info.state_bytes, info.cache_bytes_per_token, plan.limit, "--memory");
    return;
  }
  check(info.state_bytes - info.host_state_bytes,
        info.cache_bytes_per_token - info.host_cache_bytes_per_token, plan.device_limit,
        "--device-memory");
  check(info.host_state_bytes, info.host_cache_bytes_per_token, plan.limit, "--memory");
}

// Where the time of decoding steps goes, in place of the rows.
void explain(const ModelBench& bench, Roof& roof, BenchReport& report) {
  std::vector<PassShape> shapes;
  for (const std::int64_t depth : bench.depths) {
    for (const std::int64_t batch : bench.batches) shapes.push_back({batch, 1, depth});
  }
  for (const int threads : bench.threads) {
    ExplainOptions options{bench.dir, bench.engine, shapes, bench.repeat, {}};
    options.engine.num_threads = threads;
    explain_steps(options, roof, [&](const StepExplanation& step) {
      report.roofs(roof, step.threads);
      report.explanation(step);
    });
  }
}

int run(const BenchCommand& command) {
  if (!command.random_weights) require_model_directory(command.model.dir, "bench");
  ModelBench bench = command.bench;
  bench.dir = command.model.dir;
  bench.engine = engine_options(command.model);
  bench.engine.random_weights = command.random_weights;
  bench.engine.max_batch_rows = command.rows;
  bench.threads = command.common.threads;
  bench.repeat = command.common.repeat;
  drop_zeros(bench.prompts);
  drop_zeros(bench.generated);
  if (bench.prompts.empty() && bench.generated.empty()) {
    fail(ErrorCode::kUsage, "--prompt and --generate are both 0: there is nothing to measure");
  }

  BenchReport report("model", command.common, describe_machine());
  report.note("gate", pass_gate(bench));
  report.detail("activations", command.model.activations);
  report.detail("load", command.model.load);
  Roof roof(probes_of(bench.engine));
  if (command.explain) {
    explain(bench, roof, report);
    return report.finish();
  }
  bool first = true;
  const auto on_engine = [&](const EngineInfo& info) {
    if (first) {
      check_memory(bench, info);
      report.note("model", describe_model(command.model, info));
      report.detail("backend", info.backend);
      report.detail("fingerprint", fmt::format("{:016x}", info.fingerprint));
    }
    first = false;
    report.roofs(roof, info.num_threads);
  };
  try {
    bench_model(
        bench, on_engine, [&](const BenchRow& row) { report.row(row); }, roof);
  } catch (const Error&) {
    // What was measured before is not lost, nor an older file to a refusal.
    if (!report.document()["rows"].empty()) report.finish();
    throw;
  }
  return report.finish();
}

}  // namespace

Command add_bench(CLI::App& root) {
  auto command = std::make_shared<BenchCommand>();
  CLI::App* app =
      root.add_subcommand("bench", "Measure the speed of a model against the machine's roofs");
  add_model_options(*app, command->model);
  app->remove_option(app->get_option("--threads"));  // here it is a list
  ModelBench& bench = command->bench;
  add_numbers(*app, "-p,--prompt", bench.prompts, "Tokens to read; 0 for none", {.min = 0});
  add_numbers(*app, "-n,--generate", bench.generated, "Tokens to generate; 0 for none", {.min = 0});
  add_numbers(*app, "-d,--depth", bench.depths,
              "Tokens already in the session; best a multiple of 64", {.min = 0});
  add_numbers(*app, "-b,--batch", bench.batches, "Sequences at once", {.min = 1, .max = 1024});
  app->add_flag(
      "--random-weights", command->random_weights,
      "On a GPU: MODEL is a config.json or its directory; weights are made on the device");
  app->add_flag("--explain", command->explain,
                "Instead: parts of a decoding step, each beside the least that it can take");
  add_number(*app, "--rows", command->rows, "Rows of one pass; a multiple of 64", {.min = 64});
  add_bench_options(*app, command->common);
  app->footer(
      "Examples:\n"
      "  baltoro bench models/story\n"
      "  baltoro bench models/story -p 512,2048 -n 128 -d 0,4096 -t 1,2\n"
      "  baltoro bench models/story -p 0 -n 64 -b 1,4,16 -r 9 --json decode.json\n"
      "  baltoro bench models/story --isa avx2 --json avx2.json\n"
      "  baltoro bench models/story --explain -d 4096 -b 1,16\n"
      "Before anything is timed, a short run is compared with the reference backend. The roof is "
      "the\n"
      "larger of two times: bytes at the read bandwidth and FLOPs at the arithmetic peak, both\n"
      "measured in the same run. Samples that other processes disturbed are dropped. See\n"
      "docs/measuring.md; scripts/compare_bench.py compares two files.");
  return {app, [command] { return run(*command); }};
}

}  // namespace baltoro::cli
