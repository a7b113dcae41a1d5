// Each command's result on small checkpoints.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "cli/binary.h"
#include "e2e/checkpoint.h"
#include "paths.h"

namespace baltoro {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::has;
using testing::Outcome;
using testing::run_baltoro;
using testing::TempDir;
using testing::text_model;

std::string join(const std::vector<int>& ids) {
  std::ostringstream out;
  for (std::size_t i = 0; i < ids.size(); ++i) out << (i > 0 ? "," : "") << ids[i];
  return out.str();
}

json expected(const std::string& name) {
  return testing::read_json(testing::fixture(name) / "expected.json");
}

std::string fixture_ids(const std::string& name) {
  return join(expected(name)["ids"].get<std::vector<int>>());
}

json run_json(const std::vector<std::string>& arguments, const std::string& input = {}) {
  const Outcome outcome = run_baltoro(arguments, input);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  return json::parse(outcome.out);
}

TEST(CliRun, IdsInIdsOutEqualTheGreedyContinuation) {
  for (const char* name : {"k3", "kimi_linear"}) {
    const std::string greedy = join(expected(name)["greedy"].get<std::vector<int>>());
    const Outcome outcome =
        run_baltoro({"run", testing::fixture(name).string(), "--ids", fixture_ids(name), "-n", "24",
                     "--temperature", "0", "--activations", "f32", "--ignore-stop-ids"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.out, greedy + "\n") << name;
  }
}

TEST(CliRun, JsonTellsIdsReasonCountsAndLogprobs) {
  const json out = run_json({"run", testing::fixture("k3").string(), "--ids", fixture_ids("k3"),
                             "-n", "5", "--temperature", "0", "--activations", "f32", "--logprobs",
                             "3", "--json", "--ignore-stop-ids"});
  auto greedy = expected("k3")["greedy"].get<std::vector<int>>();
  greedy.resize(5);
  EXPECT_EQ(out["ids"], greedy);
  EXPECT_EQ(out["finish_reason"], "length");
  EXPECT_EQ(out["prompt_tokens"], 70);
  EXPECT_EQ(out["completion_tokens"], 5);
  ASSERT_EQ(out["logprobs"].size(), 5u);
  for (const json& step : out["logprobs"]) {
    ASSERT_EQ(step["top"].size(), 3u);
    EXPECT_EQ(step["token"], step["top"][0]["token"]);
    EXPECT_GE(step["top"][0]["logprob"], step["top"][1]["logprob"]);
    EXPECT_LT(step["top"][0]["logprob"], 0);
  }
}

TEST(CliRun, TheSameSeedGivesTheSameTextAndAnotherSeedAnother) {
  const auto text = [](const char* seed) {
    return run_baltoro({"run", text_model().string(), "Once upon a time", "-n", "30",
                        "--temperature", "1", "--seed", seed})
        .out;
  };
  EXPECT_EQ(text("3"), text("3"));
  EXPECT_NE(text("3"), text("4"));
}

// Every default that the help names, given explicitly, changes nothing: a flag that is on though
// its help says off would be seen here.
TEST(CliRun, AnUnsetOptionIsItsDocumentedDefault) {
  const std::vector<std::string> plain = {"run",   text_model().string(), "A cat", "-n", "6",
                                          "--json"};
  const json expected_out = run_json(plain);
  const std::string help = run_baltoro({"run", "--help"}).out;
  int found = 0;
  std::istringstream words(help);  // an option's line begins "--temperature FLOAT=0.7"
  for (std::string option, type; words >> type; option = type) {
    const std::size_t equals = type.find('=');
    if (!option.starts_with("--") || equals == std::string::npos) continue;
    std::vector<std::string> given = plain;
    given.insert(given.end(), {option, type.substr(equals + 1)});
    EXPECT_EQ(run_json(given), expected_out) << option << ' ' << type;
    ++found;
  }
  EXPECT_GE(found, 4) << help;
  // What the help says in words.
  for (const auto& [option, value] :
       std::vector<std::pair<std::string, std::string>>{{"--top-k", "0"},
                                                        {"--top-p", "1"},
                                                        {"--min-p", "0"},
                                                        {"--threads", "0"},
                                                        {"--logprobs", "0"}}) {
    std::vector<std::string> given = plain;
    given.insert(given.end(), {option, value});
    EXPECT_EQ(run_json(given), expected_out) << option;
  }
}

TEST(CliRun, PromptFileAndStandardInputAreTheSame) {
  const TempDir dir;
  testing::write_file(dir.path() / "p", "A cat");
  const std::vector<std::string> common = {"run", text_model().string(), "-n",
                                           "8",   "--temperature",       "0"};
  const auto with = [&](std::vector<std::string> more, const std::string& input = {}) {
    more.insert(more.begin(), common.begin(), common.end());
    return run_baltoro(more, input).out;
  };
  const std::string text = with({"A cat"});
  EXPECT_FALSE(text.empty());
  EXPECT_EQ(with({"--file", (dir.path() / "p").string()}), text);
  EXPECT_EQ(with({}, "A cat"), text);
  EXPECT_EQ(with({"--file", "-"}, "A cat"), text);
}

TEST(CliRun, AStopStringEndsTheTextAndIsNotPartOfIt) {
  const std::vector<std::string> common = {
      "run", text_model().string(), "A cat", "-n", "40", "--json", "--temperature",
      "0",   "--ignore-stop-ids"};
  const std::string whole = run_json(common)["text"];
  ASSERT_GT(whole.size(), 12u);
  // Two letters from the middle, wherever the tokens' borders are.
  std::size_t at = whole.size() / 2;
  while (at < whole.size() && (whole[at] & 0xC0) == 0x80) ++at;
  const std::string stop = whole.substr(at, 2);
  std::vector<std::string> stopped = common;
  stopped.insert(stopped.end(), {"--stop", stop});
  const json out = run_json(stopped);
  EXPECT_EQ(out["text"], whole.substr(0, whole.find(stop)));
  EXPECT_EQ(out["finish_reason"], "stop");
}

TEST(CliRun, ReservedIdsAreNeverSampled) {
  const json out = run_json({"run", text_model().string(), "x", "-n", "300", "--temperature", "50",
                             "--json", "--ignore-stop-ids"});
  const json tokens = run_json({"tokenize", text_model().string(), "--json", "--decode",
                                join(out["ids"].get<std::vector<int>>())});
  for (const json& piece : tokens["pieces"]) {
    EXPECT_FALSE(has(piece.get<std::string>(), "reserved_token")) << piece;
  }
}

TEST(CliRun, StatsGoToStandardErrorAndTellWhatApplied) {
  const TempDir dir;
  fs::copy(text_model(), dir.path() / "m", fs::copy_options::recursive);
  testing::write_file(
      dir.path() / "m" / "generation_config.json",
      R"({"do_sample": true, "temperature": 0.7, "top_p": 0.9, "eos_token_id": [4066, 4065]})");
  const Outcome outcome = run_baltoro(
      {"run", (dir.path() / "m").string(), "A cat", "-n", "4", "--top-p", "0.5", "--stats"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(has(outcome.err, "temperature 0.7, top-k 0, top-p 0.5")) << outcome.err;
  EXPECT_TRUE(has(outcome.err, "stop ids [4066, 4065")) << outcome.err;
  for (const char* part : {"prefill", "tokens/s", "bytes/token", "GB/s", "measured here"}) {
    EXPECT_TRUE(has(outcome.err, part)) << part << "\n" << outcome.err;
  }
  EXPECT_FALSE(has(outcome.out, "tokens/s"));
}

TEST(CliRun, RequestsAreAnsweredLineByLineAndABadOneDoesNotStopTheRest) {
  const std::string requests =
      R"({"id": 1, "prompt": "A cat", "max_tokens": 4})"
      "\n"
      "\n"
      R"({"id": "two", "messages": [{"role": "user", "content": "Hi"}], "thinking": false, "max_tokens": 6})"
      "\n"
      R"({"id": 3})"
      "\n"
      R"(not json)"
      "\n"
      R"({"id": 5, "prompt": "A cat", "max_tokens": 4})"
      "\n";
  const Outcome outcome = run_baltoro({"run", text_model().string(), "--jsonl", "-"}, requests);
  EXPECT_EQ(outcome.status, 1);
  std::istringstream lines(outcome.out);
  std::vector<json> answers;
  for (std::string line; std::getline(lines, line);) answers.push_back(json::parse(line));
  ASSERT_EQ(answers.size(), 5u);
  EXPECT_EQ(answers[0]["id"], 1);
  EXPECT_EQ(answers[0]["completion_tokens"], 4);
  EXPECT_EQ(answers[1]["id"], "two");
  for (const char* key : {"text", "reasoning", "tool_calls", "finish_reason", "prompt_tokens"}) {
    EXPECT_TRUE(answers[1].contains(key)) << key;
  }
  EXPECT_TRUE(has(answers[2]["error"], "either \"prompt\" or \"messages\""));
  EXPECT_TRUE(has(answers[3]["error"], "-:5")) << answers[3];
  EXPECT_EQ(answers[4]["text"], answers[0]["text"]);  // greedy, and nothing leaks between requests
}

// One answer of one request.
json answer(const json& request) {
  const Outcome outcome =
      run_baltoro({"run", text_model().string(), "--jsonl", "-"}, request.dump() + "\n");
  return json::parse(outcome.out);
}

TEST(CliJsonl, KeysAndNumbersThatWouldBeIgnoredAreErrors) {
  const auto error = [](const char* key, const json& value) {
    return answer({{"prompt", "A"}, {key, value}}).value("error", "none");
  };
  EXPECT_TRUE(has(error("temprature", 1), "did you mean \"temperature\"?"));
  EXPECT_TRUE(has(error("logprobs", 1), "the key \"logprobs\" is unknown"));
  EXPECT_TRUE(has(error("tools", json::array()), "no effect without \"messages\""));
  EXPECT_TRUE(has(error("seed", -5), "seed is -5; it must be an integer from 0"));
  EXPECT_TRUE(has(error("max_tokens", UINT64_MAX), "max_tokens is 18446744073709551615; it must"));
  EXPECT_TRUE(has(error("top_k", 1.5), "top_k is 1.5; it must be an integer"));
}

// Two characters of the middle.
std::string middle(const std::string& text) {
  std::size_t at = text.size() / 2;
  while (at < text.size() && (text[at] & 0xC0) == 0x80) ++at;
  std::size_t end = at + 1;
  for (int more = 0; end < text.size() && more < 2; ++end) more += (text[end] & 0xC0) != 0x80;
  return text.substr(at, end - at - 1);
}

TEST(CliJsonl, AStopStringEndsTheAnswerOfAChat) {
  json request = {{"messages", {{{"role", "user"}, {"content", "Hello"}}}},
                  {"thinking", false},
                  {"max_tokens", 40}};
  const json whole = answer(request);
  const std::string text = whole["text"];
  ASSERT_GT(text.size(), 12u) << whole;
  const std::string stop = middle(text);
  request["stop"] = stop;
  const json out = answer(request);
  EXPECT_EQ(out["text"], text.substr(0, text.find(stop))) << stop;
  EXPECT_EQ(out["finish_reason"], "stop");
  EXPECT_LT(out["completion_tokens"], whole["completion_tokens"]);
}

TEST(CliRun, AnEmptyPromptIsNotStandardInput) {
  const Outcome outcome = run_baltoro({"run", text_model().string(), ""}, "A cat");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_TRUE(has(outcome.err, "the prompt is empty")) << outcome.err;
}

TEST(CliRun, ATokenizerOfAnotherModelIsRefused) {
  const TempDir dir;
  fs::copy(testing::fixture("k3"), dir.path() / "m");
  for (const char* name : {"tiktoken.model", "tokenizer_config.json"}) {
    fs::copy_file(test_data_dir() / "tokenizer" / name, dir.path() / "m" / name);
  }
  const Outcome outcome = run_baltoro({"run", (dir.path() / "m").string(), "A cat"});
  EXPECT_EQ(outcome.status, 3) << outcome.err;
  EXPECT_TRUE(has(outcome.err, "m/tiktoken.model")) << outcome.err;
  EXPECT_TRUE(has(outcome.err, "m/config.json")) << outcome.err;
}

TEST(CliTokenize, RoundTripsAndKeepsSpecialStringsApart) {
  const std::string model = text_model().string();
  const std::string text = "Hello [EOS] world";
  const json plain = run_json({"tokenize", model, text, "--json"});
  const json control = run_json({"tokenize", model, text, "--json", "--control"});
  const auto ids = plain["ids"].get<std::vector<int>>();
  EXPECT_TRUE(std::ranges::none_of(ids, [](int id) { return id >= 4064; }));
  const auto control_ids = control["ids"].get<std::vector<int>>();
  EXPECT_EQ(std::ranges::count(control_ids, 4065), 1);
  for (const auto& list : {ids, control_ids}) {
    EXPECT_EQ(run_baltoro({"tokenize", model, "--decode", join(list)}).out, text + "\n");
  }
  EXPECT_EQ(run_baltoro({"tokenize", model, text, "--ids"}).out, join(ids) + "\n");
}

TEST(CliScore, EqualsTheLogprobsOfTheLogits) {
  const TempDir dir;
  const std::string ids = fixture_ids("k3");
  testing::write_file(dir.path() / "ids", ids);
  const json out =
      run_json({"score", testing::fixture("k3").string(), (dir.path() / "ids").string(), "--format",
                "ids", "--activations", "f32", "--json"});
  // From the reference's logits, in double.
  const auto tokens = expected("k3")["ids"].get<std::vector<int>>();
  const std::vector<float> logits =
      testing::read_tensor(testing::fixture("k3") / "expected.safetensors", "logits");
  const std::size_t vocab = logits.size() / tokens.size();
  double nats = 0;
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
    double sum = 0;
    for (std::size_t j = 0; j < vocab; ++j)
      sum += std::exp(static_cast<double>(logits[i * vocab + j]));
    nats += std::log(sum) -
            static_cast<double>(logits[i * vocab + static_cast<std::size_t>(tokens[i + 1])]);
  }
  EXPECT_EQ(out["total"]["predicted_tokens"], 69);
  EXPECT_NEAR(out["total"]["nats"].get<double>(), nats, 1e-3);
}

TEST(CliScore, SeparatedDocumentsDoNotSeeEachOther) {
  const TempDir dir;
  const auto nats = [&](const std::string& text) {
    testing::write_file(dir.path() / "t", text);
    const json out = run_json({"score", text_model().string(), (dir.path() / "t").string(),
                               "--separator", "[EOS]", "--json"});
    return out["total"];
  };
  const json one = nats("The cat sat on the mat.[EOS]"), two = nats("A dog ran away.[EOS]");
  const json both = nats("The cat sat on the mat.[EOS]A dog ran away.[EOS]");
  EXPECT_EQ(both["documents"], 2);
  EXPECT_EQ(both["bytes"], one["bytes"].get<int>() + two["bytes"].get<int>());
  EXPECT_NEAR(both["nats"], one["nats"].get<double>() + two["nats"].get<double>(), 1e-9);
}

TEST(CliScore, OverlappingWindowsScoreEachTokenOnce) {
  const TempDir dir;
  std::vector<int> ids;
  for (int i = 0; i < 300; ++i) ids.push_back(i * 31 % 90);
  testing::write_file(dir.path() / "ids", join(ids));
  for (const char* stride : {"64", "17", "100"}) {
    const json out =
        run_json({"score", testing::fixture("k3").string(), (dir.path() / "ids").string(),
                  "--format", "ids", "--context", "100", "--stride", stride, "--json"});
    EXPECT_EQ(out["total"]["predicted_tokens"], 299) << stride;
  }
}

TEST(CliCompare, TheSameSideTwiceIsIdentical) {
  const Outcome outcome = run_baltoro({"compare", testing::fixture("k3").string(), "cpu",
                                       "cpu:threads=2", "--ids", fixture_ids("k3")});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out.find("identical\n"), 0u) << outcome.out;
}

TEST(CliCompare, EveryVariantAgreesWithTheReferenceOpByOp) {
  for (const auto& entry : fs::directory_iterator(testing::fixture(""))) {
    if (!entry.is_directory()) continue;
    const std::string name = entry.path().filename().string();
    const json out = run_json({"compare", entry.path().string(), "cpu:activations=f32",
                               "reference:activations=f32", "--ids", fixture_ids(name), "--json"});
    EXPECT_EQ(out["verdict"], "agree") << name << out;
    EXPECT_EQ(out["positions"], 86) << name;
    EXPECT_TRUE(out["first_exceeding"].is_null()) << name << out;
    EXPECT_FALSE(out["nearest"].is_null()) << name;
  }
}

TEST(CliCompare, Bf16AgainstF32StaysWithinTheToleranceOfBf16) {
  const json out =
      run_json({"compare", testing::fixture("kda_only").string(), "cpu:activations=bf16",
                "cpu:activations=f32", "--ids", fixture_ids("kda_only"), "--json"});
  EXPECT_GT(out["nmse"].get<double>(), 1e-9);
  EXPECT_TRUE(out["first_exceeding"].is_null()) << out;
}

TEST(CliInspect, JsonOfAModelNamesLayersAndFiles) {
  const json out = run_json({"inspect", testing::fixture("k3").string(), "--json"});
  EXPECT_TRUE(has(out["layers"], "M"));
  EXPECT_TRUE(has(out["layers"], "k"));
  EXPECT_EQ(out["files"]["tensors"], out["tensors"]);
  EXPECT_EQ(out["files"]["bytes"], out["bytes"]);
}

TEST(CliInspect, VerifySaysWhatDoesNotFitTheConfiguration) {
  const TempDir dir;
  fs::copy(testing::fixture("k3"), dir.path() / "m");
  const std::string model = (dir.path() / "m").string();
  EXPECT_TRUE(run_json({"inspect", model, "--verify", "--json"})["verify"]["fault"].is_null());
  const fs::path file = dir.path() / "m" / "model.safetensors";
  std::string bytes = testing::read_file(file);
  bytes.replace(bytes.find("embed_tokens.weight"), 12, "embed_tokenz");
  testing::write_file(file, bytes);
  const Outcome outcome = run_baltoro({"inspect", model, "--verify"});
  EXPECT_EQ(outcome.status, 3);
  EXPECT_TRUE(has(outcome.out, "embed_tokens.weight")) << outcome.out;
  const json verify =
      json::parse(run_baltoro({"inspect", model, "--verify", "--json"}).out)["verify"];
  EXPECT_TRUE(has(verify["fault"], "embed_tokens.weight")) << verify["fault"];
}

TEST(CliInspect, ColumnsStandInLineAndOneIsSingular) {
  const std::string out = run_baltoro({"inspect", testing::fixture("k3").string()}).out;
  EXPECT_FALSE(has(out, " 1 tensors")) << out;
  std::istringstream lines(out);
  std::set<std::size_t> ends;
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with(" parameters")) ends.insert(line.size());
  }
  EXPECT_EQ(ends.size(), 1u) << out;
}

