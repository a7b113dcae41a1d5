// The interfaces over the small model that ships with the project, through the real scheduler.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "baltoro/engine.h"
#include "baltoro/scheduler.h"
#include "paths.h"
#include "serve/api/api.h"
#include "serve/api/collecting_reply.h"

namespace baltoro::serve {
namespace {

// The tools that the model was trained with.
constexpr const char* kTools =
    R"("tools": [{"type": "function", "function": {"name": "calculator",
      "description": "Works out an arithmetic expression.", "parameters": {"type": "object",
      "properties": {"expression": {"type": "string"}}, "required": ["expression"]}}},
     {"type": "function", "function": {"name": "clock", "description": "Tells the time.",
      "parameters": {"type": "object", "properties": {"place": {"type": "string"}}}}}])";
constexpr const char* kQuestion = R"({"role": "user", "content": "What is 17 + 25?"})";

class Story : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const std::filesystem::path dir = source_dir() / "models/story";
    engine_ = Engine::load(dir);
    tokenizer_ = std::make_unique<Tokenizer>(Tokenizer::load(dir));
    format_ = std::make_unique<ChatFormat>(ChatFormat::load(*tokenizer_, dir));
  }
  static void TearDownTestSuite() {
    format_.reset();
    tokenizer_.reset();
    engine_.reset();
  }

  std::shared_ptr<CollectingReply> post(const std::string& path, const std::string& body,
                                        int status = 200) {
    auto reply = std::make_shared<CollectingReply>();
    HttpRequest request;
    request.method = "POST";
    request.path = path;
    request.body = body;
    request.client_address = "127.0.0.1";
    api_.handle(request, reply);
    EXPECT_TRUE(reply->wait()) << body;
    EXPECT_EQ(reply->status(), status) << reply->body();
    return reply;
  }

  Json chat(const std::string& messages, const std::string& fields) {
    return post("/v1/chat/completions",
                R"({"temperature": 0, "messages": [)" + messages + "], " + fields + "}")
        ->json();
  }

  static std::shared_ptr<Engine> engine_;
  static std::unique_ptr<Tokenizer> tokenizer_;
  static std::unique_ptr<ChatFormat> format_;
  Scheduler scheduler_{engine_};
  Api api_{serve_model(scheduler_, *tokenizer_, *format_, {.names = {"story"}})};
};

std::shared_ptr<Engine> Story::engine_;
std::unique_ptr<Tokenizer> Story::tokenizer_;
std::unique_ptr<ChatFormat> Story::format_;

TEST_F(Story, CallsItsCalculatorAndUsesTheResult) {
  const Json first = chat(kQuestion, kTools);
  const Json& message = first["choices"][0]["message"];
  EXPECT_EQ(first["choices"][0]["finish_reason"], "tool_calls");
  ASSERT_EQ(message["tool_calls"].size(), 1u) << first.dump();
  const Json& call = message["tool_calls"][0];
  EXPECT_EQ(call["function"]["name"], "calculator");
  EXPECT_EQ(Json::parse(call["function"]["arguments"].get<std::string>())["expression"], "17 + 25");
  EXPECT_FALSE(message["reasoning_content"].get<std::string>().empty());

  const Json result = {{"role", "tool"}, {"tool_call_id", call["id"]}, {"content", "42"}};
  const Json second =
      chat(std::string(kQuestion) + "," + message.dump() + "," + result.dump(), kTools);
  const std::string content = second["choices"][0]["message"]["content"];
  EXPECT_NE(content.find("42"), std::string::npos) << content;
  EXPECT_EQ(second["choices"][0]["finish_reason"], "stop");
  // The second prompt goes on from the state that the first answer left: what is read is the result.
  const auto prompt = second["usage"]["prompt_tokens"].get<int>();
  const auto cached = second["usage"]["prompt_tokens_details"]["cached_tokens"].get<int>();
  EXPECT_GE(cached, first["usage"]["prompt_tokens"].get<int>());
  EXPECT_LT(prompt - cached, 40) << second["usage"].dump();
}

