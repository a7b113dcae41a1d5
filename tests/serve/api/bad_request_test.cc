// What clients get wrong: the right status, and the path of the field.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "serve/api/fake_model.h"

namespace baltoro::serve {
namespace {

struct Case {
  std::string body;
  std::string param;  // empty: null
  std::string message;
};

void expect_bad(FakeServer& server, const std::string& path, const Case& c) {
  const auto reply = server.post(path, c.body);
  EXPECT_EQ(reply->status(), 400) << c.body;
  const Json json = reply->json();
  ASSERT_TRUE(json.contains("error")) << reply->body();
  const Json& error = json["error"];
  EXPECT_EQ(error["type"], "invalid_request_error");
  EXPECT_EQ(error["param"], c.param.empty() ? Json() : Json(c.param)) << c.body << error.dump();
  EXPECT_NE(error["message"].get<std::string>().find(c.message), std::string::npos)
      << error.dump() << " lacks " << c.message;
}

std::string with(const std::string& fields) {
  return R"({"messages": [{"role": "user", "content": "hi"}], )" + fields + "}";
}

TEST(BadRequest, AWrongFieldOfAChatIsNamedByItsPath) {
  FakeServer server;
  const std::vector<Case> cases = {
      {"", "", "line 1"},
      {"{", "", "line 1, column 2"},
      {"[]", "", "expected an object, found an array"},
      {"{\"messages\": [{\"role\": \"user\", \"content\": \"\xC3(\"}]}", "", "not UTF-8"},
      {std::string(300, '['), "", "nested deeper"},
      {"{}", "messages", "expected an array of messages, found nothing"},
      {R"({"messages": []})", "messages", "at least one"},
      {R"({"messages": "hi"})", "messages", "found a string"},
      {R"({"messages": [1]})", "messages[0]", "found a number"},
      {R"({"messages": [{"content": "x"}]})", "messages[0].role", "found nothing"},
      {R"({"messages": [{"role": "robot", "content": "x"}]})", "messages[0].role", "robot"},
      {R"({"messages": [{"role": "user", "content": 7}]})", "messages[0].content", "a number"},
      {R"({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]})",
       "messages[0].content[0]", "image_url"},
      {R"({"messages": [{"role": "user", "content": [{"type": "text"}]}]})",
       "messages[0].content[0].text", "found nothing"},
      {with(R"("temperature": "hot")"), "temperature", "expected a number, found a string"},
      {with(R"("temperature": -1)"), "temperature", "out of range"},
      {with(R"("temperature": 1e999)"), "temperature", "too large"},
      {with(R"("top_p": 0)"), "top_p", "above 0"},
      {with(R"("top_p": 2)"), "top_p", "[0, 1]"},
      {with(R"("min_p": -0.1)"), "min_p", "out of range"},
      {with(R"("top_k": 1.5)"), "top_k", "integer"},
      {with(R"("n": 0)"), "n", "[1, 128]"},
      {with(R"("n": "2")"), "n", "found a string"},
      {with(R"("max_tokens": 0)"), "max_tokens", "out of range"},
      {with(R"("max_completion_tokens": 0)"), "max_completion_tokens", "out of range"},
      {with(R"("seed": "x")"), "seed", "found a string"},
      {with(R"("stop": 3)"), "stop", "a string or an array"},
      {with(R"("stop": ["a", ""])"), "stop[1]", "at least one character"},
      {with(R"("stop": ["a", 1])"), "stop[1]", "found a number"},
      {with(R"("stream": "yes")"), "stream", "a boolean"},
      {with(R"("stream_options": {"include_usage": true})"), "stream_options", "stream"},
      {with(R"("logit_bias": {"x": 1})"), "logit_bias", "no token id"},
      {with(R"("logit_bias": {"99999": 1})"), "logit_bias", "no token id"},
      {with(R"("logit_bias": {"5": 101})"), "logit_bias.5", "[-100, 100]"},
      {with(R"("logprobs": 1)"), "logprobs", "a boolean"},
      {with(R"("top_logprobs": 2)"), "top_logprobs", "logprobs"},
      {with(R"("logprobs": true, "top_logprobs": 21)"), "top_logprobs", "[0, 20]"},
      {with(R"("presence_penalty": 3)"), "presence_penalty", "[-2, 2]"},
      {with(R"("repetition_penalty": 0)"), "repetition_penalty", "out of range"},
      {with(R"("reasoning_effort": "hard")"), "reasoning_effort", "found \"hard\""},
      {with(R"("response_format": "json")"), "response_format", "an object"},
      {with(R"("response_format": {"type": "yaml"})"), "response_format.type", "yaml"},
      {with(R"("response_format": {"type": "json_schema"})"), "response_format.json_schema",
       "found nothing"},
      {with(R"("tools": {})"), "tools", "found an object"},
      {with(R"("tools": [{"type": "web_search"}])"), "tools[0].type", "web_search"},
      {with(R"("tools": [{"type": "function"}])"), "tools[0].function", "found nothing"},
      {with(R"("tools": [{"type": "function", "function": {"name": 1}}])"),
       "tools[0].function.name", "found a number"},
      {with(R"("tool_choice": "maybe")"), "tool_choice", "maybe"},
      {with(R"("tool_choice": {"type": "function", "function": {"name": "f"}})"), "tool_choice",
       "no tool"},
      {with(R"("parallel_tool_calls": 1)"), "parallel_tool_calls", "a boolean"},
  };
  for (const Case& c : cases) expect_bad(server, "/v1/chat/completions", c);
  EXPECT_TRUE(server.scheduler.requests.empty());
}

TEST(BadRequest, AWrongFieldOfACompletionIsNamedByItsPath) {
  FakeServer server;
  const std::vector<Case> cases = {
      {"{}", "prompt", "found nothing"},
      {R"({"prompt": ""})", "prompt", "empty"},
      {R"({"prompt": []})", "prompt", "empty"},
      {R"({"prompt": {}})", "prompt", "found an object"},
      {R"({"prompt": [1, "a"]})", "prompt[1]", "a token id"},
      {R"({"prompt": [1, 99999]})", "prompt[1]", "out of range"},
      {R"({"prompt": [[1], [-1]]})", "prompt[1][0]", "out of range"},
      {R"({"prompt": ["a", true]})", "prompt[1]", "a boolean"},
      {R"({"prompt": "a", "suffix": "b"})", "suffix", "leave it out"},
      {R"({"prompt": "a", "best_of": 3})", "best_of", "differs from n"},
      {R"({"prompt": "a", "logprobs": true})", "logprobs", "found a boolean"},
      {R"({"prompt": "a", "logprobs": 50})", "logprobs", "[0, 20]"},
      {R"({"prompt": "a", "logprobs": 1, "echo": true})", "echo", "logprobs"},
  };
  for (const Case& c : cases) expect_bad(server, "/v1/completions", c);
}

TEST(BadRequest, APromptBeyondTheContextHasItsOwnCode) {
  FakeServer server;
  const std::string message =
      R"({"messages": [{"role": "user", "content": ")" + std::string(30000, 'x') + "\"}]}";
  const auto reply = server.chat(message);
  EXPECT_EQ(reply->status(), 400);
  EXPECT_EQ(reply->json()["error"]["code"], "context_length_exceeded");
  EXPECT_EQ(reply->json()["error"]["param"], "messages");
  const auto long_answer = server.chat(with(R"("max_tokens": 20000)"));
  EXPECT_EQ(long_answer->json()["error"]["code"], "context_length_exceeded");
  EXPECT_EQ(server.chat(with(R"("max_tokens": 10000)"))->status(), 200);
  const auto room = 20000 - static_cast<std::int64_t>(server.prompt().size());
  const auto asking = [&](std::int64_t tokens) {
    return server.chat(with(fmt::format(R"("max_tokens": {})", tokens)))->status();
  };
  EXPECT_EQ(asking(room), 200);
  EXPECT_EQ(asking(room + 1), 400);
  // Without a length the answer gets what is left.
  const auto rest = server.chat(R"({"messages": [{"role": "user", "content": ")" +
                                std::string(18000, 'x') + "\"}]}");
  EXPECT_EQ(rest->status(), 200);
  const GenerationRequest& request = server.scheduler.requests.back();
  EXPECT_EQ(static_cast<std::int64_t>(request.prompt.size()) + request.max_tokens, 20000);
}

