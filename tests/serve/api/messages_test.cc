// /v1/messages, Anthropic's interface, over a scripted model.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "serve/api/fake_model.h"

namespace baltoro::serve {
namespace {

constexpr const char* kThinkEnd = "<|close|>think<|sep|><|open|>response<|sep|>";
constexpr const char* kEnd = "<|close|>response<|sep|><|close|>message<|sep|><|end_of_msg|>";

std::string request(const std::string& fields = "") {
  return R"({"model": "tiny", "max_tokens": 500, "messages": [{"role": "user", "content": "hi"}])" +
         (fields.empty() ? "" : ", " + fields) + "}";
}

std::string call_of(const std::string& name, const std::string& key, const std::string& value) {
  return "<|close|>response<|sep|><|open|>tools<|sep|><|open|>call tool=\"" + name +
         "\" index=\"1\"<|sep|><|open|>argument key=\"" + key + "\" type=\"string\"<|sep|>" +
         value +
         "<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|>"
         "<|end_of_msg|>";
}

constexpr const char* kThinking = R"("thinking": {"type": "enabled", "budget_tokens": 100})";
constexpr const char* kTools =
    R"("tools": [{"name": "add", "description": "Adds.", "input_schema": {"type": "object", "properties": {"a": {"type": "string"}}}}])";

TEST(Messages, AWholeAnswerHasAnthropicsShape) {
  FakeServer server;
  server.scheduler.answers = {"Hello!" + std::string(kEnd)};
  server.scheduler.reused_tokens = 3;
  const auto reply = server.post("/v1/messages", request());
  ASSERT_EQ(reply->status(), 200) << reply->body();
  Json json = reply->json();
  EXPECT_TRUE(json["id"].get<std::string>().starts_with("msg_"));
  json["id"] = "ID";
  EXPECT_EQ(json.dump(),
            fmt::format(R"({{"id":"ID","type":"message","role":"assistant","model":"tiny",)"
                        R"("content":[{{"type":"text","text":"Hello!"}}],"stop_reason":"end_turn",)"
                        R"("stop_sequence":null,"usage":{{"input_tokens":{},)"
                        R"("cache_creation_input_tokens":0,"cache_read_input_tokens":3,)"
                        R"("output_tokens":{}}}}})",
                        server.prompt().size() - 3,
                        server.tokenizer.encode_control("Hello!" + std::string(kEnd)).size()));
  EXPECT_TRUE(server.tokenizer.decode(server.prompt()).ends_with("<|open|>response<|sep|>"));
}

TEST(Messages, ThinkingIsABlockWhereItIsAskedFor) {
  FakeServer server;
  server.scheduler.answers = {"because" + std::string(kThinkEnd) + "Hello!" + kEnd};
  const Json json = server.post("/v1/messages", request(kThinking))->json();
  ASSERT_EQ(json["content"].size(), 2u);
  EXPECT_EQ(json["content"][0]["type"], "thinking");
  EXPECT_EQ(json["content"][0]["thinking"], "because");
  EXPECT_TRUE(json["content"][0].contains("signature"));
  EXPECT_EQ(json["content"][1]["text"], "Hello!");
}

TEST(Messages, AStreamHasAnthropicsEvents) {
  FakeServer server;
  server.scheduler.answers = {"b" + std::string(kThinkEnd) + "Hi" + call_of("add", "a", "1")};
  const auto reply = server.post(
      "/v1/messages", request(std::string("\"stream\": true, ") + kThinking + ", " + kTools));
  ASSERT_EQ(reply->status(), 200);
  std::vector<std::string> lines;
  std::string input, id;
  for (const Json& event : reply->events()) {
    const std::string type = event["type"];
    std::string line = type;
    if (event.contains("index")) line += fmt::format(" {}", event["index"].get<int>());
    if (type == "message_start") {
      EXPECT_EQ(event["message"]["usage"]["input_tokens"], server.prompt().size());
      EXPECT_TRUE(event["message"]["content"].empty());
      EXPECT_TRUE(event["message"]["stop_reason"].is_null());
    } else if (type == "content_block_start") {
      line += " " + event["content_block"]["type"].get<std::string>();
      if (event["content_block"].contains("id")) id = event["content_block"]["id"];
    } else if (type == "content_block_delta") {
      const Json& delta = event["delta"];
      line += " " + delta["type"].get<std::string>();
      if (delta.contains("partial_json")) {
        input += delta["partial_json"].get<std::string>();
        continue;
      }
      for (const char* key : {"text", "thinking"}) {
        if (delta.contains(key)) line += " " + delta[key].get<std::string>();
      }
    } else if (type == "message_delta") {
      line += " " + event["delta"].dump();
      EXPECT_GT(event["usage"]["output_tokens"], 0);
    }
    lines.push_back(line);
  }
  EXPECT_EQ(
      lines,
      (std::vector<std::string>{
          "message_start", "ping", "content_block_start 0 thinking",
          "content_block_delta 0 thinking_delta b", "content_block_delta 0 signature_delta",
          "content_block_stop 0", "content_block_start 1 text",
          "content_block_delta 1 text_delta H", "content_block_delta 1 text_delta i",
          "content_block_stop 1", "content_block_start 2 tool_use", "content_block_stop 2",
          R"(message_delta {"stop_reason":"tool_use","stop_sequence":null})", "message_stop"}));
  EXPECT_EQ(Json::parse(input).dump(), R"({"a":"1"})");
  EXPECT_TRUE(id.starts_with("toolu_"));
}

TEST(Messages, StopReasonsAreAnthropics) {
  FakeServer server;
  server.scheduler.answers = {"one STOP two" + std::string(kEnd)};
  Json json = server.post("/v1/messages", request(R"("stop_sequences": ["x", "STOP"])"))->json();
  EXPECT_EQ(json["stop_reason"], "stop_sequence");
  EXPECT_EQ(json["stop_sequence"], "STOP");
  EXPECT_EQ(json["content"][0]["text"], "one ");
  server.scheduler.answers = {std::string(600, 'x')};
  json = server.post("/v1/messages", request())->json();
  EXPECT_EQ(json["stop_reason"], "max_tokens");
  EXPECT_TRUE(json["stop_sequence"].is_null());
}

TEST(Messages, AConversationWithToolsBecomesTheSamePromptAsOpenAis) {
  FakeServer server;
  const auto messages =
      server.post("/v1/messages", R"({"max_tokens": 10, "system": [{"type": "text",
    "text": "Be kind.", "cache_control": {"type": "ephemeral"}}], "thinking": {"type": "adaptive"},
    "messages": [{"role": "user", "content": [{"type": "text", "text": "1+2?"}]},
      {"role": "assistant", "content": [{"type": "thinking", "thinking": "call it", "signature": "s"},
        {"type": "text", "text": "Wait."},
        {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": "1+2", "b": [1, 2]}}]},
      {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content":
        [{"type": "text", "text": "3"}]}, {"type": "text", "text": "And?"}]}],
    "tools": [{"name": "add", "description": "Adds \"all\".", "input_schema": {"type": "object"}}]})");
  ASSERT_EQ(messages->status(), 200) << messages->body();
  const std::vector<TokenId> prompt = server.prompt();
  const auto chat = server.chat(R"({"messages": [{"role": "system", "content": "Be kind."},
    {"role": "user", "content": "1+2?"},
    {"role": "assistant", "reasoning_content": "call it", "content": "Wait.", "tool_calls": [
      {"id": "t1", "type": "function", "function": {"name": "add", "arguments": {"a": "1+2", "b": [1, 2]}}}]},
    {"role": "tool", "tool_call_id": "t1", "content": "3"}, {"role": "user", "content": "And?"}],
    "tools": [{"type": "function", "function": {"name": "add", "description": "Adds \"all\".",
      "parameters": {"type": "object"}}}]})");
  ASSERT_EQ(chat->status(), 200) << chat->body();
  EXPECT_EQ(server.tokenizer.decode(prompt), server.tokenizer.decode(server.prompt()));
  EXPECT_EQ(prompt, server.prompt());
}

