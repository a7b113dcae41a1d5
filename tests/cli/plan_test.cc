// `baltoro plan`: text that fits, JSON whose leaves say where they come from, statuses and errors.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cli/binary.h"
#include "plan/calibration.h"

namespace baltoro {
namespace {

using testing::has;
using testing::Outcome;
using testing::run_baltoro;

Outcome plan(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "plan");
  return run_baltoro(arguments);
}

TEST(CliPlan, TextFitsAHundredColumnsOfAscii) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"k3"},
           {"k2", "--hw", "16xh200", "--phase", "prefill", "--eff", "datasheet"},
           {"kimi-linear", "--hw", "h200", "-b", "32", "--phase", "mixed", "--chunk", "512"},
           {"k3", "--phase", "verify", "--spec", "k=7,accept=3.4"},
           {"k3", "--explain", "routed"},
           {"k3", "--hw", "rtx4090", "--dram", "128GB", "--nvme", "7GB"},
           {testing::fixture("k3").string(), "--hw", "epyc-9005"}}) {
    const Outcome outcome = plan(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    std::istringstream lines(outcome.out);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), 100u) << line;
      for (const char c : line) EXPECT_TRUE(c >= ' ' && c <= '~') << line;
    }
  }
}

TEST(CliPlan, DatasheetTimesAreABoundAndNoPrediction) {
  const Outcome sheet = plan({"k3", "--eff", "datasheet"});
  EXPECT_TRUE(has(sheet.out, "\nbound      step "));
  EXPECT_TRUE(has(sheet.out, "a bound, not a prediction"));
  EXPECT_TRUE(has(plan({"k3"}).out, "\nestimate   step "));
}

TEST(CliPlan, SixWhereItDoesNotFit) {
  const Outcome outcome = plan({"k3", "--hw", "8xh200"});
  EXPECT_EQ(outcome.status, 6);
  EXPECT_TRUE(has(outcome.out, "NO: the weights exceed it by 76.4 GB")) << outcome.out;
  EXPECT_TRUE(has(outcome.out, "16 in whole domains")) << outcome.out;
}

TEST(CliPlan, DesktopReadsItsExpertsFromStorage) {
  const Outcome outcome = plan({"k3", "--hw", "rtx4090", "--dram", "128GB", "--nvme", "7GB"});
  EXPECT_TRUE(has(outcome.out, "bound 0.28 tok/s, 0.27 with no expert in memory")) << outcome.out;
}

TEST(CliPlan, ReadsTheConfigurationsOfTheEngine) {
  const Outcome outcome = plan({testing::fixture("gqa").string(), "--hw", "h200"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(has(outcome.out, "attn-core"));
}

TEST(CliPlan, ExpertsOnTheHostAreABoundWithoutDeviceCapacity) {
  const nlohmann::json document = nlohmann::json::parse(
      plan({"k3", "--hw", "rtx4090", "--dram", "128GB", "--nvme", "7GB", "--json"}).out);
  EXPECT_EQ(document.at("result"), "bound");
  EXPECT_EQ(document.at("rates"), "datasheet");
  EXPECT_FALSE(document.contains("capacity"));
  EXPECT_NEAR(document.at("offload").at("tokens_per_second").at("value").get<double>(), 0.28,
              0.005);
}

TEST(CliPlan, WhatExceedsTheMemoryIsNamed) {
  EXPECT_TRUE(has(plan({"k3", "-b", "100M"}).out, "NO: the weights and workspace exceed it by"));
}

// Every object with a value says unit and provenance.
void check_leaves(const nlohmann::json& node, int& leaves) {
  if (!node.is_structured()) return;
  if (node.is_object() && node.contains("value")) {
    ++leaves;
    EXPECT_TRUE(node.contains("unit")) << node;
    EXPECT_TRUE(node.at("provenance").is_string() && node.at("provenance") != "") << node;
    return;
  }
  for (const auto& child : node) check_leaves(child, leaves);
}

TEST(CliPlan, JsonIsVersionedAndAddsUp) {
  const Outcome outcome = plan({"k3", "--json"});
  const nlohmann::json document = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(document.at("schema"), "baltoro.plan");
  EXPECT_EQ(document.at("version"), 1);
  EXPECT_EQ(document.at("result"), "estimate");
  int leaves = 0;
  check_leaves(document, leaves);
  EXPECT_GT(leaves, 150);
  double seconds = 0;
  for (const auto& [name, part] : document.at("step").at("components").items()) {
    seconds += part.at("seconds").at("value").get<double>();
  }
  EXPECT_NEAR(document.at("step").at("total").at("seconds").at("value").get<double>(), seconds,
              1e-12);
  EXPECT_NEAR(document.at("knees").at("state_batch").at("value").get<double>(), 124, 0.5);
}

TEST(CliPlan, ThreeForABadFile) {
  const std::filesystem::path dir = std::filesystem::temp_directory_path() / "plan_bad_files";
  std::filesystem::create_directories(dir);
  const std::string counts = (dir / "counts.txt").string();
  testing::write_file(counts, "1 two 3");
  const std::string machine = (dir / "machine.json").string();
  testing::write_file(machine, R"({"base": "h200", "memory_bandwidth": -5})");
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"k3", "--hw", machine},
           {"k3", "--hw", (dir / "none.json").string()},
           {"k3", "--routing", "hist:" + counts},
           {"k3", "--routing", "hist:" + (dir / "none.txt").string()}}) {
    EXPECT_EQ(plan(arguments).status, 3) << arguments.back();
  }
}

