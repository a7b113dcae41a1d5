// The shape of what the benchmarks write: scripts/compare_bench.py and people's own scripts read it.
#include "cli/bench_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "baltoro/error.h"
#include "cli/command.h"

namespace baltoro::cli {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::internal::CaptureStderr;
using ::testing::internal::CaptureStdout;
using ::testing::internal::GetCapturedStderr;
using ::testing::internal::GetCapturedStdout;

const MachineInfo kMachine = {.cpu = "Xeon",
                              .processors = 4,
                              .cores = 2,
                              .isas = {"scalar", "avx2"},
                              .caches = {{"L2", 1 << 20, 1}},
                              .memory_bytes = std::uint64_t{16} << 30,
                              .kernel = "Linux 6",
                              .compiler = "GCC 12",
                              .version = "0.1.0",
                              .commit = "abc",
                              .date = "2026-11-30T08:00:00Z",
                              .load = 0.25};

Sample sample(double seconds, double other_cores) {
  return {.seconds = seconds, .runs = 3, .disturbance = Disturbance{other_cores, 0.001}};
}

// 2 sequences of 10 tokens in 0.5 s; the roof allows 0.25.
BenchRow good_row() {
  BenchRow row{.name = "decode 10", .threads = 2, .batch = 2, .depth = 64, .tokens = 10};
  row.work = {.flops = 1e9, .bytes = 2e9};
  row.floor = {.seconds = 0.25, .bound = Bound::kMemory};
  row.samples.kept = {sample(0.4, 0), sample(0.5, 0.01), sample(0.8, 0)};
  row.samples.dropped = {sample(1.5, 0.9)};
  return row;
}

BenchRow given_up_row() {
  BenchRow row = good_row();
  row.samples.gave_up = true;
  return row;
}

BenchRow wrong_row() {
  BenchRow row{.name = "linear", .threads = 1};
  row.fault = "out0: max abs 1";
  return row;
}

// The same with the roof measured beside each sample.
BenchRow paired_row() {
  BenchRow row = good_row();
  row.samples.kept[0].floor_seconds = 0.36;
  row.samples.kept[1].floor_seconds = 0.3;
  row.samples.kept[2].floor_seconds = 0.56;
  return row;
}

// A report whose output is caught.
class BenchReportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    CaptureStdout();
    CaptureStderr();
  }
  void TearDown() override {
    if (caught_) return;
    GetCapturedStdout();
    GetCapturedStderr();
  }
  void catch_output() {
    out_ = GetCapturedStdout();
    err_ = GetCapturedStderr();
    caught_ = true;
  }

  std::string out_, err_;

 private:
  bool caught_ = false;
};

TEST_F(BenchReportTest, SharesOfPairedSamplesHaveARange) {
  BenchReport report("model", {}, kMachine);
  report.row(paired_row());
  EXPECT_EQ(report.finish(), kOk);
  catch_output();
  const ordered_json& row = report.document()["rows"][0];
  EXPECT_DOUBLE_EQ(row["share_of_roof"], 0.7);
  EXPECT_DOUBLE_EQ(row["share_range"]["min"], 0.6);
  EXPECT_DOUBLE_EQ(row["share_range"]["max"], 0.9);
  EXPECT_DOUBLE_EQ(row["samples"][1]["floor_seconds"], 0.3);
  EXPECT_THAT(out_, HasSubstr("70 % memory"));
  EXPECT_THAT(out_, HasSubstr("60..90"));
}

TEST_F(BenchReportTest, ARowHasItsSamplesAndWhatFollowsFromThem) {
  BenchReport report("model", {}, kMachine);
  report.row(good_row());
  EXPECT_EQ(report.finish(), kOk);
  catch_output();
  const ordered_json& row = report.document()["rows"][0];
  EXPECT_EQ(row["name"], "decode 10");
  EXPECT_EQ(row["status"], "ok");
  EXPECT_EQ(row["threads"], 2);
  EXPECT_EQ(row["batch"], 2);
  EXPECT_EQ(row["depth"], 64);
  EXPECT_EQ(row["seconds"]["median"], 0.5);
  EXPECT_EQ(row["seconds"]["min"], 0.4);
  EXPECT_EQ(row["seconds"]["max"], 0.8);
  EXPECT_EQ(row["tokens_per_second"], 40.0);
  EXPECT_EQ(row["share_of_roof"], 0.5);
  EXPECT_EQ(row["bound"], "memory");
  EXPECT_EQ(row["noisy"], false);
  EXPECT_EQ(row["samples"].size(), 3u);
  EXPECT_EQ(row["samples"][1]["other_cores"], 0.01);
  EXPECT_EQ(row["dropped"][0]["seconds"], 1.5);
  EXPECT_THAT(out_, HasSubstr("40.00"));
  EXPECT_THAT(out_, HasSubstr("25.00..50.00"));
  EXPECT_THAT(out_, HasSubstr("50 % memory"));
  EXPECT_THAT(out_, HasSubstr("1 dropped"));
  EXPECT_EQ(err_, "");
}

