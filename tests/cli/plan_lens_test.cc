// `baltoro plan sweep | compare | layout`: forms of their output, statuses and errors.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cli/binary.h"

namespace baltoro {
namespace {

using testing::has;
using testing::Outcome;
using testing::run_baltoro;

using Arguments = std::vector<std::string>;

Outcome lens(Arguments arguments) {
  arguments.insert(arguments.begin(), "plan");
  return run_baltoro(arguments);
}

const std::vector<Arguments>& commands() {
  static const std::vector<Arguments> kCommands = {
      {"sweep", "k3", "split=512:64,448:128"},
      {"sweep", "k2", "alpha=1,2,3,4", "mode=eff,acc"},
      {"sweep", "k3", "--hw", "16xh200", "batch=1..256:log", "ctx=4k..1M:log"},
      {"compare", "k2", "k3", "-b", "64"},
      {"compare", "k3", "k3 --dtype attn=int8"},
      {"layout", "k3", "--hw", "16xh200", "-b", "4", "--ctx", "128k"}};
  return kCommands;
}

TEST(CliPlanLens, TextFitsAHundredColumnsOfAscii) {
  std::vector<Arguments> all = commands();
  all.push_back({"sweep", "k3", "batch=1..4096:log", "ctx=4k..1M:log", "--map", "user"});
  for (const Arguments& arguments : all) {
    const Outcome outcome = lens(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    std::istringstream lines(outcome.out);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), 100u) << line;
      EXPECT_TRUE(std::all_of(line.begin(), line.end(), [](char c) {
        return c >= ' ' && c <= '~';
      })) << line;
    }
  }
}

TEST(CliPlanLens, TitleOfASweepCountsTheDevices) {
  EXPECT_TRUE(has(lens({"sweep", "k3", "batch=1"}).out, "k3 on 8 x B300 over batch"));
  EXPECT_TRUE(has(lens({"sweep", "k3", "--hw", "b300", "tp=1"}).out, "k3 on B300 over tp"));
}

void check_leaves(const nlohmann::json& node, int& leaves) {
  if (node.is_object() && node.contains("value")) {
    ++leaves;
    EXPECT_TRUE(node.contains("unit")) << node;
    EXPECT_TRUE(node.at("provenance").is_string() && node.at("provenance") != "") << node;
    return;
  }
  EXPECT_FALSE(node.is_number_float()) << node;
  if (!node.is_structured()) return;
  for (const auto& child : node) check_leaves(child, leaves);
}

TEST(CliPlanLens, JsonLeavesSayUnitAndProvenance) {
  for (Arguments arguments : commands()) {
    arguments.emplace_back("--json");
    const auto document = nlohmann::json::parse(lens(arguments).out);
    EXPECT_EQ(document.at("schema"), "baltoro.plan." + arguments[0]);
    EXPECT_EQ(document.at("version"), 1);
    int leaves = 0;
    check_leaves(document, leaves);
    EXPECT_GT(leaves, 20) << arguments[0];
  }
}

TEST(CliPlanLens, CsvHasOneFieldAColumn) {
  for (Arguments arguments : commands()) {
    arguments.emplace_back("--csv");
    std::istringstream lines(lens(arguments).out);
    std::string line;
    ASSERT_TRUE(std::getline(lines, line));
    const auto fields = [](const std::string& text) {
      bool quoted = false;
      std::size_t count = 1;
      for (const char c : text) {
        if (c == '"') quoted = !quoted;
        if (c == ',' && !quoted) ++count;
      }
      return count;
    };
    const std::size_t columns = fields(line);
    EXPECT_GT(columns, 5u);
    int rows = 0;
    for (; std::getline(lines, line); ++rows) EXPECT_EQ(fields(line), columns) << line;
    EXPECT_GT(rows, 1);
  }
}

// Tags are closed in order; attributes hold no tag.
void check_markup(const std::string& text) {
  std::vector<std::string> open;
  for (std::size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at + 1)) {
    const std::size_t end = text.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const std::string tag = text.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(0, tag.find_first_of(" \n/", 1));
    if (tag[0] == '!' || tag.back() == '/' || name == "meta") continue;
    if (tag[0] == '/') {
      ASSERT_FALSE(open.empty());
      EXPECT_EQ(open.back(), tag.substr(1));
      open.pop_back();
    } else {
      open.push_back(name);
    }
  }
  EXPECT_TRUE(open.empty());
}

std::vector<Arguments> figures() {
  std::vector<Arguments> result = commands();
  result.push_back({"sweep", "k3", "batch=1..64:log"});
  return result;
}