TEST(CliPlan, AnUnknownSizeOfAConfigurationIsAnError) {
  const std::filesystem::path dir = std::filesystem::temp_directory_path() / "plan_unknown_size";
  std::filesystem::create_directories(dir);
  nlohmann::json config =
      nlohmann::json::parse(std::ifstream(testing::fixture("k3") / "config.json"));
  config.at("text_config")["moe_intermediate_sizes"] = 64;
  testing::write_file((dir / "config.json").string(), config.dump());
  const Outcome outcome = plan({dir.string()});
  EXPECT_EQ(outcome.status, 3);
  EXPECT_TRUE(has(outcome.err,
                  "text_config.moe_intermediate_sizes = 64, did you mean "
                  "moe_intermediate_size?"))
      << outcome.err;
}

TEST(CliPlan, PrefillAloneHasNoTimeOfATokenAfterIt) {
  const auto totals = [](const char* phase) {
    return nlohmann::json::parse(plan({"k3", "--phase", phase, "--json"}).out).at("totals");
  };
  EXPECT_FALSE(totals("prefill").contains("tpot"));
  EXPECT_GT(totals("mixed").at("tpot").at("value"), 0);
}

TEST(CliPlan, TableOfPipelineStagesSaysSo) {
  EXPECT_TRUE(has(plan({"k3", "--hw", "16xh200", "--layout", "tp=8,pp=2"}).out, "\nall stages "));
  EXPECT_TRUE(has(plan({"k3"}).out, "\na device "));
  EXPECT_TRUE(has(plan({"k3", "--hw", "16xh200", "--layout", "tp=8,pp=2"}).out,
                  "slowest has 47 of the 93"));
  EXPECT_FALSE(has(plan({"k3"}).out, "\nstages "));
  EXPECT_TRUE(has(plan({"k3", "--hw", "16xh200", "--layout", "tp=8,pp=2", "--html"}).out,
                  "One step, all stages"));
}

TEST(CliPlan, AKneeThatIsAlwaysPassedSaysOfWhat) {
  const Outcome outcome = plan({"k3"});
  EXPECT_TRUE(has(outcome.out, "    any prompt: its serial scan takes less than half"))
      << outcome.out;
  EXPECT_FALSE(has(outcome.out, "any tokens"));
}

