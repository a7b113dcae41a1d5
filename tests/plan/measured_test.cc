// A calibrated machine in the planner: which file is taken, and that a part takes what its kernel
// does.
#include "plan/measured.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>

#include "core/error.h"
#include "plan/scenarios.h"
#include "plan/totals.h"

namespace baltoro::plan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const CalibrationKey kNow{"A Processor", "cpu/avx2", 2, "bf16", "0.1.0 abcdef GCC 12"};

// 1 TFLOP/s, 100 GB/s in 32 MB and 10 GB/s beyond, 1 us a launch.
Calibration calibration_of(const std::vector<std::string>& kernels) {
  Calibration calibration;
  calibration.key = kNow;
  calibration.date = "2026-11-30T00:00:00Z";
  calibration.bandwidth = Curve({{32e6, 1e11}, {64e6, 1e10}});
  calibration.flops_per_second = 1e12;
  calibration.dispatch_seconds = 1e-6;
  for (const std::string& name : kernels) {
    KernelModel& model = calibration.kernels[name];
    model.flops_per_flop = Curve(2);
    model.launches = 1;
    model.overlap = 0.5;
  }
  return calibration;
}

const std::vector<std::string> kKernels = {
    "embed",          "linear bf16",      "linear bf16 row",  "kda_mix generated",
    "kda_mix prompt", "mla_decode",       "mla_prefill",      "mix_norm",
    "route",          "expert_mlp mxfp4", "glu_mlp bf16 row", "glu_mlp bf16"};

Scenario measured_scenario() {
  const auto calibration = std::make_shared<const Calibration>(calibration_of(kKernels));
  Scenario scenario = scenario_of("k3", "h200", "tp=1");
  scenario.hardware = measured_hardware(*calibration, 64e9);
  scenario.efficiency = measured_efficiency(calibration);
  return scenario;
}

TEST(PlanMeasured, AMachineIsWhatTheCalibrationFound) {
  const Hardware machine = measured_hardware(calibration_of(kKernels), 64e9);
  EXPECT_EQ(machine.title, "A Processor");
  EXPECT_EQ(machine.memory_bytes.value, 64e9);
  EXPECT_EQ(machine.memory_bandwidth.value, 1e10);
  EXPECT_EQ(machine.bf16_flops.value, 1e12);
  EXPECT_EQ(machine.bf16_flops.provenance, Provenance::kMeasured);
  EXPECT_THAT(machine.bf16_flops.source, HasSubstr("cpu/avx2, 2 threads"));
}

TEST(PlanMeasured, APartTakesWhatItsKernelTakes) {
  const Scenario scenario = measured_scenario();
  const Step step = compute_step(scenario, decode_step(1, 8192));
  const PartWork& work = step.work_of(Part::kLatent);
  const PartTime& time = step.time_of(Part::kLatent);
  const double arithmetic = 2 * work.flops / 1e12;
  const double memory = work.bytes() / 1e10;  // K3's weights lie in no cache
  EXPECT_NEAR(time.compute, arithmetic, 1e-9 * arithmetic);
  EXPECT_NEAR(time.memory, memory, 1e-9 * memory);
  // Two products a layer, 92 layers.
  const double seconds =
      std::max(arithmetic, memory) + 0.5 * std::min(arithmetic, memory) + 2 * 92 * 1e-6;
  EXPECT_NEAR(time.seconds(), seconds, 1e-9 * seconds);
  EXPECT_EQ(time.bound, Bound::kMemory);
  EXPECT_EQ(step.time_of(Part::kLaunch).seconds(), 0);
  EXPECT_STREQ(scenario.efficiency.result_name(), "prediction");
}

TEST(PlanMeasured, ASmallStepIsReadFromACache) {
  Scenario scenario = measured_scenario();
  const auto bandwidth = [&] {
    const Step step = compute_step(scenario, decode_step(1, 8));
    return step.work_of(Part::kLatent).bytes() / step.time_of(Part::kLatent).memory;
  };
  EXPECT_NEAR(bandwidth(), 1e10, 1e-3 * 1e10);
  apply_overrides(scenario.model, "d=256,H=2,L=4,m=64,l=64,N=8,K=2,V=1024,r_q=64,ff=128");
  EXPECT_NEAR(bandwidth(), 1e11, 1e-3 * 1e11);
}

