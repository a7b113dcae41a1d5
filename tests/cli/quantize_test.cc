// `baltoro quantize` as a user sees it: plan, report, loss before and after, refusals.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/binary.h"
#include "e2e/checkpoint.h"

namespace baltoro {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::has;
using testing::Outcome;
using testing::run_baltoro;
using testing::TempDir;
using testing::text_model;

// The text model's experts are packed already: its trunk is what can be quantised.
std::vector<std::string> int8_call(const fs::path& dst) {
  return {"quantize", text_model().string(), dst.string(), "--trunk", "int8"};
}

json run_json(std::vector<std::string> arguments) {
  arguments.push_back("--json");
  const Outcome outcome = run_baltoro(arguments);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  return json::parse(outcome.out);
}

TEST(CliQuantize, DryRunPlansAndWritesNothing) {
  const TempDir dir;
  std::vector<std::string> call = int8_call(dir.path() / "dst");
  call.push_back("--dry-run");
  const json plan = run_json(call)["plan"];
  EXPECT_LT(plan["bytes_out"], plan["bytes_in"]);
  EXPECT_EQ(plan["bytes_to_write"], plan["bytes_out"]);
  EXPECT_GT(plan["matrices"], 0);
  EXPECT_FALSE(fs::exists(dir.path() / "dst"));
  EXPECT_TRUE(has(run_baltoro(call).out, "to quantise: "));
}

TEST(CliQuantize, ReportsErrorsAndTheLossBeforeAndAfter) {
  const TempDir dir;
  const fs::path dst = dir.path() / "dst";
  testing::write_file(dir.path() / "text", "Once there was a cat who could not sleep.");
  std::vector<std::string> call = int8_call(dst);
  call.insert(call.end(), {"--score", (dir.path() / "text").string(), "--context", "16"});
  const json result = run_json(call);
  const double before = result["before"][0]["nats_per_token"];
  const double after = result["after"][0]["nats_per_token"];
  EXPECT_NE(before, after);
  EXPECT_NEAR(before, after, 0.2);
  for (const json& tensor : result["tensors"]) {
    EXPECT_EQ(tensor["format"], "MXINT8");
    EXPECT_GT(tensor["nmse"], 1e-6);
    EXPECT_LT(tensor["nmse"], 2e-4);
  }
  EXPECT_EQ(result["resumed_shards"], 0);

  const json bytes = run_json({"inspect", dst.string()})["files"]["format_bytes"];
  EXPECT_GT(bytes["MXINT8"], 0);
  EXPECT_GT(bytes["MXFP4"], 0);
  EXPECT_EQ(run_baltoro({"inspect", dst.string(), "--verify"}).status, 0);
  const Outcome again = run_baltoro(int8_call(dst));
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_TRUE(has(again.out, "1 shard by an earlier run")) << again.out;
  EXPECT_TRUE(has(again.out, "MXINT8        head: 1 matrix,")) << again.out;
}

TEST(CliQuantize, RefusesWhatItCannotDo) {
  const TempDir dir;
  const auto expect_usage = [](const std::vector<std::string>& call, const char* telling) {
    const Outcome outcome = run_baltoro(call);
    EXPECT_EQ(outcome.status, 2);
    EXPECT_TRUE(has(outcome.err, telling)) << outcome.err;
  };
  const std::string model = text_model().string();
  const std::string dst = (dir.path() / "dst").string();
  expect_usage({"quantize", model, dst}, "nothing to quantise");
  expect_usage({"quantize", model, model, "--trunk", "int8"}, "is the source itself");
  expect_usage({"quantize", model, dst, "--trunk", "int4"},
               "--trunk is \"int4\"; it must be int8 or keep");
  std::vector<std::string> call = int8_call(dst);
  call.insert(call.end(), {"--score", "-"});
  expect_usage(call, "--score reads each file twice");
  EXPECT_EQ(run_baltoro({"quantize", "/nowhere", dst}).status, 3);
  EXPECT_FALSE(fs::exists(dst));
}

}  // namespace
}  // namespace baltoro