// A folder of calibrations of its own.
class CliPlanMeasured : public ::testing::Test {
 protected:
  CliPlanMeasured()
      : cache_(std::filesystem::temp_directory_path() /
               ("plan_cache_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(cache_ / "baltoro");
    setenv("XDG_CACHE_HOME", cache_.c_str(), 1);
  }
  ~CliPlanMeasured() override {
    unsetenv("XDG_CACHE_HOME");
    std::filesystem::remove_all(cache_);
  }

  // One whose kernels run at 1 TFLOP/s and 100 GB/s.
  void save(const plan::CalibrationKey& key) const {
    plan::Calibration calibration;
    calibration.key = key;
    calibration.date = "2026-11-30T00:00:00Z";
    calibration.bandwidth = plan::Curve(1e11);
    calibration.flops_per_second = 1e12;
    for (const char* name :
         {"embed", "linear bf16 row", "linear bf16", "kda_mix generated", "kda_mix prompt",
          "mla_decode", "mla_prefill", "mix_norm", "route", "expert_mlp mxfp4", "glu_mlp bf16 row",
          "glu_mlp bf16", "linear mxint8 row", "linear mxint8", "glu_mlp mxint8 row",
          "glu_mlp mxint8"}) {
      calibration.kernels[name].num_points = 1;
    }
    save_calibration(calibration, cache_ / "baltoro" / "calibration-x.json");
  }
  // The word of the message that says what it is here.
  static std::string here(const std::string& message) {
    const std::string before = "here it is ";
    const std::size_t begin = message.find(before) + before.size();
    return message.substr(begin, message.find("; measure again", begin) - begin);
  }

  std::filesystem::path cache_;
};

TEST_F(CliPlanMeasured, TakesTheCalibrationOfThisMachineAndRefusesAStaleOne) {
  const std::vector<std::string> arguments = {"k3", "--hw", "measured"};
  EXPECT_TRUE(has(plan(arguments).err, "write one with `baltoro plan calibrate`"))
      << plan(arguments).err;
  plan::CalibrationKey key = {"another machine", "cpu/avx2", 2, "bf16", "another build"};
  save(key);
  Outcome outcome = plan(arguments);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_TRUE(has(outcome.err, "stale: its machine is another machine")) << outcome.err;
  key.machine = here(outcome.err);
  save(key);
  outcome = plan(arguments);
  EXPECT_TRUE(has(outcome.err, "stale: its build is another build")) << outcome.err;
  EXPECT_TRUE(has(outcome.err, "`baltoro plan calibrate --threads 2 --isa avx2`"));
  key.build = here(outcome.err);
  save(key);
  outcome = plan(arguments);
  EXPECT_TRUE(has(outcome.out, "\nprediction step ")) << outcome.out << outcome.err;
  EXPECT_TRUE(has(outcome.out, "bandwidth 100 GB/s")) << outcome.out;
  EXPECT_TRUE(has(outcome.out, "[measured: plan calibrate of 2026-11-30")) << outcome.out;
  EXPECT_TRUE(has(plan({"k3", "--hw", "measured", "--eff", "datasheet"}).out, "\nbound      step"));
  EXPECT_TRUE(has(plan({"k3", "--hw", "2xmeasured"}).err, "the rule is --hw measured"));
}

TEST(CliPlan, WrongInputIsNamed) {
  struct Case {
    std::vector<std::string> arguments;
    std::string message;
  };
  const std::string counts = (std::filesystem::temp_directory_path() / "plan_counts.txt").string();
  testing::write_file(counts, "1 2 3");
  const std::string machine = (std::filesystem::temp_directory_path() / "plan_hw.json").string();
  testing::write_file(machine, R"({"base": "h200", "memory_bandwith": 5e12})");
  for (const Case& c : {
           Case{{}, "plan needs a MODEL"},
           Case{{"k33"}, "did you mean k3?"},
           Case{{"k3", "--hw", "h2000"}, "did you mean h200?"},
           Case{{"k3", "--hw", "8xh200", "--layout", "tp=7"}, "the rule is tp x dp x pp = devices"},
           Case{{"k3", "--hw", "h200", "--layout", "tp=7"}, "nearest that does is tp=6"},
           Case{{"k3", "--hw", "nowhere.json"}, "nowhere.json: no such file; --hw"},
           Case{{"k3", "--hw", machine}, "did you mean memory_bandwidth?"},
           Case{{"k3", "--set", "mm=5"}, "--set mm: no such size"},
           Case{{"k3", "--routing", "hist:/nowhere"},
                "/nowhere: no such file; --routing hist:FILE holds one"},
           Case{{"k3", "--routing", "hist:" + counts}, "3 counts for a model of 896 experts"},
           Case{{"k3", "-b", "-1"}, "--batch is -1; it must be at least 1"},
           Case{{"k3", "-b", "0"}, "--batch is 0; it must be at least 1"},
           Case{{"k3", "--phase", "verify", "--spec", "k=2,accept=4"}, "1 to k + 1 = 3"},
           Case{{"k3", "--explain", "rooted"}, "did you mean routed?"},
           Case{{"k2", "--explain", "kda-proj"}, "has no kda-proj"},
           Case{{"k3", "--hw", "8xnowhere.json"}, "JSON file of one device, whose number --layout"},
           Case{{"k3", "--spec", "k=7"}, "the rule is --phase verify"},
           Case{{"k3", "--layout", ""}, "is empty; leave it out for its default"},
           Case{{"k3", "--explain", ""}, "is empty; leave it out for its default"},
           Case{{"k3", "--isl", "0"}, "--isl is 0; it must be at least 1"},
           Case{{"k3", "--nic", "25"}, "--nic is 25, which is 25 bytes; it must be at least 1MB"},
           Case{{"k3", "--routing", "hist:"}, "the form is hist:FILE"},
           Case{{"k3", "--hw", "8xh200", "--layout", "tp=8,ep=8,redundant=5"}, "redundant=8"},
           Case{{"k3", "--nic", "auto"}, "such as 24GB\n"},
           Case{{"k3", "--hw", "rtx4090", "--nvme", "7GB"}, "give --dram too"},
           Case{{"gqa-70b", "--dram", "128GB"}, "gqa-70b has none"},
           Case{{"k3", "--hw", "rtx4090", "--dram", "128GB", "--nvme", "7GB", "-b", "64"}, "-b 1"},
           Case{{"k3", "--hw", "rtx4090", "--dram", "2TB", "--explain", "routed"}, "no step"},
           Case{{"k3", "--eff", "measured"}, "plan calibrate"},
           Case{{"k3", "--layot", "tp=8"}, "did you mean --layout?"},
       }) {
    const Outcome outcome = plan(c.arguments);
    EXPECT_NE(outcome.status, 0) << c.message;
    EXPECT_TRUE(has(outcome.err, c.message)) << outcome.err;
    EXPECT_EQ(outcome.out, "");
  }
}

}  // namespace
}  // namespace baltoro
