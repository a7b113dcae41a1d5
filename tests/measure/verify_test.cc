// Predictions against steps: the calls of a step are those of the engine, a report beyond its bounds
// says so, and a machine that changes meanwhile gives no row.
#include "measure/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "baltoro/session.h"
#include "core/trace.h"
#include "cpu/backend.h"
#include "measure/state_probe.h"
#include "paths.h"

namespace baltoro {
namespace {

using ::testing::HasSubstr;

const std::filesystem::path kModel = test_data_dir() / "fixtures" / "k3";
const RepeatOptions kQuick{
    .repeats = 1, .max_dropped = 0, .allow_noise = true, .sample_seconds = 0};

class OpNames final : public TraceSink {
 public:
  OpNames() { set_trace_sink(this); }
  ~OpNames() override { set_trace_sink(nullptr); }
  void record(const TraceEvent& event) override { names.emplace_back(event.name, event.layer); }
  std::vector<std::pair<std::string, int>> names;
};

std::unique_ptr<Backend> backend() { return make_cpu_backend({.num_threads = 1, .isa = {}}); }

StepCalls calls_of(const PassShape& shape) {
  LoadOptions load;
  load.mode = LoadMode::kMap;
  return step_calls(load_model(kModel, load), *backend(), shape);
}

TEST(StepCalls, AreThoseOfTheEngine) {
  EngineOptions options;
  options.num_threads = 1;
  const std::shared_ptr<Engine> engine = Engine::load(kModel, options);
  Session session = engine->new_session();
  const std::vector<TokenId> prompt(70, 1);
  for (const Origin origin : {Origin::kPrompt, Origin::kGenerated}) {
    const bool is_prompt = origin == Origin::kPrompt;
    const StepCalls calls = calls_of({1, is_prompt ? 70 : 1, session.position(), origin});
    OpNames seen;
    if (is_prompt) {
      session.prefill(prompt);
    } else {
      session.decode(1);
    }
    ASSERT_EQ(calls.ops.size(), seen.names.size());
    for (std::size_t i = 0; i < calls.ops.size(); ++i) {
      EXPECT_EQ(calls.ops[i].op, seen.names[i].first) << i;
      EXPECT_EQ(calls.ops[i].layer, seen.names[i].second) << i;
    }
  }
}

TEST(StepCalls, TheWorkingSetGrowsWithTheExpertsThatABatchTouches) {
  const double one = calls_of({1, 1, 0, Origin::kGenerated}).working_set;
  const double two = calls_of({2, 1, 0, Origin::kGenerated}).working_set;
  EXPECT_GT(two, one);
  EXPECT_LT(two, 2 * one);  // the trunk is read once
}

// One row alone is mixed where it is; several are given to the threads.
TEST(StepCalls, LoopsOverTheThreads) {
  for (const int batch : {1, 2}) {
    for (const OpCall& call : calls_of({batch, 1, 0, Origin::kGenerated}).ops) {
      const std::map<std::string, double> loops{
          {"mix_norm", batch - 1}, {"linear", 1}, {"glu_mlp", 2}, {"expert_mlp", batch + 1}};
      const auto expected = loops.find(call.op);
      if (expected == loops.end()) continue;
      EXPECT_EQ(call.kernel.work.loops, expected->second) << call.op << ", " << batch << " rows";
    }
  }
}

// One constant machine: 1 GFLOP/s, 1 GB/s, an op a microsecond.
plan::Calibration round_calibration(const StepCalls& calls) {
  plan::Calibration calibration;
  calibration.bandwidth = plan::Curve(1e9);
  calibration.flops_per_second = 1e9;
  calibration.dispatch_seconds = 1e-6;
  for (const OpCall& call : calls.ops) {
    plan::KernelModel model;
    model.overlap = 0;
    model.launches = 1;
    model.p90_error = 0.1;
    calibration.kernels[call.kernel.kernel] = model;
  }
  return calibration;
}

TEST(PredictStep, IsTheSumOfItsOps) {
  const StepCalls calls = calls_of({2, 1, 64, Origin::kGenerated});
  double flops = 0, bytes = 0, loops = 0;
  for (const OpCall& call : calls.ops) {
    flops += call.kernel.work.flops;
    bytes += call.kernel.work.bytes;
    loops += call.kernel.work.bytes > 0 ? call.kernel.work.loops : 0;
  }
  const Prediction prediction = predict_step(calls, round_calibration(calls), {1e9, 1e9, 1e-6});
  const double seconds = 1e-9 * (flops + bytes) + 1e-6 * loops;
  EXPECT_NEAR(prediction.seconds, seconds, 1e-9 * seconds);
  EXPECT_LT(prediction.low, seconds);
  EXPECT_GT(prediction.low, 0.9 * seconds);  // errors of several kernels do not add up
  EXPECT_NEAR(prediction.high - seconds, seconds - prediction.low, 1e-9);
}

TEST(PredictStep, AKernelThatWasNotMeasuredIsAnError) {
  const StepCalls calls = calls_of({1, 1, 0, Origin::kGenerated});
  plan::Calibration calibration = round_calibration(calls);
  calibration.kernels.erase("route");
  EXPECT_THROW(predict_step(calls, calibration, {1e9, 1e9, 1e-6}), Error);
}

// Rows measured at 1 s, predicted with these errors.
std::vector<VerifyRow> rows_of(const std::vector<double>& errors) {
  std::vector<VerifyRow> rows;
  for (const double error : errors) {
    VerifyRow row;
    row.predicted.seconds = row.as_calibrated = 1 + error;
    row.samples.kept = {Sample{.seconds = 1, .runs = 1, .disturbance = std::nullopt}};
    row.measured = true;
    rows.push_back(row);
  }
  return rows;
}

TEST(Judge, WithinTheBounds) {
  const VerifyVerdict verdict = judge(rows_of({0.1, -0.14, 0.29}));
  EXPECT_TRUE(verdict.passed);
  EXPECT_NEAR(verdict.median_error, 0.14, 1e-12);
  EXPECT_NEAR(verdict.worst_error, 0.29, 1e-12);
  EXPECT_THAT(verdict.text, HasSubstr("within the bounds"));
}

TEST(Judge, BeyondThemTheReportSaysSo) {
  const VerifyVerdict median = judge(rows_of({0.16, -0.17, 0}));
  EXPECT_FALSE(median.passed);
  EXPECT_THAT(median.text, HasSubstr("BEYOND THE BOUNDS"));
  EXPECT_THAT(median.text, HasSubstr("16.0 % (at most 15 %)"));
  const VerifyVerdict worst = judge(rows_of({0, 0, -0.31}));
  EXPECT_FALSE(worst.passed);
  EXPECT_THAT(worst.text, HasSubstr("31.0 % (at most 30 %)"));
}

TEST(Judge, TooFewStepsAreNoProof) {
  std::vector<VerifyRow> rows = rows_of({0.01, 0.01, 0.01});
  rows.back().measured = false;
  const VerifyVerdict verdict = judge(rows);
  EXPECT_FALSE(verdict.passed);
  EXPECT_EQ(verdict.num_dropped, 1);
  EXPECT_THAT(verdict.text, HasSubstr("too few steps"));
  rows.assign(1, {});
  EXPECT_FALSE(judge(rows).passed);
}

class Verify : public ::testing::Test {
 protected:
  std::vector<VerifyRow> run(const MachineProbe& probe, int max_dropped = 0) {
    VerifyOptions options;
    options.dir = kModel;
    options.engine.num_threads = 1;
    options.shapes = {{2, 1, 3, Origin::kGenerated}, {1, 5, 64, Origin::kPrompt}};
    options.repeat = kQuick;
    options.repeat.max_dropped = max_dropped;
    plan::Calibration calibration = round_calibration(calls_of(options.shapes[0]));
    calibration.kernels.merge(round_calibration(calls_of(options.shapes[1])).kernels);
    std::vector<VerifyRow> rows;
    verify(options, calibration, *backend_, probe,
           [&](const VerifyRow& row) { rows.push_back(row); });
    return rows;
  }
  std::unique_ptr<Backend> backend_ = backend();
};

TEST_F(Verify, ComponentsAddUpToTheStep) {
  for (const VerifyRow& row : run([](double) { return plan::MachineState{1e9, 1e9, 1e-6}; })) {
    ASSERT_TRUE(row.measured);
    EXPECT_EQ(row.moved, 0);
    double predicted = 0;
    for (const ComponentTime& component : row.components) predicted += component.predicted;
    EXPECT_NEAR(predicted, row.predicted.seconds, 1e-9 * predicted);
    EXPECT_EQ(row.components.back().name, kBetweenOps);
    EXPECT_GT(row.measured_seconds(), 0);
  }
}

TEST_F(Verify, AMachineThatChangesMeanwhileGivesNoRow) {
  int calls = 0;
  const auto probe = [&](double) {
    return plan::MachineState{1e9, calls++ % 2 == 0 ? 1e9 : 0.5e9, 1e-6};
  };
  for (const VerifyRow& row : run(probe, 2)) {
    EXPECT_FALSE(row.measured);
    EXPECT_EQ(row.moved, 3);
  }
}

TEST_F(Verify, ASampleIsTakenAgainAfterAChange) {
  int calls = 0;
  // Changes during the first sample of each step: probes 0 and 1, 3 and 4.
  const auto probe = [&](double) {
    return plan::MachineState{1e9, calls++ % 3 == 0 ? 1e9 : 0.5e9, 1e-6};
  };
  for (const VerifyRow& row : run(probe, 1)) {
    EXPECT_TRUE(row.measured);
    EXPECT_EQ(row.moved, 1);
    EXPECT_EQ(row.samples.kept.size(), 1u);
  }
}

TEST(States, AMeanOfSeveral) {
  const plan::MachineState state = mean({{1, 2, 3}, {2, 4, 6}, {3, 6, 12}});
  EXPECT_EQ(state, (plan::MachineState{2, 4, 7}));
}

TEST_F(Verify, MoreRowsThanAPassTakesAreRefused) {
  VerifyOptions options;
  options.dir = kModel;
  options.shapes = {{9, 64, 0, Origin::kPrompt}};
  try {
    verify(options, {}, *backend_, {}, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("576 rows; one pass takes at most 512"));
  }
}

TEST(VerifyShapes, AreEnoughAndOfBothKinds) {
  const std::vector<PassShape> shapes = default_verify_shapes();
  EXPECT_GE(static_cast<int>(shapes.size()), kMinVerifyRows);
  std::set<Origin> origins;
  for (const PassShape& shape : shapes) origins.insert(shape.origin);
  EXPECT_EQ(origins.size(), 2u);
}

}  // namespace
}  // namespace baltoro
