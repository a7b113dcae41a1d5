// `baltoro plan tiers`: placements of a described machine and of this one.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/binary.h"

namespace baltoro {
namespace {

using nlohmann::json;
using testing::has;
using testing::Outcome;
using testing::run_baltoro;

json tiers(std::vector<std::string> options) {
  std::vector<std::string> line = {"plan", "tiers"};
  line.insert(line.end(), options.begin(), options.end());
  line.emplace_back("--json");
  const Outcome outcome = run_baltoro(line);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  return json::parse(outcome.out);
}

double number(const json& row, const char* key) { return row[key]["value"].get<double>(); }

TEST(CliPlanTiers, ALargeGpuTakesAllAndIsTheFastest) {
  const json out = tiers({"kimi-linear", "--hw", "h200", "--memory", "200GB"});
  EXPECT_EQ(out["schema"], "baltoro.plan.tiers");
  EXPECT_EQ(out["result"], "bound");
  const json& rows = out["placements"];
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0]["place"], "all on the GPU");
  EXPECT_EQ(rows[0]["status"], "chosen");
  EXPECT_EQ(rows[0]["bound"], "HBM");
  EXPECT_EQ(rows[1]["bound"], "host memory");
  for (std::size_t i = 0; i + 1 < rows.size(); ++i) {
    EXPECT_GT(number(rows[i], "tokens_per_second"), number(rows[i + 1], "tokens_per_second"));
  }
}

TEST(CliPlanTiers, ASmallGpuLeavesTheExpertsToTheHost) {
  const json rows = tiers({"kimi-linear", "--hw", "rtx4090", "--memory", "128GB"})["placements"];
  EXPECT_TRUE(has(rows[0]["status"].get<std::string>(), "too many for the GPU")) << rows[0];
  EXPECT_EQ(rows[1]["status"], "chosen");
}

TEST(CliPlanTiers, ATrunkThatDoesNotFitLeavesLayersToTheHost) {
  const json rows = tiers({"k3", "--hw", "rtx4090", "--memory", "2TB"})["placements"];
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_TRUE(has(rows[2]["place"].get<std::string>(), " layers on the CPU")) << rows[2];
  EXPECT_EQ(rows[2]["status"], "chosen");
}

TEST(CliPlanTiers, WhatComesFromFilesNeedsTheirRate) {
  const std::vector<std::string> line = {"kimi-linear", "--hw", "rtx4090", "--memory", "32GB"};
  const json unknown = tiers(line)["placements"];
  EXPECT_TRUE(unknown[1]["tokens_per_second"]["value"].is_null()) << unknown[1];
  EXPECT_GT(number(unknown[1], "file_bytes_per_token"), 1e9);
  std::vector<std::string> with_rate = line;
  with_rate.insert(with_rate.end(), {"--nvme", "7GB"});
  EXPECT_EQ(tiers(with_rate)["placements"][1]["bound"], "files");
}

TEST(CliPlanTiers, WithoutHwItIsThisMachine) {
  const json out = tiers({std::string(BALTORO_SOURCE_DIR) + "/models/story", "--memory", "8GB"});
  const json& rows = out["placements"];
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0]["place"], "all on the CPU");
  EXPECT_GT(number(rows[0], "tokens_per_second"), 1);
}

TEST(CliPlanTiers, WhatFitsNowhereOnTheGpuEndsWith6) {
  const Outcome outcome = run_baltoro(
      {"plan", "tiers", "k3", "--hw", "rtx4090", "--memory", "2TB", "--device-memory", "4GB"});
  EXPECT_EQ(outcome.status, 6) << outcome.out << outcome.err;
  EXPECT_TRUE(has(outcome.out, "all on the CPU")) << outcome.out;
}

TEST(CliPlanTiers, ADescribedDeviceNeedsTheMemoryOfItsHost) {
  const Outcome outcome = run_baltoro({"plan", "tiers", "k3", "--hw", "h200"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_TRUE(has(outcome.err, "add --memory")) << outcome.err;
}

}  // namespace
}  // namespace baltoro