TEST(Messages, ToolChoicesAreTranslated) {
  FakeServer server;
  const auto prompt_of = [&](const std::string& choice) {
    const auto reply =
        server.post("/v1/messages", request(std::string(kTools) + ", \"tool_choice\": " + choice));
    EXPECT_EQ(reply->status(), 200) << reply->body();
    return server.tokenizer.decode(server.prompt());
  };
  EXPECT_EQ(prompt_of(R"({"type": "auto"})").find("tool_choice="), std::string::npos);
  EXPECT_NE(prompt_of(R"({"type": "none"})").find("tool_choice=none"), std::string::npos);
  EXPECT_NE(prompt_of(R"({"type": "any"})").find("tool_choice=required"), std::string::npos);
  EXPECT_NE(prompt_of(R"({"type": "tool", "name": "add"})").find("tool_choice=required"),
            std::string::npos);
}

TEST(Messages, TokensAreCountedWithoutAnAnswer) {
  FakeServer server;
  server.post("/v1/messages", request(kTools));
  const auto reply = server.post(
      "/v1/messages/count_tokens",
      std::string(R"({"model": "tiny", "messages": [{"role": "user", "content": "hi"}], )") +
          kTools + "}");
  EXPECT_EQ(reply->json().dump(), fmt::format(R"({{"input_tokens":{}}})", server.prompt().size()));
  EXPECT_EQ(server.scheduler.requests.size(), 1u);
}