TEST(PlanMeasured, MoreRowsRunTheKernelOfManyAndPromptsThoseOfPrompts) {
  Scenario scenario = measured_scenario();
  Calibration only = calibration_of(kKernels);
  // (The head of a prompt has one row: that of its last token.)
  for (const char* kernel : {"glu_mlp bf16 row", "mla_decode", "kda_mix generated"}) {
    only.kernels.erase(kernel);
  }
  scenario.efficiency.calibration = std::make_shared<const Calibration>(only);
  EXPECT_NO_THROW(compute_step(scenario, prefill_step(1, 64, 0)));
  EXPECT_THROW(compute_step(scenario, decode_step(1, 8)), Error);
}

std::string message_of(const std::function<void()>& function) {
  try {
    function();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return error.what();
  }
  return "no error";
}

TEST(PlanMeasured, AFormatWithoutKernelsIsNamedWithTheNearest) {
  Scenario scenario = measured_scenario();
  apply_formats(scenario.model.formats, "shared=fp8");
  EXPECT_THAT(message_of([&] { compute_step(scenario, decode_step(1, 8)); }),
              AllOf(HasSubstr("no fp8 kernels, which shared would run"), HasSubstr("mxint8")));
}

TEST(PlanMeasured, ARangeIsWhereTheTimedPointsLie) {
  Calibration calibration = calibration_of({"embed"});
  for (int i = 0; i < 40; ++i) {
    const KernelSample sample = {"e", {0, 1e4, 1, 1, 0}, 1e6, {1e10, 1e12, 1e-6}, 2e-6};
    calibration.points.push_back({"embed", "embed", sample});
  }
  calibration.points[0].sample.seconds = 1;  // far out, and one of forty
  for (int i = 1; i < 5; ++i) calibration.points[i].sample.seconds = 3e-6;
  const Efficiency efficiency =
      measured_efficiency(std::make_shared<const Calibration>(calibration));
  EXPECT_NEAR(efficiency.residuals.first, 1, 1e-9);
  EXPECT_NEAR(efficiency.residuals.second, 1.5, 1e-9);
}

class NewestCalibration : public ::testing::Test {
 protected:
  NewestCalibration()
      : dir_(std::filesystem::temp_directory_path() / ("measured-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(dir_);
  }
  ~NewestCalibration() override { std::filesystem::remove_all(dir_); }

  void save(const char* name, const char* date, int threads, const char* build) const {
    Calibration calibration = calibration_of({"embed"});
    calibration.date = date;
    calibration.key.threads = threads;
    calibration.key.build = build;
    save_calibration(calibration, dir_ / name);
  }
  std::string message() const {
    return message_of([&] { newest_calibration(dir_, kNow); });
  }

  std::filesystem::path dir_;
};

TEST_F(NewestCalibration, IsTheNewestOfThisMachineAndBuild) {
  save("calibration-a.json", "2026-11-01T00:00:00Z", 1, kNow.build.c_str());
  save("calibration-b.json", "2026-11-02T00:00:00Z", 8, kNow.build.c_str());
  save("calibration-c.json", "2026-11-03T00:00:00Z", 2, "another");
  EXPECT_EQ(newest_calibration(dir_, kNow).key.threads, 8);
}

TEST_F(NewestCalibration, NoneAndStaleOnesSayWhatToType) {
  EXPECT_THAT(message(), AllOf(HasSubstr("no calibration of this machine"),
                               HasSubstr("`baltoro plan calibrate`")));
  save("calibration-c.json", "2026-11-03T00:00:00Z", 2, "another");
  EXPECT_THAT(message(), AllOf(HasSubstr("stale: its build is another"),
                               HasSubstr("`baltoro plan calibrate --threads 2 --isa avx2`")));
}

}  // namespace
}  // namespace baltoro::plan