TEST(BadRequest, ABodyOfManyValuesIsRefused) {
  FakeServer server;
  std::string body = R"({"messages": [)";
  for (int i = 0; i < (1 << 21); ++i) body += "0,";
  const auto reply = server.chat(body + "0]}");
  EXPECT_EQ(reply->status(), 400);
  EXPECT_NE(reply->body().find("more than"), std::string::npos);
}

TEST(BadRequest, AnUnknownModelIsNotFound) {
  FakeServer server;
  for (const char* path : {"/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize"}) {
    const auto reply = server.post(
        path, R"({"model": "gpt", "prompt": "a", "messages": [{"role": "user", "content": "a"}]})");
    EXPECT_EQ(reply->status(), 404) << path;
    EXPECT_EQ(reply->json()["error"]["code"], "model_not_found") << path;
    EXPECT_EQ(reply->json()["error"]["param"], "model") << path;
  }
  EXPECT_EQ(
      server.chat(R"({"model": "alias/tiny", "messages": [{"role": "user", "content": "a"}]})")
          ->status(),
      200);
}

TEST(BadRequest, ARouteThatIsNotThereIsNotFound) {
  FakeServer server;
  for (const char* path : {"/", "/v1", "/v1/models/", "/v1/chat/completions/", "/etc/passwd"}) {
    const auto reply = server.start("GET", path, "");
    EXPECT_EQ(reply->status(), 404) << path;
    EXPECT_EQ(reply->json()["error"]["code"], "not_found") << path;
  }
  const auto reply = server.start("GET", "/v1/chat/completions", "");
  EXPECT_EQ(reply->status(), 405);
  EXPECT_EQ(*reply->headers().find("Allow"), "POST");
  EXPECT_EQ(server.start("POST", "/v1/models", "")->status(), 405);
}

TEST(BadRequest, AChatNeedsAChatFormat) {
  FakeServer server;
  Model plain = server.model();
  plain.format.reset();
  Api api(std::move(plain));
  const auto reply = std::make_shared<CollectingReply>();
  HttpRequest request;
  request.method = "POST";
  request.path = "/v1/chat/completions";
  request.body = with("\"n\": 1");
  api.handle(request, reply);
  EXPECT_EQ(reply->status(), 400);
  EXPECT_NE(reply->body().find("chat format"), std::string::npos);
}

}  // namespace
}  // namespace baltoro::serve