TEST(CliPlanLens, FiguresAndPagesAreWhole) {
  for (const Arguments& command : figures()) {
    for (const char* form : {"--svg", "--html"}) {
      Arguments arguments = command;
      arguments.emplace_back(form);
      const Outcome outcome = lens(arguments);
      EXPECT_EQ(outcome.status, 0) << outcome.err;
      EXPECT_TRUE(has(outcome.out, "<svg class=\"chart\""));
      EXPECT_TRUE(has(outcome.out, "prefers-color-scheme:dark"));
      EXPECT_FALSE(has(outcome.out, "nan")) << command[0];
      // Nothing is fetched.
      for (const char* word : {"src=", "href=", "url(h", "@import", "<script"}) {
        EXPECT_FALSE(has(outcome.out, word)) << word;
      }
      check_markup(outcome.out);
    }
  }
  for (const Arguments& arguments :
       std::vector<Arguments>{{"k3", "--svg", "steps"},
                              {"k3", "--svg", "roofline"},
                              {"gqa-70b", "--hw", "8xh200", "--html"},
                              {"k3", "--phase", "prefill", "--html"}}) {
    const Outcome outcome = lens(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    check_markup(outcome.out);
  }
  EXPECT_TRUE(has(lens({"k3", "--csv"}).out, "\nrouted,"));
}

TEST(CliPlanLens, ImpossiblePointsAndMisfitsAreSaid) {
  const Outcome sweep = lens({"sweep", "k2", "alpha=1..4"});
  EXPECT_EQ(sweep.status, 0);
  EXPECT_TRUE(has(sweep.out, "no whole number; the nearest that gives one is alpha=2"))
      << sweep.out;
  const Outcome map =
      lens({"sweep", "k3", "--hw", "16xh200", "batch=1,256", "ctx=8k,1M", "--map", "user"});
  EXPECT_TRUE(has(map.out, "* does not fit into memory")) << map.out;
  const Outcome layout = lens({"layout", "k3", "--hw", "8xh200"});
  EXPECT_EQ(layout.status, 6);
  EXPECT_TRUE(has(layout.out, "none: no layout holds the workload")) << layout.out;
}

TEST(CliPlanLens, MachinesAreAnAxis) {
  // First, wherever it stands; each with its own devices and rates.
  const auto document =
      nlohmann::json::parse(lens({"sweep", "k3", "batch=1,64", "hw=16xh200,8xb300", "--json"}).out);
  const auto& points = document.at("points");
  ASSERT_EQ(points.size(), 4u);
  EXPECT_EQ(points[1].at("hw"), "16xh200");
  EXPECT_EQ(points[1].at("batch"), "64");
  EXPECT_EQ(points[2].at("hw"), "8xb300");
  EXPECT_EQ(points[2].at("devices").at("value"), 8);
  const auto alone = nlohmann::json::parse(lens({"k3", "--hw", "8xb300", "--json"}).out);
  EXPECT_EQ(points[2].at("step").at("value"),
            alone.at("step").at("total").at("seconds").at("value"));
}

TEST(CliPlanLens, MachinesWithASweptTp) {
  const auto document =
      nlohmann::json::parse(lens({"sweep", "k3", "tp=2,8", "hw=16xh200,8xb300", "--json"}).out);
  for (const auto& point : document.at("points")) {
    EXPECT_EQ(point.at("devices").at("value"), point.at("hw") == "16xh200" ? 16 : 8) << point;
  }
}

TEST(CliPlanLens, ASplitSaysWhatItDoesNotSettle) {
  EXPECT_TRUE(has(lens({"sweep", "k3", "split=512:64,448:128"}).out, "\n512;64 "));
  EXPECT_FALSE(has(lens({"sweep", "k3", "batch=1,2"}).out, "\n512;64 "));
}

class CliPlanSaved : public ::testing::Test {
 protected:
  CliPlanSaved()
      : file_((std::filesystem::temp_directory_path() /
               ("plan_saved_" + std::to_string(getpid()) + ".json"))
                  .string()) {}
  ~CliPlanSaved() override { std::filesystem::remove(file_); }

  void save(Arguments arguments) const {
    arguments.emplace_back("--json");
    testing::write_file(file_, lens(arguments).out);
  }
  nlohmann::json read() const { return nlohmann::json::parse(std::ifstream(file_)); }

  std::string file_;
};

TEST_F(CliPlanSaved, AFileComparesAsTheCommandThatWroteIt) {
  save({"k3", "--hw", "16xh200", "-b", "64", "--layout", "tp=8,pp=2"});
  const std::string command = "k3 --hw 16xh200 -b 64 --layout tp=8,pp=2";
  EXPECT_TRUE(has(lens({"compare", file_, command}).out, "nothing differs"));
  EXPECT_EQ(lens({"compare", "k2", file_, "--json"}).out,
            lens({"compare", "k2", command, "--json"}).out);
  // Its own options, and those of both sides, come over what it brings.
  EXPECT_EQ(
      lens({"compare", file_, file_ + " -b 8", "--ctx", "64k"}).out,
      lens({"compare", command, "k3 --hw 16xh200 -b 8 --layout tp=8,pp=2", "--ctx", "64k"}).out);
}

TEST_F(CliPlanSaved, OtherRatesThanThoseOfTheFileAreSaid) {
  save({"k3"});
  nlohmann::json document = read();
  EXPECT_FALSE(has(lens({"compare", file_, "k2"}).out, "when it was saved"));
  document.at("step").at("total").at("seconds").at("value") = 1;
  testing::write_file(file_, document.dump());
  EXPECT_TRUE(has(lens({"compare", file_, "k2"}).out, "the step took 1 s when it was saved"));
}

TEST_F(CliPlanSaved, OtherFilesAreRefusedWithARemedy) {
  save({"k3"});
  const nlohmann::json document = read();
  const auto error_of = [&](const nlohmann::json& changed) {
    testing::write_file(file_, changed.dump());
    const Outcome outcome = lens({"compare", file_, "k3"});
    EXPECT_EQ(outcome.status, 3) << outcome.err;
    return outcome.err;
  };
  nlohmann::json other = document;
  other["version"] = 2;
  EXPECT_TRUE(has(error_of(other), "version 2 of baltoro.plan, and this baltoro reads version 1"));
  other = document;
  other["schema"] = "baltoro.plan.sweep";
  EXPECT_TRUE(has(error_of(other), "its schema is baltoro.plan.sweep"));
  other = document;
  other.erase("options");
  EXPECT_TRUE(has(error_of(other), "write it again with `baltoro plan MODEL ... --json`"));
  other = document;
  other["options"]["--wh"] = "h200";
  EXPECT_TRUE(has(error_of(other), "--wh is no option of plan"));
}

TEST(CliPlanLens, WrongInputNamesTheRule) {
  struct Case {
    Arguments arguments;
    const char* message;
  };
  for (const Case& c : {
           Case{{"sweep"}, "needs a MODEL and an AXIS"},
           Case{{"sweep", "k3"}, "a sweep needs an axis"},
           Case{{"sweep", "k3", "btch=1"}, "did you mean batch?"},
           Case{{"sweep", "k3", "batch=8..4"}, "the range is empty"},
           Case{{"sweep", "k3", "batch=1", "--map", "step"}, "a heat map has two axes, and 1 is"},
           Case{{"sweep", "k3", "batch=1", "ctx=8k", "pp=1", "--map", "step"}, "and 3 are given"},
           Case{{"sweep", "k3", "batch=1", "ctx=8k", "--map", "stp"}, "did you mean step?"},
           Case{{"sweep", "k3", "batch=1", "--columns", "usr"}, "did you mean user?"},
           Case{{"sweep", "k3", "batch=1", "--json", "--csv"}, "leave one out"},
           Case{{"sweep", "k4", "batch=1"}, "k4: no such file, and no preset"},
           Case{{"k3", "--csv", "--html"}, "leave one out"},
           Case{{"k3", "--svg", "pie"}, "--svg"},
           Case{{"k3", "--hw", "rtx4090", "--dram", "128GB", "--nvme", "7GB", "--html"},
                "experts=host has no step"},
           Case{{"sweep", "k3", "batch=1", "ctx=8k", "pp=1", "--svg"}, "and 3 are given"},
           Case{{"sweep", "k3", "batch=1", "--columns", ""}, "is empty; leave it out"},
           Case{{"sweep", "k3", "batch=1", "--columns", "step,"}, "whose item 2 is empty"},
           Case{{"sweep", "k3", "batch=1", "ctx=8k", "--map", ""}, "is empty; leave it out"},
           Case{{"sweep", "k3", "batch=1.."}, "LAST is missing; the form is FIRST..LAST"},
           Case{{"sweep", "k3", "batch=1..8:lin"}, "\"lin\" is no step"},
           Case{{"sweep", "k3", "kv=mla"}, "such as 512+64"},
           Case{{"sweep", "k3", "hw=h200,h2000"}, "did you mean h200?"},
           Case{{"sweep", "k3", "hw=h200,"}, "a value is empty"},
           Case{{"sweep", "k3", "hw=h200", "--hw", "b200"}, "--hw has no effect with an axis hw"},
           Case{{"sweep", "k3", "machine=h200"}, "known: hw, alpha"},
           Case{{"compare", "k3", "k3 -b"}, "--batch needs one value behind it"},
           Case{{"compare", "k3"}, "needs two scenarios"},
           Case{{"compare", "k3", "k3 --dtpe a=b"}, "did you mean --dtype?"},
           Case{{"compare", "k3", "--hw"}, "--hw needs a value behind it"},
           Case{{"compare", "k3", "k3 --hw"}, "B \"k3 --hw\""},
           Case{{"compare", "k3", "k3 --layout tp=7"}, "the rule is tp x dp x pp = devices"},
           Case{{"layout"}, "needs a MODEL"},
           Case{{"layout", "k3", "--layout", "tp=8"}, "leave it out"},
           Case{{"layout", "k3", "--slo", "tpot=20"}, "the form is 20ms or 2s"},
           Case{{"layout", "k3", "--slo", "tpot=1us"}, "the units are ms and s"},
           Case{{"layout", "k3", "--slo", ""}, "is empty; leave it out"},
           Case{{"layout", "k3", "--slo", "tpt=20ms"}, "did you mean tpot?"},
           Case{{"layout", "k3", "--slo", "tpot=-1ms"}, "at least 0"},
       }) {
    const Outcome outcome = lens(c.arguments);
    EXPECT_EQ(outcome.status, 2) << c.message;
    EXPECT_TRUE(has(outcome.err, c.message)) << outcome.err;
    EXPECT_EQ(outcome.out, "");
  }
}

}  // namespace
}  // namespace baltoro
