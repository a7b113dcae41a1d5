// Small parts of the command line: suggestions, id lists, numbers for people, sampling defaults.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "baltoro/error.h"
#include "cli/arguments.h"
#include "cli/builtin_tools.h"
#include "cli/format.h"
#include "cli/id_list.h"
#include "cli/sampling_options.h"
#include "core/suggest.h"

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

TEST(Suggest, PrefersAWordWithSomethingBehindIt) {
  const std::vector<std::string> words = {"--top-k", "--stop", "--stats", "--json"};
  EXPECT_EQ(nearest("--stop-x", words), "--stop");
  EXPECT_EQ(nearest("--jsonlines", words), "--json");
}

TEST(Numbers, AreTakenWholeOrRefused) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(parse_whole<std::int64_t>("-n", "9223372036854775807", {}), kMax);
  EXPECT_EQ(parse_whole<std::uint64_t>("-n", "18446744073709551615", {}), UINT64_MAX);
  for (const char* bad : {"", "-1", "1.5", "1x", " 1", "9223372036854775808", "1e3", "0x10"}) {
    EXPECT_THROW(parse_whole<std::int64_t>("-n", bad, {}), Error) << bad;
  }
  EXPECT_EQ(parse_real("-t", "0.7"), 0.7f);
  EXPECT_EQ(parse_real("-t", "0"), 0.0f);
  for (const char* bad : {"", "abc", "1,5", "0.5x", "1e60", "1e-60", "1e-999"}) {
    EXPECT_THROW(parse_real("-t", bad), Error) << bad;
  }
}

TEST(Format, CountsInGrammar) {
  EXPECT_EQ(counted(1, "tensor"), "1 tensor");
  EXPECT_EQ(counted(0, "tensor"), "0 tensors");
  EXPECT_EQ(counted(1558, "tensor"), "1,558 tensors");
}

TEST(Format, AFloatKeepsItsShortestDigits) {
  EXPECT_EQ(json_line({{"eps", shortest(1e-6f)}}), "{\"eps\":1e-06}");
  EXPECT_EQ(shortest(0.7f), 0.7);
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
