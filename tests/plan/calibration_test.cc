// The file of a calibration: comes back as it was, and is refused where it is of something else.
#include "plan/calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "baltoro/error.h"

namespace baltoro::plan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const CalibrationKey kKey{"A Processor", "cpu/avx2", 2, "bf16", "0.1.0 abcdef GCC 12"};

class CalibrationFile : public ::testing::Test {
 protected:
  CalibrationFile()
      : dir_(std::filesystem::temp_directory_path() / ("calibration-" + std::to_string(getpid()))),
        file_(dir_ / "c.json") {
    std::filesystem::create_directories(dir_);
  }
  ~CalibrationFile() override { std::filesystem::remove_all(dir_); }

  std::string message_of(const CalibrationKey& now) const {
    try {
      load_calibration(file_, now);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      return error.what();
    }
    return "no error";
  }

  std::filesystem::path dir_, file_;
};

Calibration small_calibration() {
  Calibration calibration;
  calibration.key = kKey;
  calibration.date = "2026-11-30T00:00:00Z";
  for (const double set : {64e6, 4e6}) {
    const double seconds = set > 32e6 ? 2e-4 : 1e-4;
    calibration.points.push_back(
        {kStreamGroup,
         "linear bf16",
         {"s", {2e6, 2e6, 1, 1024, 2048}, set, {1e10, 3e11, 1e-6}, seconds}});
  }
  for (const double rows : {1.0, 16.0}) {
    calibration.points.push_back(
        {"linear",
         "linear bf16",
         {"l", {rows * 2e6, 2e6, rows, 1024, 2048}, 4e6, {1e10, 3e11, 1e-6}, rows * 1e-4}});
  }
  calibration.points.push_back(
      {"embed", "embed", {"e", {0, 1e3, 1, 1, 0}, 4e6, {1e10, 2e11, 2e-6}, 1e-6}});
  calibration.fit();
  return calibration;
}

TEST_F(CalibrationFile, ComesBackAsItWas) {
  const Calibration written = small_calibration();
  save_calibration(written, file_);
  const Calibration read = load_calibration(file_, kKey);
  EXPECT_EQ(read.date, written.date);
  EXPECT_EQ(read.flops_per_second, written.flops_per_second);
  EXPECT_EQ(read.dispatch_seconds, written.dispatch_seconds);
  EXPECT_EQ(read.points, written.points);
  EXPECT_EQ(read.bandwidth, written.bandwidth);
  EXPECT_EQ(read.kernels, written.kernels);
}

TEST_F(CalibrationFile, AnythingElseIsStaleAndTheMessageSaysWhatToType) {
  save_calibration(small_calibration(), file_);
  CalibrationKey now = kKey;
  now.build = "0.1.0 123456 GCC 12";
  EXPECT_THAT(message_of(now),
              AllOf(HasSubstr("stale"), HasSubstr("build is 0.1.0 abcdef"), HasSubstr("123456"),
                    HasSubstr("`baltoro plan calibrate --threads 2 --isa avx2`")));
  now = kKey;
  now.threads = 4;
  EXPECT_THAT(message_of(now),
              AllOf(HasSubstr("threads is 2, here it is 4"), HasSubstr("calibrate --threads 4")));
  now = kKey;
  now.machine = "Another";
  EXPECT_THAT(message_of(now), HasSubstr("machine is A Processor, here it is Another"));
  now = kKey;
  now.activations = "f32";
  EXPECT_THAT(message_of(now), HasSubstr("--activations f32"));
  now = kKey;
  now.backend = "cuda:0/sm90";
  EXPECT_THAT(message_of(now), HasSubstr("--device cuda:0"));
}

TEST_F(CalibrationFile, NoFileAndAnotherFile) {
  EXPECT_THAT(message_of(kKey), AllOf(HasSubstr("no calibration"), HasSubstr("plan calibrate")));
  for (const char* text : {"", "{", "[1]", R"({"format": "baltoro calibration 0"})",
                           R"({"format": "baltoro calibration 1", "key": {}})"}) {
    std::ofstream(file_) << text;
    EXPECT_THAT(message_of(kKey), HasSubstr("not a calibration of this version")) << text;
  }
}

TEST(Calibration, TheStreamGivesTheBandwidthOverWorkingSets) {
  const Calibration calibration = small_calibration();
  EXPECT_DOUBLE_EQ(calibration.bandwidth.at(4e6), 2e6 / (1e-4 - 1e-6));  // less the dispatch
  EXPECT_DOUBLE_EQ(calibration.bandwidth.at(1e9), 2e6 / (2e-4 - 1e-6));
  EXPECT_DOUBLE_EQ(calibration.flops_per_second, 3e11);
  EXPECT_DOUBLE_EQ(calibration.dispatch_seconds, 1e-6);
  EXPECT_EQ(calibration.kernel("linear bf16").num_points, 4);
}

TEST(Calibration, AGroupIsReplacedAsAWhole) {
  Calibration calibration = small_calibration();
  calibration.replace_group("linear", {});
  EXPECT_FALSE(calibration.has_group("linear"));
  EXPECT_TRUE(calibration.has_group("embed"));
  EXPECT_EQ(calibration.points.size(), 3u);
}

TEST(Calibration, AKernelThatWasNotMeasuredIsNamed) {
  try {
    small_calibration().kernel("linear mxfp4");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("linear mxfp4"), HasSubstr("--resume")));
  }
}

TEST(CalibrationPath, OneForEachBackendThreadsAndType) {
  const std::string path = default_calibration_path(kKey).string();
  EXPECT_THAT(path, HasSubstr("baltoro/calibration-cpu-avx2-2-bf16.json"));
  CalibrationKey other = kKey;
  other.threads = 1;
  EXPECT_NE(default_calibration_path(other), path);
}

}  // namespace
}  // namespace baltoro::plan