TEST(Messages, ErrorsHaveAnthropicsShape) {
  FakeServer server;
  struct Case {
    std::string body;
    int status;
    std::string type;
    std::string message;
  };
  const std::vector<Case> cases = {
      {"{", 400, "invalid_request_error", "line 1"},
      {R"({"messages": [{"role": "user", "content": "x"}]})", 400, "invalid_request_error",
       "max_tokens: expected an integer, found nothing"},
      {R"({"model": "claude", "max_tokens": 5, "messages": []})", 404, "not_found_error", "claude"},
      {R"({"max_tokens": 5, "messages": [{"role": "user", "content": [{"type": "image"}]}]})", 400,
       "invalid_request_error", "messages[0].content[0].type: a block of type \"image\""},
      {R"({"max_tokens": 5, "messages": [{"role": "tool", "content": "x"}]})", 400,
       "invalid_request_error", "messages[0].role"},
      {request(R"("thinking": {"type": "some"})"), 400, "invalid_request_error", "thinking.type"},
      {request(R"("tools": [{"type": "web_search_20250305", "name": "w"}])"), 400,
       "invalid_request_error", "tools[0].type"},
      {request(R"("tools": [{"name": "w"}])"), 400, "invalid_request_error",
       "tools[0].input_schema"},
      {request(R"("tool_choice": {"type": "maybe"})"), 400, "invalid_request_error",
       "tool_choice.type"},
      {request(R"("tool_choice": {"type": "auto", "disable_parallel_tool_use": 1})"), 400,
       "invalid_request_error", "tool_choice.disable_parallel_tool_use: expected a boolean"},
      {request(R"("tools": [{"name": "w", "strict": true, "input_schema": {"type": "object",
        "properties": {"a": {"type": "string", "pattern": "x"}}}}], "tool_choice": {"type": "any"})"),
       400, "invalid_request_error", "tools[0].input_schema.properties.a.pattern: the keyword"},
      {request(R"("output_config": {"format": {"type": "json_schema", "schema": {"type": "object",
        "properties": {"a": {"type": "strin"}}}}})"),
       400, "invalid_request_error", "output_config.format.schema.properties.a.type: \"strin\""},
      {request(R"("tool_choice": {"type": "any"})"), 400, "invalid_request_error",
       "tool_choice: a call is required"},
      {R"({"max_tokens": 5, "messages": [{"role": "user", "content": [{"type": "tool_result",
        "tool_use_id": "t9", "content": "x"}]}]})",
       400, "invalid_request_error", "messages[0].content[0].tool_use_id: \"t9\" is the id of no"},
      {request(R"("stop_sequences": "x")"), 400, "invalid_request_error", "stop_sequences"},
      {R"({"max_tokens": 50000, "messages": [{"role": "user", "content": "x"}]})", 400,
       "invalid_request_error", "context"},
  };
  for (const Case& c : cases) {
    const auto reply = server.post("/v1/messages", c.body);
    EXPECT_EQ(reply->status(), c.status) << c.body;
    const Json json = reply->json();
    EXPECT_EQ(json["type"], "error");
    EXPECT_EQ(json["error"]["type"], c.type) << reply->body();
    EXPECT_NE(json["error"]["message"].get<std::string>().find(c.message), std::string::npos)
        << reply->body();
  }
  EXPECT_TRUE(server.scheduler.requests.empty());
  server.scheduler.refuse = Refusal::kQueueFull;
  const auto full = server.post("/v1/messages", request());
  EXPECT_EQ(full->status(), 429);
  EXPECT_EQ(full->json()["error"]["type"], "rate_limit_error");
  EXPECT_NE(full->headers().find("Retry-After"), nullptr);
}

