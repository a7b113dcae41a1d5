// The benchmarks: no time for a wrong result, the rows that were asked for, and a floor that is the
// sum of its parts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "cpu/backend.h"
#include "measure/bench_gate.h"
#include "measure/bench_model.h"
#include "measure/bench_ops.h"
#include "measure/faulty_backend.h"
#include "measure/machine.h"
#include "measure/model_work.h"
#include "model/model_stats.h"
#include "ops/reference/reference_backend.h"
#include "paths.h"

namespace baltoro {
namespace {

using testing::FaultyBackend;
using ::testing::HasSubstr;

const std::filesystem::path kModel = test_data_dir() / "fixtures" / "k3";
const RepeatOptions kQuick{
    .repeats = 2, .max_dropped = 0, .allow_noise = true, .sample_seconds = 0};

EngineOptions cpu_options() {
  EngineOptions options;
  options.num_threads = 1;
  return options;
}

TEST(BenchGate, PassesOnTheFixtureAgainstTheReference) {
  const GateReport gate = check_model(kModel, cpu_options(), [](const CompareInput& input) {
    EXPECT_EQ(input.first.device, "cpu");
    EXPECT_EQ(input.second.device, "reference");
    EXPECT_GT(static_cast<std::int64_t>(input.ids.size()), kBlockTokens);
    EXPECT_GT(input.num_decode, 0);
    return compare(input);
  });
  EXPECT_TRUE(gate.passed) << gate.text;
  EXPECT_THAT(gate.text, HasSubstr("against reference"));
}

TEST(BenchGate, NamesTheFaultAndDoesNotPass) {
  const GateReport gate = check_model(kModel, cpu_options(), [](const CompareInput&) {
    CompareReport report;
    report.verdict = Verdict::kDiverged;
    OpDifference& fault = report.ops.first_exceeding.emplace();
    fault.op = "kda_mix";
    fault.layer = 2;
    fault.output = "state";
    return report;
  });
  EXPECT_FALSE(gate.passed);
  EXPECT_THAT(gate.text, HasSubstr("diverged at layer 2, op kda_mix (state)"));
}

TEST(BenchGate, ATieAndRoundingDifferencesPass) {
  for (const Verdict verdict : {Verdict::kIdentical, Verdict::kAgree, Verdict::kTie}) {
    EXPECT_TRUE(check_model(kModel, cpu_options(), [&](const CompareInput&) {
                  CompareReport report;
                  report.verdict = verdict;
                  return report;
                }).passed);
  }
}

TEST(BenchGate, TheReferenceIsNotCheckedAgainstItself) {
  EngineOptions options;
  options.device = "reference";
  EXPECT_THROW(check_model(kModel, options, {}), Error);
}

// A machine of 100 FLOP/s a thread, twice that for bf16, and 10 B/s, half of it beyond 4 MiB.
RoofProbes round_probes() {
  return {.peak =
              [](int threads, Activations products) {
                return (products == Activations::kBf16 ? 200.0 : 100.0) * threads;
              },
          .read_bandwidth = [](int, std::int64_t bytes) { return bytes > (4 << 20) ? 5.0 : 10.0; },
          .update_bandwidth = [](int, std::int64_t) { return 20.0; },
          .peak_now = {},
          .read_now = {},
          .update_now = {}};
}

TEST(Roof, TheLargerTimeIsTheFloor) {
  Roof roof(round_probes());
  const Floor memory = roof.floor(1, {.flops = 400, .bytes = 50}, Activations::kF32);
  EXPECT_EQ(memory.bound, Bound::kMemory);
  EXPECT_EQ(memory.seconds, 5);
  const Floor arithmetic = roof.floor(1, {.flops = 600, .bytes = 50}, Activations::kF32);
  EXPECT_EQ(arithmetic.bound, Bound::kArithmetic);
  EXPECT_EQ(arithmetic.seconds, 6);
  EXPECT_EQ(roof.floor(2, {.flops = 2000, .bytes = 0}, Activations::kBf16).seconds, 5);
}

TEST(Roof, WhatIsUpdatedInPlaceHasABandwidthOfItsOwn) {
  Roof roof(round_probes());
  const Work step{.flops = 0, .bytes = 50, .updated = 40};
  EXPECT_EQ(roof.floor(1, step, Activations::kF32).seconds, 10 / 10.0 + 40 / 20.0);
}

TEST(Roof, AProbeIsAsLargeAsTheWorkAndRunsOnce) {
  std::vector<std::int64_t> probed;
  Roof roof({.peak = [](int, Activations) { return 1.0; },
             .read_bandwidth =
                 [&](int, std::int64_t bytes) {
                   probed.push_back(bytes);
                   return 1.0;
                 },
             .update_bandwidth = {}});
  const auto mib = [](double n) { return n * (1 << 20); };
  roof.read_bandwidth(1, 5);         // the least probe
  roof.read_bandwidth(1, mib(1.2));  // shares it
  roof.read_bandwidth(1, mib(100));  // cut to 96
  roof.read_bandwidth(1, mib(96));   // shares it
  roof.read_bandwidth(1, mib(1e6));  // the largest probe
  EXPECT_EQ(probed, (std::vector<std::int64_t>{1 << 20, 96 << 20, 512 << 20}));
}

TEST(Roof, TheRoofOfThisMomentIsThatOfWhatBinds) {
  RoofProbes probes = round_probes();
  double state = 1;
  probes.peak_now = [&](int threads, Activations) { return 50 * state * threads; };
  probes.read_now = [&](int, std::int64_t) { return 5 * state; };
  probes.update_now = [&](int, std::int64_t) { return 10 * state; };
  const Roof roof(probes);
  const Work work{.flops = 400, .bytes = 50, .updated = 40};
  const auto memory = roof.floor_now(1, work, Activations::kF32, Bound::kMemory);
  EXPECT_EQ(memory(), 10 / 5.0 + 40 / 10.0);
  state = 2;
  EXPECT_EQ(memory(), 10 / 10.0 + 40 / 20.0);
  EXPECT_EQ(roof.floor_now(2, work, Activations::kF32, Bound::kArithmetic)(), 400 / 200.0);
  EXPECT_FALSE(Roof(round_probes()).floor_now(1, work, Activations::kF32, Bound::kMemory));
}

TEST(Roof, ThisMachineHasARoofOfThisMoment) {
  const Roof roof(cpu_probes({}));
  const Work work{.flops = 1e9, .bytes = 8e6, .updated = 0};
  EXPECT_GT(roof.floor_now(1, work, Activations::kF32, Bound::kMemory)(), 0);
  EXPECT_GT(roof.floor_now(1, work, Activations::kF32, Bound::kArithmetic)(), 0);
}

OpCase small_case() { return make_case(LinearCase{3, 64, {5}, WeightFormat::kBf16}); }

TEST(BenchOp, AWrongOpIsNotTimed) {
  const auto reference = make_reference_backend(Activations::kBf16);
  FaultyBackend faulty(make_cpu_backend({.num_threads = 1, .isa = {}}), "linear", -1);
  Roof roof(round_probes());
  const BenchRow row = bench_op(small_case(), *reference, faulty, roof, kQuick);
  EXPECT_FALSE(row.measured());
  EXPECT_TRUE(row.samples.kept.empty());
  EXPECT_THAT(row.fault, HasSubstr("linear bf16 M=3 K=64 N=5"));
}

TEST(BenchOp, ARightOneHasTimesAndItsCost) {
  const auto reference = make_reference_backend(Activations::kBf16);
  const auto cpu = make_cpu_backend({.num_threads = 1, .isa = {}});
  Roof roof(round_probes());
  const BenchRow row = bench_op(small_case(), *reference, *cpu, roof, kQuick);
  ASSERT_TRUE(row.measured());
  EXPECT_EQ(row.samples.kept.size(), 2u);
  EXPECT_EQ(row.work.flops, 2 * 3 * 64 * 5);
  EXPECT_EQ(row.work.bytes, 64 * 5 * 2 + 3 * (64 + 5) * 4);
  EXPECT_GT(row.share_of_roof(), 0);
}

TEST(BenchCases, NamesAreUnique) {
  std::set<std::string> names;
  for (const OpCase& op_case : bench_cases()) {
    EXPECT_TRUE(names.insert(op_case.op + " " + op_case.name).second) << op_case.name;
  }
}

TEST(BenchModel, MeasuresEveryCombination) {
  ModelBench bench;
  bench.dir = kModel;
  bench.threads = {1, 2};
  bench.prompts = {5};
  bench.generated = {2};
  bench.depths = {0, 64};
  bench.batches = {1, 3};
  bench.repeat = kQuick;
  std::vector<int> engines;
  std::set<std::string> rows;
  Roof roof(round_probes());
  bench_model(
      bench, [&](const EngineInfo& info) { engines.push_back(info.num_threads); },
      [&](const BenchRow& row) {
        EXPECT_TRUE(row.measured());
        EXPECT_GT(row.floor.seconds, 0);
        rows.insert(row.name + " " + std::to_string(row.threads) + " " + std::to_string(row.batch) +
                    " " + std::to_string(row.depth));
      },
      roof);
  EXPECT_EQ(engines, (std::vector<int>{1, 2}));
  EXPECT_EQ(rows.size(), 16u);
  EXPECT_TRUE(rows.contains("prefill 5 2 3 64"));
  EXPECT_TRUE(rows.contains("decode 2 1 1 0"));
}

class PassWork : public ::testing::Test {
 protected:
  Work work(const PassShape& shape) const { return pass_work(config_, info_, shape); }

