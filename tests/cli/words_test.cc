// Small parts of the command line: suggestions, id lists, numbers for people, sampling defaults.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "baltoro/error.h"
#include "cli/builtin_tools.h"
#include "cli/format.h"
#include "cli/id_list.h"
#include "cli/sampling_options.h"
#include "cli/suggest.h"

namespace baltoro::cli {
namespace {

TEST(Suggest, CountsEdits) {
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("run", "run"), 0);
  EXPECT_EQ(edit_distance("rnu", "run"), 1);  // a swap is one slip, not two
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
}

TEST(Suggest, NamesTheNearestOrNothing) {
  const std::vector<std::string> words = {"run", "chat", "inspect", "tokenize"};
  EXPECT_EQ(nearest("rnu", words), "run");
  EXPECT_EQ(nearest("inspekt", words), "inspect");
  EXPECT_EQ(nearest("tokenise", words), "tokenize");
  EXPECT_EQ(nearest("zzzzzz", words), "");
}

TEST(IdList, ReadsCommasSpacesAndBrackets) {
  EXPECT_EQ(parse_ids("1,2, 3\n4", "x"), (std::vector<TokenId>{1, 2, 3, 4}));
  EXPECT_EQ(parse_ids("[7, 8]", "x"), (std::vector<TokenId>{7, 8}));
  EXPECT_TRUE(parse_ids(" ", "x").empty());
}

TEST(IdList, NamesTheWordThatIsNoId) {
  for (const char* bad : {"1,x", "-1", "1.5", "99999999999", "0x10"}) {
    try {
      parse_ids(bad, "--ids");
      FAIL() << bad;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kUsage);
      EXPECT_EQ(std::string(e.what()).find("--ids: \""), 0u) << e.what();
    }
  }
}

TEST(Format, GroupsDigits) {
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(1000), "1,000");
  EXPECT_EQ(with_commas(1560860324864), "1,560,860,324,864");
}

TEST(Format, NamesBinaryUnits) {
  EXPECT_EQ(human_bytes(512), "512 B");
  EXPECT_EQ(human_bytes(1536), "1.50 KiB");
  EXPECT_EQ(human_bytes(1560860324864), "1.42 TiB");
}

TEST(Format, JsonNeverFailsOnBytes) {
  EXPECT_EQ(json_line({{"text", "a\xFFz"}}), "{\"text\":\"a\xEF\xBF\xBDz\"}");
}

TEST(SamplingDefaults, FlagsOverrideTheFileAndTheFileOverridesGreedy) {
  GenerationDefaults none;
  EXPECT_EQ(resolve({}, none, 10).sampling.temperature, 0.0f);
  EXPECT_EQ(resolve({}, none, 10).max_tokens, 10);

  GenerationDefaults file;
  file.temperature = 0.7f;
  file.top_p = 0.95f;
  file.max_new_tokens = 33;
  file.stop_ids = {5};
  const GenerateOptions from_file = resolve({}, file, 10);
  EXPECT_EQ(from_file.sampling.temperature, 0.7f);
  EXPECT_EQ(from_file.sampling.top_p, 0.95f);
  EXPECT_EQ(from_file.max_tokens, 33);
  EXPECT_EQ(from_file.stop_ids, std::vector<TokenId>{5});

  SamplingOptions flags;
  flags.temperature = 0.0f;
  flags.top_p = 0.5f;
  flags.max_tokens = 4;
  flags.ignore_stop_ids = true;
  const GenerateOptions from_flags = resolve(flags, file, 10);
  EXPECT_EQ(from_flags.sampling.temperature, 0.0f);
  EXPECT_EQ(from_flags.sampling.top_p, 0.5f);
  EXPECT_EQ(from_flags.max_tokens, 4);
  EXPECT_TRUE(from_flags.stop_ids.empty());
}

TEST(SamplingDefaults, DoSampleFalseIsGreedyWhateverStandsBesideIt) {
  GenerationDefaults file;
  file.do_sample = false;
  file.temperature = 0.7f;
  EXPECT_EQ(resolve({}, file, 10).sampling.temperature, 0.0f);
  file.do_sample = true;
  file.temperature.reset();
  EXPECT_EQ(resolve({}, file, 10).sampling.temperature, 1.0f);
}

TEST(BuiltinTools, AnswerOrSayWhatIsWrong) {
  EXPECT_EQ(run_builtin_tool({"", "calculator", R"({"expression":"12*34"})"}), "408");
  const std::string time = run_builtin_tool({"", "clock", ""});
  ASSERT_EQ(time.size(), 5u);
  EXPECT_EQ(time[2], ':');
  EXPECT_EQ(run_builtin_tool({"", "clock", R"({"place":"../../etc/passwd"})"}),
            "error: no time zone is known for ../../etc/passwd");
  EXPECT_EQ(run_builtin_tool({"", "calculator", R"({"expression":5})"}),
            "error: the argument expression must be text");
  EXPECT_EQ(run_builtin_tool({"", "calculator", "{"}), "error: the arguments are no JSON");
  EXPECT_EQ(run_builtin_tool({"", "calculator", "[]"}), "error: the arguments are no object");
  EXPECT_EQ(run_builtin_tool({"", "rm", "{}"}), "error: there is no tool rm");
}

}  // namespace
}  // namespace baltoro::cli