TEST_F(BenchReportTest, TheHeaderTellsTheMachineAndTheSettings) {
  BenchOptions options;
  options.repeat.repeats = 9;
  BenchReport report("ops", options, kMachine);
  report.note("gate", "agrees");
  report.detail("backend", "cpu/avx2");
  catch_output();
  const ordered_json& document = report.document();
  EXPECT_EQ(document["format"], "baltoro-bench-1");
  EXPECT_EQ(document["suite"], "ops");
  EXPECT_EQ(document["gate"], "agrees");
  EXPECT_EQ(document["settings"]["repeats"], 9);
  EXPECT_EQ(document["settings"]["backend"], "cpu/avx2");
  const ordered_json& machine = document["machine"];
  EXPECT_EQ(machine["cpu"], "Xeon");
  EXPECT_EQ(machine["cores"], 2);
  EXPECT_EQ(machine["caches"][0]["bytes"], 1 << 20);
  EXPECT_EQ(machine["commit"], "abc");
  EXPECT_EQ(machine["load"], 0.25);
  for (const char* key :
       {"processors", "isas", "memory_bytes", "kernel", "compiler", "version", "date"}) {
    EXPECT_TRUE(machine.contains(key)) << key;
  }
}

TEST_F(BenchReportTest, ADisturbedRowHasNoNumber) {
  BenchReport report("model", {}, kMachine);
  report.row(given_up_row());
  EXPECT_EQ(report.finish(), kFailed);
  catch_output();
  const ordered_json& row = report.document()["rows"][0];
  EXPECT_EQ(row["status"], "disturbed");
  EXPECT_FALSE(row.contains("seconds"));
  EXPECT_FALSE(row.contains("tokens_per_second"));
  EXPECT_THAT(out_, ::testing::Not(HasSubstr("decode 10")));
  EXPECT_THAT(err_, HasSubstr("decode 10, 2 threads: no result: dropped 1 of 4 samples: other "
                              "processes used up to 0.90 core (limit 0.06)"));
  EXPECT_THAT(err_, HasSubstr("--allow-noise"));
}

TEST_F(BenchReportTest, AWrongResultHasNoNumber) {
  BenchReport report("ops", {}, kMachine);
  report.row(wrong_row());
  report.row(good_row());
  EXPECT_EQ(report.finish(), kFailed);
  catch_output();
  const ordered_json& row = report.document()["rows"][0];
  EXPECT_EQ(row["status"], "wrong");
  EXPECT_FALSE(row.contains("seconds"));
  EXPECT_FALSE(row.contains("samples"));
  EXPECT_THAT(err_, HasSubstr("linear, 1 threads: not timed, for the result is wrong: out0"));
  EXPECT_EQ(report.document()["rows"][1]["status"], "ok");
}

TEST_F(BenchReportTest, NoiseIsMarked) {
  BenchReport report("model", {}, kMachine);
  BenchRow row = good_row();
  row.samples.kept.push_back(sample(0.6, 0.5));
  report.row(row);
  catch_output();
  EXPECT_EQ(report.document()["rows"][0]["noisy"], true);
  EXPECT_THAT(out_, HasSubstr("  noisy"));
}

TEST_F(BenchReportTest, WritesTheDocument) {
  const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / "bench.json";
  BenchOptions options;
  options.json = path.string();
  BenchReport report("model", options, kMachine);
  report.row(good_row());
  EXPECT_EQ(report.finish(), kOk);
  std::ifstream file(path);
  EXPECT_EQ(ordered_json::parse(file), report.document());
  std::filesystem::remove(path);

  options.json = (path.parent_path() / "missing" / "bench.json").string();
  EXPECT_THROW(BenchReport("model", options, kMachine), Error);
}

}  // namespace
}  // namespace baltoro::cli