  ModelConfig config_ = load_config(kModel);
  EngineInfo info_ = Engine::load(kModel, cpu_options())->info();
};

TEST_F(PassWork, OneTokenReadsItsWeightsItsStateAndItsPast) {
  const Work first = work({1, 1, 0, Origin::kGenerated});
  const Work later = work({1, 1, 100, Origin::kGenerated});
  EXPECT_DOUBLE_EQ(first.bytes,
                   static_cast<double>(info_.decode_weight_bytes + 2 * info_.state_bytes +
                                       info_.cache_bytes_per_token));
  EXPECT_DOUBLE_EQ(later.bytes - first.bytes,
                   100.0 * static_cast<double>(info_.cache_bytes_per_token));
  EXPECT_GT(later.flops, first.flops);
}

TEST_F(PassWork, FlopsAreTwoAParameterAndTheMixers) {
  const auto active = static_cast<double>(compute_model_stats(config_).active_parameters);
  const Work one = work({1, 1, 0, Origin::kGenerated});
  EXPECT_GT(one.flops, 2 * active);
  EXPECT_LT(one.flops, 3 * active);
}

TEST_F(PassWork, ABatchSharesTheWeightsAndPromptsSkipTheHead) {
  const Work one = work({1, 1, 0, Origin::kGenerated});
  const Work four = work({4, 1, 0, Origin::kGenerated});
  EXPECT_DOUBLE_EQ(four.flops, 4 * one.flops);
  EXPECT_LT(four.bytes, 4 * one.bytes);
  EXPECT_GT(four.bytes, one.bytes);
  const Work prompt = work({1, 4, 0, Origin::kPrompt});
  EXPECT_LT(prompt.flops, four.flops);
  // Many tokens touch every expert, and no weight is read twice.
  const double all = work({1, 10000, 0, Origin::kPrompt}).bytes;
  EXPECT_LT(all, static_cast<double>(info_.weight_bytes + 2 * info_.state_bytes +
                                     10000 * info_.cache_bytes_per_token));
}

TEST(Machine, IsDescribed) {
  const MachineInfo info = describe_machine();
  EXPECT_GE(info.processors, 1);
  EXPECT_EQ(info.isas, supported_isas());
  EXPECT_GT(info.memory_bytes, 0u);
  EXPECT_EQ(info.date.size(), std::string("2026-11-30T08:00:00Z").size());
  EXPECT_FALSE(info.commit.empty());
  EXPECT_FALSE(info.kernel.empty());
}

}  // namespace
}  // namespace baltoro
