// Answers held to a schema or to a call, by the small model that comes with the project and by one of
// random weights.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cli/binary.h"

namespace baltoro {
namespace {

using nlohmann::json;
using testing::has;

const std::string kStory = BALTORO_SOURCE_DIR "/models/story";

// The stop ids of the random model's configuration are ordinary tokens: those of the format alone
// hold.
std::vector<json> answers(const std::string& model, const std::vector<json>& requests) {
  std::string input;
  for (const json& request : requests) input += request.dump() + "\n";
  const auto outcome =
      testing::run_baltoro({"run", model, "--jsonl", "-", "--ignore-stop-ids"}, input);
  std::vector<json> out;
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) out.push_back(json::parse(line));
  EXPECT_EQ(out.size(), requests.size()) << outcome.err;
  return out;
}

json chat(const std::string& text) {
  return {{"messages", {{{"role", "user"}, {"content", text}}}}, {"max_tokens", 400}};
}

const json kPerson = json::parse(R"({"type":"object","required":["name","age","kind"],
  "additionalProperties":false,"properties":{"name":{"type":"string"},"age":{"type":"integer"},
  "kind":{"enum":["boy","girl"]}}})");

json with_schema(json request, const json& schema) {
  request["response_format"] = {{"type", "json_schema"},
                                {"json_schema", {{"name", "answer"}, {"schema", schema}}}};
  return request;
}

TEST(CliStructuredOutput, TheContentIsJsonOfTheSchemaBehindFreeReasoning) {
  std::vector<json> requests;
  for (const char* effort : {"low", "max"}) {
    requests.push_back(with_schema(chat("Tom has 3 apples. Who has the apples?"), kPerson));
    requests.back()["thinking_effort"] = effort;
  }
  requests.push_back(with_schema(chat("What is 12 + 7?"), kPerson));
  requests.back()["thinking"] = false;
  for (const json& answer : answers(kStory, requests)) {
    ASSERT_EQ(answer.value("finish_reason", ""), "stop") << answer;
    const json content = json::parse(answer["text"].get<std::string>());
    EXPECT_TRUE(content["name"].is_string() && content["age"].is_number_integer()) << content;
    EXPECT_TRUE(content["kind"] == "boy" || content["kind"] == "girl") << content;
    EXPECT_EQ(content.size(), 3u);
  }
}

TEST(CliStructuredOutput, ARequiredCallComesWithItsArguments) {
  json request = chat("What is 12 + 7?");
  request["tools"] = json::parse(R"([{"type":"function","function":{"name":"calculator",
    "description":"Adds","parameters":{"type":"object","properties":{"expression":{"type":"string"},
    "digits":{"type":"integer"}},"required":["expression","digits"]}}},
    {"type":"function","function":{"name":"note","parameters":{"type":"object","properties":{
    "tags":{"type":"array","items":{"enum":["a","b"]},"minItems":1,"maxItems":2}},
    "required":["tags"]}}}])");
  request["tool_choice"] = "required";
  json named = request;
  named["tool_choice"] = {{"type", "function"}, {"function", {{"name", "note"}}}};
  const std::vector<json> out = answers(kStory, {request, named});
  for (const json& answer : out) {
    ASSERT_EQ(answer.value("finish_reason", ""), "tool_calls") << answer;
    ASSERT_FALSE(answer["tool_calls"].empty());
  }
  for (const json& call : out[0]["tool_calls"]) {
    const json arguments = json::parse(call["arguments"].get<std::string>());
    if (call["name"] == "calculator") {
      EXPECT_TRUE(arguments["expression"].is_string()) << arguments;
      EXPECT_TRUE(arguments["digits"].is_number_integer()) << arguments;
    }
  }
  ASSERT_EQ(out[1]["tool_calls"].size(), 1u);
  EXPECT_EQ(out[1]["tool_calls"][0]["name"], "note");
  const json arguments = json::parse(out[1]["tool_calls"][0]["arguments"].get<std::string>());
  ASSERT_TRUE(arguments["tags"].size() == 1 || arguments["tags"].size() == 2) << arguments;
  for (const json& tag : arguments["tags"]) EXPECT_TRUE(tag == "a" || tag == "b") << tag;
}

TEST(CliStructuredOutput, RandomWeightsCannotLeaveTheSchema) {
  std::vector<json> requests;
  for (int seed = 0; seed < 8; ++seed) {
    requests.push_back(with_schema(chat("x"), json::parse(R"({"type":"array","minItems":2,
      "maxItems":3,"items":{"type":["boolean","null"]}})")));
    requests.back().update({{"thinking", false}, {"temperature", 1}, {"seed", seed}});
  }
  for (const json& answer : answers(testing::text_model().string(), requests)) {
    ASSERT_EQ(answer.value("finish_reason", ""), "stop") << answer;
    const json content = json::parse(answer["text"].get<std::string>());
    ASSERT_TRUE(content.size() == 2 || content.size() == 3) << content;
    for (const json& item : content) EXPECT_TRUE(item.is_boolean() || item.is_null());
  }
}

TEST(CliStructuredOutput, AnAnswerThatIsCutOffSaysSo) {
  json request = with_schema(chat("x"), json::parse(R"({"type":"array","minItems":50})"));
  request.update({{"thinking", false}, {"max_tokens", 20}});
  const json answer = answers(kStory, {request}).at(0);
  EXPECT_EQ(answer["finish_reason"], "length");
}

TEST(CliStructuredOutput, ASchemaThatIsNotSupportedIsAnErrorWithItsPath) {
  const json answer =
      answers(kStory, {with_schema(chat("x"), {{"type", "string"}, {"pattern", "a"}})}).at(0);
  EXPECT_TRUE(has(answer.value("error", ""), "response_format.json_schema.schema.pattern"))
      << answer;
}

}  // namespace
}  // namespace baltoro
