// `plan calibrate` and `plan verify` as a user meets them: what they write, refuse and say. Never how
// fast anything is, so that a busy machine passes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/binary.h"

namespace baltoro {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Outcome;
using testing::run_baltoro;

const std::string kModel = testing::fixture("k3").string();

// The three points of one group, which take a second or a few; the file stays for all tests.
class CliCalibrate : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    dir_ = std::filesystem::path(::testing::TempDir()) / ("calibrate-" + std::to_string(getpid()));
    std::filesystem::create_directories(dir_);
    measured_ = calibrate("embed", file());
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(dir_); }

  static std::string file() { return (dir_ / "c.json").string(); }
  static Outcome calibrate(const std::string& group, const std::string& out) {
    return run_baltoro({"plan", "calibrate", group, "--threads", "1", "-r", "1", "--allow-noise",
                        "--json", "-o", out});
  }
  static Outcome verify(const std::string& calibration, const std::vector<std::string>& more = {},
                        const char* threads = "1") {
    std::vector<std::string> arguments{"plan",     "verify", kModel,          "--threads", threads,
                                       "-r",       "1",      "--allow-noise", "--decode",  "2x3",
                                       "--prompt", "1x5x64", "--calibration", calibration};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_baltoro(arguments);
  }
  static nlohmann::json document() { return nlohmann::json::parse(testing::read_file(file())); }
  // The file with a change.
  static std::string changed(const nlohmann::json& calibration) {
    const std::filesystem::path path = dir_ / "changed.json";
    testing::write_file(path, calibration.dump());
    return path.string();
  }

  static std::filesystem::path dir_;
  static Outcome measured_;
};
std::filesystem::path CliCalibrate::dir_;
Outcome CliCalibrate::measured_;

TEST_F(CliCalibrate, WritesWhatItMeasured) {
  const auto report = nlohmann::json::parse(measured_.out);
  EXPECT_EQ(report["file"], file());
  EXPECT_EQ(report["threads"], 1);
  // On a machine that never stays the same a point has no result, and the status says so.
  EXPECT_EQ(measured_.status, report["dropped_points"].empty() ? 0 : 1) << measured_.err;
  const nlohmann::json written = document();
  EXPECT_EQ(written["key"]["build"], report["build"]);
  EXPECT_EQ(written["points"].size() + report["dropped_points"].size(), 3u);
  for (const nlohmann::json& point : written["points"]) {
    EXPECT_EQ(point["group"], "embed");
    EXPECT_GT(point["seconds"], 0.0);
    EXPECT_GT(point["bandwidth"], 0.0);
  }
}

TEST_F(CliCalibrate, AStaleFileIsRefused) {
  nlohmann::json calibration = document();
  calibration["key"]["build"] = "0.0.1 abcdef GCC 1";
  const Outcome build = verify(changed(calibration));
  EXPECT_EQ(build.status, 2);
  EXPECT_THAT(build.err, AllOf(HasSubstr("stale: its build is 0.0.1 abcdef GCC 1, here it is "),
                               HasSubstr("baltoro plan calibrate --threads 1")));
  calibration = document();
  calibration["key"]["machine"] = "Another Processor";
  EXPECT_THAT(verify(changed(calibration)).err, HasSubstr("its machine is Another Processor"));
  EXPECT_THAT(verify(file(), {}, "2").err, HasSubstr("its number of threads is 1, here it is 2"));

  // Nor is it measured further.
  testing::write_file(file() + ".stale", calibration.dump());
  const Outcome group = calibrate("route", file() + ".stale");
  EXPECT_EQ(group.status, 2);
  EXPECT_THAT(group.err, HasSubstr("stale"));
}