TEST_F(Story, TheInterfacesAgree) {
  const Json chat_answer = chat(kQuestion, std::string("\"reasoning_effort\": \"max\", ") + kTools);
  const Json message =
      post(
          "/v1/messages",
          R"({"max_tokens": 200, "temperature": 0, "thinking": {"type": "enabled", "budget_tokens": 1024},
               "messages": [{"role": "user", "content": "What is 17 + 25?"}],
               "tools": [{"name": "calculator", "description": "Works out an arithmetic expression.",
                          "input_schema": {"type": "object", "properties": {"expression": {"type": "string"}},
                          "required": ["expression"]}},
                         {"name": "clock", "description": "Tells the time.", "input_schema":
                          {"type": "object", "properties": {"place": {"type": "string"}}}}]})")
          ->json();
  const Json& expected = chat_answer["choices"][0]["message"];
  EXPECT_EQ(message["stop_reason"], "tool_use");
  ASSERT_FALSE(message["content"].empty());
  EXPECT_EQ(message["content"].front()["thinking"], expected["reasoning_content"]);
  EXPECT_EQ(message["content"].back()["input"]["expression"], "17 + 25");
}

TEST_F(Story, TheSameSeedGivesTheSameText) {
  const std::string body = R"({"prompt": "Once upon a time", "seed": 7, "max_tokens": 40, "n": 2})";
  const Json a = post("/v1/completions", body)->json();
  const Json b = post("/v1/completions", body)->json();
  EXPECT_EQ(a["choices"], b["choices"]);
  EXPECT_NE(a["choices"][0]["text"], a["choices"][1]["text"]);
  EXPECT_EQ(a["usage"]["completion_tokens"], 80);
}

TEST_F(Story, LogprobsAreProbabilities) {
  const Json json = chat(R"({"role": "user", "content": "What is 2 + 2?"})",
                         R"("logprobs": true, "top_logprobs": 3, "reasoning_effort": "none")");
  const Json& tokens = json["choices"][0]["logprobs"]["content"];
  ASSERT_FALSE(tokens.empty()) << json.dump();
  std::string text;
  for (const Json& token : tokens) {
    EXPECT_LE(token["logprob"], 0.0);
    ASSERT_EQ(token["top_logprobs"].size(), 3u);
    EXPECT_EQ(token["top_logprobs"][0]["token"], token["token"]);  // greedy
    text += token["token"].get<std::string>();
  }
  EXPECT_EQ(text, json["choices"][0]["message"]["content"]);
}

TEST_F(Story, AnAnswerFollowsItsSchema) {
  const std::string format =
      R"("n": 2, "temperature": 1, "max_tokens": 400, "response_format": {"type": "json_schema",
    "json_schema": {"name": "pick", "schema": {"type": "object", "properties": {
      "colour": {"enum": ["red", "blue"]}, "count": {"type": "integer"}},
      "required": ["colour", "count"], "additionalProperties": false}}})";
  const Json answer =
      post("/v1/chat/completions",
           R"({"messages": [{"role": "user", "content": "Name a colour."}], )" + format + "}")
          ->json();
  for (const Json& choice : answer["choices"]) {
    ASSERT_EQ(choice["finish_reason"], "stop") << answer.dump();
    const Json value = Json::parse(choice["message"]["content"].get<std::string>());
    EXPECT_EQ(value.size(), 2u);
    EXPECT_TRUE(value["colour"] == "red" || value["colour"] == "blue") << value.dump();
    EXPECT_TRUE(value["count"].is_number_integer()) << value.dump();
  }
}

TEST_F(Story, ASchemaThatIsNotSupportedIsNamed) {
  const Json error =
      post(
          "/v1/chat/completions",
          R"({"messages": [{"role": "user", "content": "Hello"}], "response_format": {"type": "json_schema",
              "json_schema": {"name": "x", "schema": {"type": "string", "pattern": "a+"}}}})",
          400)
          ->json()["error"];
  EXPECT_EQ(error["param"], "response_format.json_schema.schema.pattern") << error.dump();
}

TEST_F(Story, ARequiredCallIsMade) {
  const Json answer =
      chat(R"({"role": "user", "content": "Tell me a story."})",
           std::string(R"("tool_choice": "required", "max_tokens": 400, )") + kTools);
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "tool_calls") << answer.dump();
  EXPECT_FALSE(answer["choices"][0]["message"]["tool_calls"].empty());
}

TEST_F(Story, AClientThatGoesEndsItsRequest) {
  auto reply = std::make_shared<CollectingReply>();
  HttpRequest request;
  request.method = "POST";
  request.path = "/v1/completions";
  request.body = R"({"prompt": "Once", "max_tokens": 100000, "stream": true, "ignore_eos": true})";
  api_.handle(request, reply);
  ASSERT_TRUE(reply->wait_for_write());
  reply->hang_up();
  EXPECT_TRUE(scheduler_.drain(std::chrono::seconds(10)));
  EXPECT_EQ(scheduler_.stats().cancelled, 1u);
}

}  // namespace
}  // namespace baltoro::serve
