// Help, versions, wrong command lines: what a person meets first.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "baltoro/version.h"
#include "cli/binary.h"
#include "e2e/checkpoint.h"

namespace baltoro {
namespace {

using testing::has;
using testing::Outcome;
using testing::run_baltoro;

const std::vector<std::string> kCommands = {"run",     "chat",  "inspect", "tokenize",
                                            "compare", "score", "bench",   "bench-ops",
                                            "plan",    "synth", "quantize"};

TEST(CliHelp, EveryCommandHasHelpWithExamples) {
  for (const std::string& command : kCommands) {
    const Outcome outcome = run_baltoro({command, "--help"});
    EXPECT_EQ(outcome.status, 0) << command;
    EXPECT_TRUE(has(outcome.out, "Examples:\n  baltoro " + command)) << outcome.out;
    EXPECT_TRUE(has(outcome.out, "--json") || command == "synth") << command;
    EXPECT_EQ(outcome.err, "") << command;
  }
}

TEST(CliHelp, ListsTheCommands) {
  const Outcome outcome = run_baltoro({"--help"});
  EXPECT_EQ(outcome.status, 0);
  for (const std::string& command : kCommands) EXPECT_TRUE(has(outcome.out, command)) << command;
}

TEST(CliHelp, PrintsTheVersion) {
  const Outcome outcome = run_baltoro({"--version"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.out, std::string("baltoro ") + version() + "\n");
}

TEST(CliHelp, NoCommandPrintsHelpAsAnError) {
  const Outcome outcome = run_baltoro({});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_TRUE(has(outcome.err, "run"));
}

struct WrongLine {
  std::vector<std::string> arguments;
  int status;
  std::string message;  // a part of standard error
};

class WrongCommandLine : public ::testing::TestWithParam<WrongLine> {};

TEST_P(WrongCommandLine, GivesThePromisedErrorAndExitStatus) {
  const Outcome outcome = run_baltoro(GetParam().arguments);
  EXPECT_EQ(outcome.status, GetParam().status) << outcome.err;
  EXPECT_EQ(outcome.err.find("baltoro: error: "), 0u) << outcome.err;
  EXPECT_TRUE(has(outcome.err, GetParam().message)) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
}

const std::string kModel = testing::fixture("k3").string();

INSTANTIATE_TEST_SUITE_P(
    Usage, WrongCommandLine,
    ::testing::Values(
        WrongLine{{"rnu", kModel}, 2, "unknown command \"rnu\"; did you mean run?"},
        WrongLine{{"qqqqqq"}, 2, "unknown command \"qqqqqq\" (see baltoro --help)"},
        WrongLine{{"bench", "/nowhere"}, 3, "/nowhere: no such directory"},
        WrongLine{{"bench", kModel, "-p", "5,,6"}, 2, "whose item 2 is empty"},
        WrongLine{{"bench", kModel, "-b", "1,0"}, 2, "--batch is 0; it must be at least 1"},
        WrongLine{{"bench", kModel, "-p", "0", "-n", "0"}, 2, "there is nothing to measure"},
        WrongLine{{"bench-ops", "conv9"}, 2, "no case's name holds \"conv9\"; the ops are embed, "},
        WrongLine{{"bench-ops", "--isa", "avx9"}, 2, "--isa is \"avx9\"; it must be scalar, "},
        WrongLine{{"run", kModel, "--temprature", "0"},
                  2,
                  "unknown option --temprature; did you mean --temperature?"},
        WrongLine{{"run", kModel, "--seeed=1"}, 2, "unknown option --seeed; did you mean --seed?"},
        WrongLine{{"inspect", kModel, "--verfy"}, 2, "did you mean --verify?"},
        WrongLine{{"--jsn"}, 2, "unknown option --jsn"}, WrongLine{{"run"}, 2, "MODEL is required"},
        WrongLine{{"compare", kModel, "cpu"}, 2, "B is required"},
        WrongLine{{"run", kModel, "two", "words"}, 2, "unexpected argument \"words\"; quote"},
        WrongLine{{"run", kModel, "--ids", "1,x"}, 2, "--ids: \"x\" is no token id"},
        WrongLine{{"run", kModel, "--ids", "1,9999"}, 2, "token id 9999 is outside the vocabulary"},
        WrongLine{{"run", kModel, "--ids", "1", "--file", "a"}, 2, "give one of PROMPT"},
        WrongLine{{"run", kModel, "--ids", "1", "--top-p", "1.5"}, 2, "top_p is 1.5"},
        WrongLine{{"run", kModel, "--ids", "1", "--temperature", "-1"}, 2, "temperature is -1"},
        WrongLine{{"run", kModel, "--ids", "1", "--temperature", "hot"},
                  2,
                  "--temperature is \"hot\"; it must be a number"},
        WrongLine{{"run", kModel, "--ids", "1", "-n", "-5"},
                  2,
                  "--max-tokens is -5; it must be at least 0"},
        WrongLine{{"run", kModel, "--ids", "1", "--threads", "-2"},
                  2,
                  "--threads is -2; it must be at least 0"},
        WrongLine{{"run", kModel, "--ids", "1", "--activations", "int8"},
                  2,
                  "--activations is \"int8\"; it must be bf16 or f32"},
        WrongLine{{"run", kModel, "--ids", "1", "--isa", "mmx"},
                  2,
                  "--isa is \"mmx\"; it must be scalar, neon, avx2"},
        WrongLine{{"run", kModel, "--ids", "1", "--device", "tpu"}, 2, "device \"tpu\" is unknown"},
        WrongLine{{"run", kModel, "hello"}, 2, "no tiktoken.model"},
        WrongLine{{"run", kModel, "--ids", "1", "--stop", "x"}, 2, "stop strings need a tokenizer"},
        WrongLine{{"run", "/nowhere", "--ids", "1"}, 3, "/nowhere: no such directory"},
        WrongLine{{"compare", kModel, "cpu:isa", "cpu", "--ids", "1"}, 2, "\"isa=\" is not known"},
        WrongLine{{"compare", kModel, "cpu:speed=9", "cpu", "--ids", "1"}, 2, "speed=9"},
        WrongLine{{"compare", kModel, "cpu", "cpu"}, 2, "give one of --ids, --file and --text"},
        WrongLine{{"score", kModel, "/nowhere.txt", "--format", "ids"}, 1, "/nowhere.txt"},
        WrongLine{
            {"inspect", kModel + "/config.json", "--verify"}, 2, "--verify reads the tensors"},
        WrongLine{{"run", kModel + "/config.json", "--ids", "1"},
                  3,
                  "config.json is a file; run needs the model's directory"},
        WrongLine{{"compare", "/nowhere", "cpu", "cpu", "--ids", "1"}, 3, "no such directory"},
        WrongLine{{"run", kModel, "--threads", "99999999999"}, 2, "it must be at most 1024"},
        WrongLine{{"run", kModel, "-n", "99999999999999999999"},
                  2,
                  "--max-tokens is 99999999999999999999; it must be at most 9223372036854775807"},
        WrongLine{{"run", kModel, "-n", "1.5"}, 2, "--max-tokens is 1.5; it must be a whole"},
        WrongLine{{"run", kModel, "--seed", "-1"}, 2, "--seed is -1; it must be at least 0"},
        WrongLine{{"run", kModel, "--seed", "99999999999999999999999"},
                  2,
                  "it must be at most 18446744073709551615"},
        WrongLine{{"run", kModel, "--seed", "abc"}, 2, "--seed is \"abc\"; it must be a number"},
        WrongLine{
            {"run", kModel, "-n", "1", "-n", "2"}, 2, "--max-tokens is given twice; keep one"},
        WrongLine{{"run", kModel, "-n"}, 2, "--max-tokens needs a number behind it"},
        WrongLine{{"run", kModel, "--file"}, 2, "--file needs a value behind it"},
        WrongLine{
            {"run", kModel, "--load", "foo"}, 2, "--load is \"foo\"; it must be auto, copy or map"},
        WrongLine{{"run", kModel, "--memory", "24 GB"}, 2, "--memory is \"24 GB\"; it must be"},
        WrongLine{{"run", kModel, "--memory", "99999999TB"}, 2, "--memory is \"99999999TB\"; it"},
        WrongLine{{"run", kModel, "--memory", "-1"}, 2, "24GB, or auto"},
        WrongLine{{"run", kModel, "--ids", "1", "--memory", "1MiB"},
                  6,
                  "bytes of memory are needed, the limit is 1048576; use --memory "},
        WrongLine{{"inspect", kModel + "/config.json", "--memory", "1GB"},
                  2,
                  "--memory reads the files' headers"},
        WrongLine{{"inspect", kModel, "--latent-norm-eps", "1e-60"},
                  2,
                  "--latent-norm-eps is 1e-60; it must be"},
        WrongLine{{"compare", kModel, "cpu", "cpu", "--ids", "1", "--decode", "-1"},
                  2,
                  "--decode is -1; it must be at least 0"},
        WrongLine{{"run", kModel, "--stop-x"}, 2, "did you mean --stop?"},
        WrongLine{{"run", kModel, "--jsonl", "a", "--stats"}, 2, "--stats has no effect with"},
        WrongLine{
            {"run", kModel, "--jsonl", "a", "--logprobs", "2"}, 2, "--logprobs has no effect"},
        WrongLine{{"run", kModel, "--jsonl", "a", "--control"}, 2, "--control has no effect with"},
        WrongLine{{"chat", kModel, "--logprobs", "2"}, 2, "--logprobs has no effect with chat"},
        WrongLine{{"chat", kModel, "--thinking-effort", "extreme"},
                  2,
                  "--thinking-effort is \"extreme\"; it must be low, high or max"},
        WrongLine{
            {"tokenize", kModel, "hi", "--decode", "3"}, 2, "TEXT has no effect with --decode"},
        WrongLine{{"tokenize", kModel, "text"}, 3, "tiktoken.model"}));

TEST(CliOutput, AFullDiskIsAnError) {
  const std::string model = testing::text_model().string();
  const std::string binary = BALTORO_BINARY;
  for (const std::string& command :
       {binary + " inspect " + kModel, binary + " run " + model + " A -n 4",
        "echo '{\"prompt\": \"A\", \"max_tokens\": 4}' | " + binary + " run " + model +
            " --jsonl -",
        "echo Hello | " + binary + " chat " + model + " -n 4",
        "echo Hello | " + binary + " chat " + model + " -n 4 --json"}) {
    std::string output;
    const int status = testing::run_shell("(" + command + " > /dev/full)", &output);
    EXPECT_NE(status, 0) << command;
    EXPECT_TRUE(has(output, "standard output cannot be written")) << command << output;
  }
}

}  // namespace
}  // namespace baltoro