TEST(Messages, ErrorsOfItsRoutesAndClientsHaveItsShape) {
  FakeServer server;
  const auto type_of = [&](const char* method, const char* path, HttpHeaders headers) {
    const auto reply = server.start(method, path, "{}", std::move(headers));
    EXPECT_TRUE(reply->wait());
    const Json json = reply->json();
    return json.contains("type") ? json["error"]["type"].get<std::string>() : "";
  };
  const HttpHeaders own = {{"Anthropic-Version", "2023-06-01"}};
  EXPECT_EQ(type_of("GET", "/v1/messages", {}), "invalid_request_error");
  EXPECT_EQ(type_of("POST", "/v1/messages/batches", {}), "not_found_error");
  EXPECT_EQ(type_of("GET", "/v1/models/other", own), "not_found_error");
  EXPECT_EQ(type_of("GET", "/v1/models/other", {}), "");
  EXPECT_EQ(type_of("POST", "/v1/messagesx", {}), "");
}

TEST(Messages, WithoutParallelUseThereIsOneCall) {
  FakeServer server;
  server.post("/v1/messages", request(kTools));
  EXPECT_TRUE(server.scheduler.requests.back().constraints.empty());
  server.post("/v1/messages",
              request(std::string(kTools) +
                      R"(, "tool_choice": {"type": "auto", "disable_parallel_tool_use": true})"));
  ASSERT_EQ(server.scheduler.requests.back().constraints.size(), 1u);
  TokenConstraint& constraint = *server.scheduler.requests.back().constraints[0];
  const std::string call = call_of("add", "a", "1");
  const std::string first = call.substr(0, call.find("<|close|>tools"));
  for (const TokenId id : server.tokenizer.encode_control(first)) constraint.accept(id);
  EXPECT_THROW(constraint.accept(*server.tokenizer.special_id("<|open|>")), Error);
}

TEST(Messages, AFailureInAStreamIsAnErrorEvent) {
  FakeServer server;
  server.scheduler.answers = {"Hel"};
  GenerationEnd end;
  end.reason = EndReason::kFailed;
  end.error = Error(ErrorCode::kNonFinite, "NaN");
  server.scheduler.end = end;
  const std::vector<Json> events =
      server.post("/v1/messages", request(R"("stream": true)"))->events();
  EXPECT_EQ(events.back().dump(),
            R"({"type":"error","error":{"type":"api_error","message":"NaN"}})");
}

}  // namespace
}  // namespace baltoro::serve