TEST_F(CliCalibrate, WrongWordsAreRefusedBeforeAnythingIsMeasured) {
  const Outcome group = run_baltoro({"plan", "calibrate", "kda_mx"});
  EXPECT_EQ(group.status, 2);
  EXPECT_THAT(group.err, HasSubstr("kda_mx: no such group, did you mean kda_mix?; known: stream"));
  const Outcome both = run_baltoro({"plan", "calibrate", "embed", "--resume"});
  EXPECT_EQ(both.status, 2);
  EXPECT_THAT(both.err, HasSubstr("--resume"));
  const std::filesystem::path folder = dir_ / "none";
  const Outcome nowhere = run_baltoro({"plan", "calibrate", "-o", (folder / "c.json").string()});
  EXPECT_EQ(nowhere.status, 1);
  EXPECT_THAT(nowhere.err, AllOf(HasSubstr("c.json: cannot be written"), HasSubstr("No such")));
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST_F(CliCalibrate, VerifyNamesWhatIsMissing) {
  const Outcome nothing = verify((dir_ / "none.json").string());
  EXPECT_EQ(nothing.status, 2);
  EXPECT_THAT(nothing.err, HasSubstr("no calibration of this machine"));
  // The file has one group.
  const Outcome kernel = verify(file());
  EXPECT_EQ(kernel.status, 2);
  EXPECT_THAT(kernel.err, AllOf(HasSubstr("has no kernel"), HasSubstr("--resume")));
  const Outcome preset = run_baltoro({"plan", "verify", "k3"});
  EXPECT_EQ(preset.status, 3);
  EXPECT_THAT(preset.err, HasSubstr("k3"));
}

TEST_F(CliCalibrate, VerifyRefusesWrongSteps) {
  const auto error_of = [](const std::vector<std::string>& steps) {
    const Outcome outcome = verify(file(), steps);
    EXPECT_EQ(outcome.status, 2);
    return outcome.err;
  };
  EXPECT_THAT(error_of({"--decode", "4y256"}), HasSubstr("such as 4x256"));
  EXPECT_THAT(error_of({"--decode", "4x256x1"}), HasSubstr("such as 4x256"));
  EXPECT_THAT(error_of({"--decode", "0x256"}), HasSubstr("0"));
  EXPECT_THAT(error_of({"--prompt", "1x192"}), HasSubstr("such as 1x192x768"));
  EXPECT_THAT(error_of({"--prompt", "1x0x64"}), HasSubstr("at least one token"));
  EXPECT_THAT(error_of({"--prompt", "9x64x0"}), HasSubstr("one pass takes at most 512"));
}

// A calibration of this machine by which every op takes a second: no machine is within the bounds.
TEST_F(CliCalibrate, TheReportOfVerifyHasItsVerdict) {
  nlohmann::json calibration = document();
  const nlohmann::json one = nlohmann::json::array({{1, 1}});
  for (const char* name : {"embed", "mix_norm", "route", "linear bf16", "linear bf16 row",
                           "glu_mlp bf16", "glu_mlp bf16 row", "expert_mlp mxfp4", "kda_mix prompt",
                           "kda_mix generated", "mla_prefill", "mla_decode"}) {
    calibration["kernels"][name] = {
        {"flops_per_flop_over_rows", one},
        {"flops_per_inner_product", 0},
        {"flops_per_weight_row", 0},
        {"bytes_per_byte_over_run", one},
        {"overlap", 1},
        {"launches", 1e6},
        {"error", {{"median", 0}, {"p90", 0}, {"worst", 0}, {"points", 1}}}};
  }
  const Outcome text = verify(changed(calibration));
  EXPECT_EQ(text.status, 1) << text.err;
  EXPECT_THAT(text.out,
              AllOf(HasSubstr("\ndecode 2 x 1 after 3 "), HasSubstr("\nprompt 1 x 5 after 64 ")));
  EXPECT_THAT(text.out,
              AnyOf(HasSubstr("\nBEYOND THE BOUNDS: over "), HasSubstr("\nno step was measured")));
  EXPECT_THAT(text.out, Not(HasSubstr("within the bounds")));

  const Outcome json = verify(changed(calibration), {"--json"});
  EXPECT_EQ(json.status, 1) << json.err;
  const auto report = nlohmann::json::parse(json.out);
  EXPECT_EQ(report["passed"], false);
  ASSERT_EQ(report["steps"].size(), 2u);
  for (const nlohmann::json& step : report["steps"]) {
    if (step["status"] != "ok") continue;
    EXPECT_GT(step["error"], 10.0);
    double predicted = 0;
    for (const nlohmann::json& part : step["components"]) {
      predicted += part["predicted_seconds"].get<double>();
    }
    EXPECT_NEAR(predicted, step["predicted_seconds"].get<double>(), 1e-6 * predicted);
  }
}

}  // namespace
}  // namespace baltoro
