// The benchmark commands as a user meets them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/binary.h"

namespace baltoro {
namespace {

using ::testing::HasSubstr;
using testing::Outcome;
using testing::run_baltoro;

const std::string kModel = testing::fixture("k3").string();

TEST(CliBench, MeasuresAndWritesWhatItPrints) {
  const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / "cli-bench.json";
  const Outcome outcome = run_baltoro({"bench", kModel, "-p", "3", "-n", "0", "-r", "1", "-t", "1",
                                       "--allow-noise", "--json", path.string()});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("prompt and 3 generated tokens against reference: "));
  EXPECT_THAT(outcome.out, HasSubstr("\nprefill 3 "));
  const auto document = nlohmann::json::parse(testing::read_file(path));
  std::filesystem::remove(path);
  ASSERT_EQ(document["rows"].size(), 1u);
  EXPECT_EQ(document["rows"][0]["name"], "prefill 3");
  EXPECT_EQ(document["rows"][0]["samples"].size(), 1u);
  EXPECT_GT(document["rows"][0]["tokens_per_second"], 0.0);
  EXPECT_EQ(document["roofs"].size(), 1u);
  EXPECT_GT(document["roofs"][0]["read_bytes_per_second"], 1e8);
  EXPECT_GT(document["roofs"][0]["update_bytes_per_second"], 1e8);
  EXPECT_GT(document["roofs"][0]["bf16_flops_per_second"], 1e8);
}

TEST(CliBench, WhatMemoryCannotHoldIsRefusedBeforeTheWork) {
  const Outcome outcome = run_baltoro({"bench", kModel, "--depth", "100000000000"});
  EXPECT_EQ(outcome.status, 6);
  EXPECT_THAT(outcome.err, HasSubstr("--depth 100000000000"));
  EXPECT_THAT(outcome.err, HasSubstr("of cache and state, and the limit is"));
}

TEST(CliBench, ARefusalLeavesAnOlderFile) {
  const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / "cli-older.json";
  std::ofstream(path) << "older";
  const Outcome outcome = run_baltoro(
      {"bench", kModel, "--depth", "100000000000", "--allow-noise", "--json", path.string()});
  EXPECT_EQ(outcome.status, 6);
  EXPECT_EQ(testing::read_file(path), "older");
  std::filesystem::remove(path);
}

TEST(CliBench, AnEmptyItemIsNamed) {
  const Outcome outcome = run_baltoro({"bench", kModel, "--prompt", "10,"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--prompt is \"10,\", whose item 2 is empty"));
}

TEST(CliBench, ListsItsOpCases) {
  const Outcome all = run_baltoro({"bench-ops", "--list"});
  EXPECT_EQ(all.status, 0) << all.err;
  for (const char* op : {"linear", "head", "embed", "glu_mlp", "expert_mlp", "route", "mix_norm",
                         "kda_mix", "mla"}) {
    EXPECT_THAT("\n" + all.out, HasSubstr("\n" + std::string(op) + " ")) << op;
  }
  const Outcome some = run_baltoro({"bench-ops", "kda", "--list"});
  EXPECT_THAT(some.out, HasSubstr("kda_mix"));
  EXPECT_THAT(some.out, ::testing::Not(HasSubstr("linear")));
}

}  // namespace
}  // namespace baltoro