TEST(CliSynth, IsDeterministicBySeedAndRuns) {
  const TempDir dir;
  const std::string config = (testing::fixture("k3") / "config.json").string();
  const auto make = [&](const char* name, const char* seed) {
    const Outcome outcome = run_baltoro(
        {"synth", config, (dir.path() / name).string(), "--seed", seed, "--shards", "2"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return run_baltoro({"run", (dir.path() / name).string(), "--ids", "1,2,3", "-n", "6",
                        "--temperature", "0", "--ignore-stop-ids"})
        .out;
  };
  const std::string a = make("a", "1"), b = make("b", "1"), c = make("c", "2");
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
  std::set<std::string> files;
  for (const auto& entry : fs::directory_iterator(dir.path() / "a")) {
    if (entry.path().extension() != ".safetensors") continue;
    files.insert(entry.path().filename().string());
    EXPECT_EQ(testing::read_file(entry.path()),
              testing::read_file(dir.path() / "b" / entry.path().filename()));
  }
  EXPECT_EQ(files.size(), 2u);
}

TEST(CliChat, AnswersEachLineAndKnowsItsCommands) {
  const Outcome outcome =
      run_baltoro({"chat", text_model().string(), "--temperature", "0", "-n", "8", "--json"},
                  "Hello\n/help\n/system Be brief\n/tools\nHow "
                  "are\\\nyou?\n/nonsense\n/reset\nHello\n/quit\nunread\n");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  std::istringstream lines(outcome.out);
  std::vector<json> answers;
  for (std::string line; std::getline(lines, line);) answers.push_back(json::parse(line));
  ASSERT_EQ(answers.size(), 3u) << outcome.out;
  EXPECT_TRUE(has(outcome.err, "/reset"));
  EXPECT_TRUE(has(outcome.err, "with this system message"));
  EXPECT_TRUE(has(outcome.err, "Tools are on"));
  EXPECT_TRUE(has(outcome.err, "Unknown command /nonsense"));
}

TEST(CliChat, ALaterTurnReadsOnlyWhatIsNew) {
  // So long that even an answer which is read again, because its text encodes to other tokens, is
  // far shorter.
  std::string story = "Tell me a long story about a fox";
  for (int i = 0; i < 30; ++i) story += " and a hen and a dog";
  const Outcome outcome = run_baltoro(
      {"chat", text_model().string(), "--temperature", "0", "-n", "8", "--json", "--no-thinking"},
      story + ", please.\nMore\n");
  std::istringstream lines(outcome.out);
  std::string first, second;
  std::getline(lines, first);
  std::getline(lines, second);
  EXPECT_LT(json::parse(second)["prompt_tokens"], json::parse(first)["prompt_tokens"])
      << outcome.out;
}

TEST(CliChat, AStopStringEndsTheContent) {
  const std::vector<std::string> common = {
      "chat", text_model().string(), "--temperature", "0", "-n", "40", "--json", "--no-thinking"};
  const json whole = run_json(common, "Hello\n");
  const std::string text = whole["text"];
  ASSERT_GT(text.size(), 12u) << whole;
  const std::string stop = middle(text);
  std::vector<std::string> stopped = common;
  stopped.insert(stopped.end(), {"--stop", stop});
  const json out = run_json(stopped, "Hello\n");
  EXPECT_EQ(out["text"], text.substr(0, text.find(stop))) << stop;
  EXPECT_EQ(out["finish_reason"], "stop");
}

TEST(CliChat, CountsThePromptTokensThatWereReadAfterARewind) {
  // Forty tokens drawn at random are never what their text encodes to, so the second prompt leaves
  // the session's tokens within the first answer.
  const Outcome outcome = run_baltoro({"chat", text_model().string(), "--temperature", "50",
                                       "--seed", "3", "-n", "40", "--json", "--no-thinking"},
                                      "Hello\nMore\n");
  std::istringstream lines(outcome.out);
  std::string first, second;
  std::getline(lines, first);
  std::getline(lines, second);
  const json before = json::parse(first);
  const json all = answer({{"messages",
                            {{{"role", "user"}, {"content", "Hello"}},
                             {{"role", "assistant"}, {"content", before["text"]}},
                             {{"role", "user"}, {"content", "More"}}}},
                           {"thinking", false},
                           {"max_tokens", 1}});
  EXPECT_EQ(json::parse(second)["prompt_tokens"],
            all["prompt_tokens"].get<int>() - before["prompt_tokens"].get<int>());
}

TEST(CliChat, AFailedTurnIsInTheOutputAndTheExitStatus) {
  const Outcome outcome =
      run_baltoro({"chat", text_model().string(), "--temperature", "-1", "--json"}, "Hello\n");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(has(json::parse(outcome.out)["error"], "temperature is -1")) << outcome.out;
}

TEST(CliChat, CtrlCStopsTheAnswerNotTheProgram) {
  const Outcome outcome = testing::interrupt_baltoro(
      {"chat", text_model().string(), "--temperature", "1", "-n", "1000000", "--ignore-stop-ids"},
      "Hello\n/help\n", 1);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(has(outcome.err, "(stopped)")) << outcome.err;
  EXPECT_TRUE(has(outcome.err, "forget the conversation")) << "the next line was not read";
}

}  // namespace
}  // namespace baltoro
