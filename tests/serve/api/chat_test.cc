// /v1/chat/completions over a scripted model.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "serve/api/fake_model.h"

namespace baltoro::serve {
namespace {

constexpr const char* kHello =
    R"({"model": "tiny", "messages": [{"role": "user", "content": "hi"}])";

std::string hello(const std::string& fields = "") {
  return kHello + (fields.empty() ? "" : ", " + fields) + "}";
}

// Ends of XTML messages.
constexpr const char* kThinkEnd = "<|close|>think<|sep|><|open|>response<|sep|>";
constexpr const char* kEnd = "<|close|>response<|sep|><|close|>message<|sep|><|end_of_msg|>";

std::string answer(const std::string& thought, const std::string& text) {
  return thought + kThinkEnd + text + kEnd;
}

std::string call(const std::string& name, const std::string& key, const std::string& value) {
  return "<|open|>call tool=\"" + name + "\" index=\"1\"<|sep|><|open|>argument key=\"" + key +
         "\" type=\"string\"<|sep|>" + value + "<|close|>argument<|sep|><|close|>call<|sep|>";
}

std::string calls(const std::string& list) {
  return "<|close|>response<|sep|><|open|>tools<|sep|>" + list +
         "<|close|>tools<|sep|><|close|>message<|sep|><|end_of_msg|>";
}

// The chunks' deltas of a choice, put together as clients do.
Json assemble(const std::vector<Json>& events, int choice = 0) {
  Json out = {{"content", ""}, {"reasoning_content", ""}, {"tool_calls", Json::array()}};
  for (const Json& event : events) {
    if (!event.is_object()) continue;
    for (const Json& entry : event["choices"]) {
      if (entry["index"] != choice) continue;
      const Json& delta = entry["delta"];
      for (const char* key : {"content", "reasoning_content"}) {
        if (delta.contains(key)) {
          out[key] = out[key].get<std::string>() + delta[key].get<std::string>();
        }
      }
      for (const Json& part : delta.value("tool_calls", Json::array())) {
        if (part.contains("id"))
          out["tool_calls"].push_back(part);
        else {
          Json& arguments =
              out["tool_calls"].at(part["index"].get<std::size_t>())["function"]["arguments"];
          arguments =
              arguments.get<std::string>() + part["function"]["arguments"].get<std::string>();
        }
      }
      if (!entry["finish_reason"].is_null()) out["finish_reason"] = entry["finish_reason"];
    }
  }
  return out;
}

TEST(Chat, AWholeAnswerHasOpenAisShape) {
  FakeServer server;
  server.scheduler.answers = {answer("because", "Hello!")};
  server.scheduler.reused_tokens = 2;
  const auto reply = server.chat(hello());
  ASSERT_EQ(reply->status(), 200) << reply->body();
  EXPECT_EQ(*reply->headers().find("content-type"), "application/json");
  Json json = reply->json();
  EXPECT_TRUE(json["id"].get<std::string>().starts_with("chatcmpl-"));
  EXPECT_GT(json["created"].get<std::int64_t>(), 1700000000);
  json["id"] = "ID";
  json["created"] = 0;
  const auto prompt_tokens = server.prompt().size();
  const auto completion_tokens =
      server.tokenizer.encode_control(answer("because", "Hello!")).size();
  const Json expected = {{"id", "ID"},
                         {"object", "chat.completion"},
                         {"created", 0},
                         {"model", "tiny"},
                         {"choices", Json::array({{{"index", 0},
                                                   {"message",
                                                    {{"role", "assistant"},
                                                     {"content", "Hello!"},
                                                     {"refusal", nullptr},
                                                     {"reasoning_content", "because"}}},
                                                   {"logprobs", nullptr},
                                                   {"finish_reason", "stop"}}})},
                         {"usage",
                          {{"prompt_tokens", prompt_tokens},
                           {"completion_tokens", completion_tokens},
                           {"total_tokens", prompt_tokens + completion_tokens},
                           {"prompt_tokens_details", {{"cached_tokens", 2}}},
                           {"completion_tokens_details", {{"reasoning_tokens", 7}}}}},
                         {"system_fingerprint", "fp_1"}};
  EXPECT_EQ(json.dump(1), expected.dump(1));
  EXPECT_EQ(reply->usage().completion_tokens, static_cast<std::int64_t>(completion_tokens));
  EXPECT_EQ(reply->usage().reused_tokens, 2);
  EXPECT_EQ(reply->noted_tokens, static_cast<int>(completion_tokens));
}

TEST(Chat, AStreamHasOpenAisChunks) {
  FakeServer server;
  server.scheduler.answers = {answer("b", "Hi")};
  const auto reply =
      server.chat(hello(R"("stream": true, "stream_options": {"include_usage": true})"));
  ASSERT_TRUE(reply->streamed());
  EXPECT_EQ(reply->status(), 200);
  EXPECT_TRUE(reply->headers().find("Content-Type")->starts_with("text/event-stream"));
  const std::vector<Json> events = reply->events();
  std::vector<std::string> lines;
  for (const Json& event : events) {
    if (!event.is_object()) {
      lines.push_back(event);
      continue;
    }
    EXPECT_EQ(event["object"], "chat.completion.chunk");
    EXPECT_EQ(event["id"], events.front()["id"]);
    EXPECT_EQ(event["model"], "tiny");
    EXPECT_EQ(event["system_fingerprint"], "fp_1");
    lines.push_back(event["choices"].empty() ? event["usage"].dump()
                                             : event["choices"][0].dump() + event["usage"].dump());
  }
  const auto num_prompt = server.prompt().size();
  const auto num_answer = server.tokenizer.encode_control(answer("b", "Hi")).size();
  const auto chunk = [](const std::string& delta, const std::string& finish = "null") {
    return R"({"index":0,"delta":)" + delta + R"(,"logprobs":null,"finish_reason":)" + finish +
           "}null";
  };
  EXPECT_EQ(
      lines,
      (std::vector<std::string>{
          chunk(R"({"role":"assistant","content":""})"), chunk(R"({"reasoning_content":"b"})"),
          chunk(R"({"content":"H"})"), chunk(R"({"content":"i"})"), chunk("{}", "\"stop\""),
          fmt::format(R"({{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{},)"
                      R"("prompt_tokens_details":{{"cached_tokens":0}},)"
                      R"("completion_tokens_details":{{"reasoning_tokens":1}}}})",
                      num_prompt, num_answer, num_prompt + num_answer),
          "[DONE]"}));
}

TEST(Chat, AStreamWithoutTheOptionHasNoUsage) {
  FakeServer server;
  server.scheduler.answers = {answer("", "Hi")};
  const auto reply = server.chat(hello(R"("stream": true)"));
  EXPECT_EQ(reply->body().find("usage"), std::string::npos);
  EXPECT_EQ(reply->events().back(), "[DONE]");
}

TEST(Chat, DefaultsAreTheModels) {
  FakeServer server;
  server.chat(hello());
  const GenerationRequest& request = server.scheduler.requests.back();
  EXPECT_EQ(request.sampling.temperature, 0.75f);
  EXPECT_EQ(request.sampling.top_p, 0.5f);
  EXPECT_EQ(request.max_tokens, 5000);
  EXPECT_EQ(request.num_choices, 1);
  EXPECT_EQ(request.client, "127.0.0.1");
  EXPECT_EQ(request.stop_ids.size(), 2u);  // the model's and the format's
  server.chat(hello());
  EXPECT_NE(server.scheduler.requests[0].sampling.seed, server.scheduler.requests[1].sampling.seed);
}

TEST(Chat, SamplingFieldsReachTheScheduler) {
  FakeServer server;
  server.chat(hello(R"("temperature": 0.25, "top_p": 0.875, "min_p": 0.125, "top_k": 7, "seed": -1,
    "repetition_penalty": 1.5, "presence_penalty": 0.5, "frequency_penalty": -0.5, "n": 2,
    "logit_bias": {"65": -100, "66": 2.5}, "max_completion_tokens": 9, "max_tokens": 10,
    "user": "u", "metadata": {"a": "b"}, "store": false, "unheard_of": [1])"));
  const GenerationRequest& request = server.scheduler.requests.back();
  const SamplingParams& sampling = request.sampling;
  EXPECT_EQ(sampling.temperature, 0.25f);
  EXPECT_EQ(sampling.top_p, 0.875f);
  EXPECT_EQ(sampling.min_p, 0.125f);
  EXPECT_EQ(sampling.top_k, 7);
  EXPECT_EQ(sampling.seed, ~std::uint64_t{0});
  EXPECT_EQ(sampling.repetition_penalty, 1.5f);
  EXPECT_EQ(sampling.presence_penalty, 0.5f);
  EXPECT_EQ(sampling.frequency_penalty, -0.5f);
  ASSERT_EQ(sampling.logit_bias.size(), 2u);
  EXPECT_EQ(sampling.logit_bias[0].token, 65);
  EXPECT_EQ(sampling.logit_bias[1].bias, 2.5f);
  EXPECT_EQ(request.max_tokens, 9);
  EXPECT_EQ(request.num_choices, 2);
}

TEST(Chat, EachChoiceHasItsOwnAnswer) {
  FakeServer server;
  server.scheduler.answers = {answer("a", "one"), answer("b", "two")};
  const Json json = server.chat(hello(R"("n": 2)"))->json();
  ASSERT_EQ(json["choices"].size(), 2u);
  EXPECT_EQ(json["choices"][0]["message"]["content"], "one");
  EXPECT_EQ(json["choices"][1]["message"]["content"], "two");
  EXPECT_EQ(json["choices"][1]["index"], 1);
  EXPECT_EQ(json["usage"]["prompt_tokens"], server.prompt().size());
  const auto reply = server.chat(hello(R"("n": 2, "stream": true)"));
  EXPECT_EQ(assemble(reply->events(), 0)["content"], "one");
  EXPECT_EQ(assemble(reply->events(), 1)["content"], "two");
}

TEST(Chat, StopStringsEndTheContent) {
  FakeServer server;
  server.scheduler.answers = {answer("no STOP in thoughts", "one STOP two")};
  const Json json = server.chat(hello(R"("stop": ["STOP", "xyz"])"))->json();
  EXPECT_EQ(json["choices"][0]["message"]["content"], "one ");
  EXPECT_EQ(json["choices"][0]["message"]["reasoning_content"], "no STOP in thoughts");
  EXPECT_EQ(json["choices"][0]["finish_reason"], "stop");
  const auto reply = server.chat(hello(R"("stop": "STOP", "stream": true)"));
  EXPECT_EQ(assemble(reply->events())["content"], "one ");
}

TEST(Chat, AnAnswerThatIsCutOffSaysLength) {
  FakeServer server;
  server.scheduler.answers = {answer("", "0123456789")};
  const auto opening = server.tokenizer.encode_control(kThinkEnd).size();
  const Json json = server.chat(hello(fmt::format("\"max_tokens\": {}", opening + 4)))->json();
  EXPECT_EQ(json["choices"][0]["message"]["content"], "0123");
  EXPECT_EQ(json["choices"][0]["finish_reason"], "length");
}

TEST(Chat, LogprobsAreThoseOfTheContent) {
  FakeServer server;
  server.scheduler.answers = {answer("thought", "Hé!")};
  const Json json = server.chat(hello(R"("logprobs": true, "top_logprobs": 2)"))->json();
  const Json& content = json["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), 4u);  // é is two bytes, hence two tokens here
  EXPECT_EQ(
      content[0].dump(),
      R"({"token":"H","logprob":-0.5,"bytes":[72],"top_logprobs":[)"
      R"({"token":"H","logprob":-0.5,"bytes":[72]},{"token":"I","logprob":-1.5,"bytes":[73]}]})");
  EXPECT_EQ(content[1]["bytes"].dump(), "[195]");
  EXPECT_EQ(content[1]["token"], "\xEF\xBF\xBD");
  EXPECT_EQ(content[2]["bytes"].dump(), "[169]");
  EXPECT_EQ(content[3]["token"], "!");
  EXPECT_EQ(server.scheduler.requests.back().sampling.num_logprobs, 2);

  const auto reply = server.chat(hello(R"("logprobs": true, "stream": true, "stop": "!")"));
  std::string tokens;
  for (const Json& event : reply->events()) {
    if (!event.is_object() || event["choices"][0]["logprobs"].is_null()) continue;
    for (const Json& token : event["choices"][0]["logprobs"]["content"]) {
      EXPECT_TRUE(token["top_logprobs"].empty());
      for (const Json& byte : token["bytes"]) tokens += static_cast<char>(byte.get<int>());
    }
  }
  EXPECT_EQ(tokens, "Hé");  // nothing of the stop string
}

TEST(Chat, ToolCallsComeWholeAndInPieces) {
  FakeServer server;
  server.scheduler.answers = {std::string("t") + kThinkEnd +
                              calls(call("add", "a", "1+\"2\"") + call("clock", "place", "Rome"))};
  const std::string tools =
      R"("tools": [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}},
                   {"type": "function", "function": {"name": "clock"}}])";
  const Json whole = server.chat(hello(tools))->json();
  const Json& message = whole["choices"][0]["message"];
  EXPECT_EQ(whole["choices"][0]["finish_reason"], "tool_calls");
  EXPECT_TRUE(message["content"].is_null());
  ASSERT_EQ(message["tool_calls"].size(), 2u);
  const Json& first = message["tool_calls"][0];
  EXPECT_TRUE(first["id"].get<std::string>().starts_with("call_"));
  EXPECT_NE(first["id"], message["tool_calls"][1]["id"]);
  EXPECT_EQ(first["type"], "function");
  EXPECT_EQ(first["function"]["name"], "add");
  EXPECT_EQ(Json::parse(first["function"]["arguments"].get<std::string>())["a"], "1+\"2\"");

  const auto reply = server.chat(hello(tools + R"(, "stream": true)"));
  const Json streamed = assemble(reply->events());
  ASSERT_EQ(streamed["tool_calls"].size(), 2u);
  EXPECT_EQ(streamed["finish_reason"], "tool_calls");
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(streamed["tool_calls"][i]["index"], i);
    EXPECT_EQ(streamed["tool_calls"][i]["type"], "function");
    EXPECT_EQ(streamed["tool_calls"][i]["function"], message["tool_calls"][i]["function"]);
  }
}

TEST(Chat, EachChoiceHasAGrammarOfItsOwnThatKnowsOfOneCallAlone) {
  FakeServer server;
  const std::string tools = R"("tools": [{"type": "function", "function": {"name": "add"}}])";
  server.chat(hello(tools));
  EXPECT_TRUE(server.scheduler.requests.back().constraints.empty());
  server.chat(hello(tools + R"(, "parallel_tool_calls": false, "thinking": false, "n": 2)"));
  const auto& constraints = server.scheduler.requests.back().constraints;
  ASSERT_EQ(constraints.size(), 2u);
  const auto fits = [&](const std::shared_ptr<TokenConstraint>& constraint,
                        const std::string& answer) {
    try {
      for (const TokenId id : server.tokenizer.encode_control(answer)) constraint->accept(id);
    } catch (const Error&) {
      return false;
    }
    return true;
  };
  const std::string one = "<|open|>call tool=\"add\" index=\"1\"<|sep|><|close|>call<|sep|>";
  EXPECT_TRUE(fits(constraints[0], calls(one)));
  EXPECT_FALSE(fits(constraints[1], calls(one + one)));
}

TEST(Chat, ABadSchemaIsRefusedBeforeAnythingIsQueued) {
  FakeServer server;
  for (const char* stream : {"false", "true"}) {
    const auto reply = server.chat(hello(fmt::format(
        R"("stream": {}, "response_format": {{"type": "json_schema", "json_schema": {{"name": "a",
           "schema": {{"type": "array", "maxItems": 99999}}}}}})",
        stream)));
    EXPECT_EQ(reply->status(), 400);
    EXPECT_FALSE(reply->streamed());
    EXPECT_EQ(reply->json()["error"]["param"], "response_format.json_schema.schema.maxItems");
  }
  EXPECT_TRUE(server.scheduler.requests.empty());
}

TEST(Chat, EffortsAreThoseOfTheFormat) {
  FakeServer server;
  const auto prompt_of = [&](const std::string& fields) {
    server.chat(hello(fields));
    return server.tokenizer.decode(server.prompt());
  };
  EXPECT_NE(prompt_of("").find("thinking_effort=max"), std::string::npos);
  EXPECT_NE(prompt_of(R"("reasoning_effort": "low")").find("thinking_effort=low"),
            std::string::npos);
  EXPECT_NE(prompt_of(R"("reasoning_effort": "medium")").find("thinking_effort=high"),
            std::string::npos);
  EXPECT_NE(prompt_of(R"("reasoning_effort": "xhigh")").find("thinking_effort=max"),
            std::string::npos);
  for (const char* off : {R"("reasoning_effort": "none")", R"("reasoning_effort": "minimal")",
                          R"("thinking": false)", R"("thinking": {"type": "disabled"})"}) {
    const std::string prompt = prompt_of(off);
    EXPECT_EQ(prompt.find("thinking_effort"), std::string::npos) << off;
    EXPECT_TRUE(prompt.ends_with("<|open|>response<|sep|>")) << off;
  }
}

TEST(Chat, AModelThatAlwaysThinksCannotBeToldNotTo) {
  FakeServer server(k2_specials(true));
  const auto reply = server.chat(hello(R"("reasoning_effort": "none")"));
  EXPECT_EQ(reply->status(), 400);
  EXPECT_EQ(reply->json()["error"]["param"], "reasoning_effort");
}

TEST(Chat, K2CallsKeepTheirIds) {
  FakeServer server(k2_specials(false));
  server.scheduler.answers = {
      "one moment<|tool_calls_section_begin|><|tool_call_begin|>functions.add:0"
      "<|tool_call_argument_begin|>{\"a\": "
      "1}<|tool_call_end|><|tool_calls_section_end|><|im_end|>"};
  const Json json =
      server.chat(hello(R"("tools": [{"type": "function", "function": {"name": "add"}}])"))->json();
  const Json& message = json["choices"][0]["message"];
  EXPECT_EQ(message["content"], "one moment");
  EXPECT_EQ(message["tool_calls"][0]["id"], "functions.add:0");
  EXPECT_EQ(message["tool_calls"][0]["function"]["arguments"], "{\"a\": 1}");
  EXPECT_FALSE(message.contains("reasoning_content"));
}

TEST(Chat, OutputIsUtf8WhateverTheModelSays) {
  FakeServer server;
  server.scheduler.answers = {answer("\xC3", "a\xFF\xE2\x82")};
  const Json json = server.chat(hello())->json();
  EXPECT_EQ(json["choices"][0]["message"]["content"], "a\xEF\xBF\xBD\xEF\xBF\xBD");
  const auto reply = server.chat(hello(R"("stream": true)"));
  EXPECT_EQ(assemble(reply->events())["content"], "a\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(Chat, TheRequestIsCancelledWhenTheClientGoes) {
  FakeServer server;
  server.scheduler.hold = true;
  server.scheduler.answers = {answer("", "text")};
  const auto reply = server.start("POST", "/v1/chat/completions", hello(R"("stream": true)"));
  EXPECT_FALSE(server.scheduler.tickets.back()->cancelled());
  reply->hang_up();
  EXPECT_TRUE(server.scheduler.tickets.back()->cancelled());
  server.scheduler.run();
}

TEST(Chat, ARequestThatEndedEarlyTellsWhatItTook) {
  for (const EndReason reason : {EndReason::kCancelled, EndReason::kDeadline}) {
    FakeServer server;
    server.scheduler.hold = true;
    server.scheduler.end = GenerationEnd{.reason = reason,
                                         .error = std::nullopt,
                                         .prompt_tokens = 7,
                                         .reused_tokens = 3,
                                         .generated_tokens = 5};
    const auto reply = server.start("POST", "/v1/chat/completions", hello());
    if (reason == EndReason::kCancelled) reply->hang_up();
    server.scheduler.run();
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (reply->usage().completion_tokens < 0 && std::chrono::steady_clock::now() < end) {
      std::this_thread::yield();
    }
    EXPECT_EQ(reply->usage().prompt_tokens, 7);
    EXPECT_EQ(reply->usage().reused_tokens, 3);
    EXPECT_EQ(reply->usage().completion_tokens, 5);
  }
}

TEST(Chat, EveryRequestHasTheServersDeadline) {
  FakeServer server(xtml_specials(), std::chrono::seconds(600));
  const auto before = std::chrono::steady_clock::now();
  server.chat(hello());
  const auto after = std::chrono::steady_clock::now();
  const auto deadline = server.scheduler.requests.back().deadline;
  ASSERT_TRUE(deadline.has_value());
  EXPECT_GE(*deadline, before + std::chrono::seconds(600));
  EXPECT_LE(*deadline, after + std::chrono::seconds(600));
  EXPECT_FALSE([] {
    FakeServer unlimited;
    unlimited.chat(hello());
    return unlimited.scheduler.requests.back().deadline.has_value();
  }());
}

TEST(Chat, AClientThatHasGoneAlreadyIsNotAnswered) {
  FakeServer server;
  server.scheduler.hold = true;
  const auto reply = std::make_shared<CollectingReply>();
  reply->hang_up();
  HttpRequest request;
  request.method = "POST";
  request.path = "/v1/chat/completions";
  request.body = hello();
  server.api.handle(request, reply);
  EXPECT_TRUE(server.scheduler.tickets.back()->cancelled());
}

// ---- failures while an answer is made

TEST(Chat, AFailureBeforeTheEndIsAnErrorWithItsStatus) {
  FakeServer server;
  GenerationEnd end;
  end.reason = EndReason::kFailed;
  end.error = Error(ErrorCode::kNonFinite, "model.layers.3: NaN");
  server.scheduler.end = end;
  const auto reply = server.chat(hello());
  EXPECT_EQ(reply->status(), 500);
  EXPECT_EQ(reply->json()["error"].dump(),
            R"({"message":"model.layers.3: NaN","type":"server_error","param":null,"code":null})");
  end.error.reset();
  end.reason = EndReason::kDeadline;
  server.scheduler.end = end;
  EXPECT_EQ(server.chat(hello())->status(), 504);
  end.reason = EndReason::kCancelled;
  server.scheduler.end = end;
  EXPECT_EQ(server.chat(hello())->status(), 503);
}

TEST(Chat, AFailureInAStreamIsItsLastEvent) {
  FakeServer server;
  server.scheduler.answers = {answer("", "Hel")};
  GenerationEnd end;
  end.reason = EndReason::kFailed;
  end.error = Error(ErrorCode::kNonFinite, "model.layers.3: NaN");
  server.scheduler.end = end;
  const auto reply = server.chat(hello(R"("stream": true)"));
  EXPECT_EQ(reply->status(), 200);
  const std::vector<Json> events = reply->events();
  EXPECT_EQ(events.back()["error"]["message"], "model.layers.3: NaN");
  EXPECT_EQ(events.back()["error"]["type"], "server_error");
  EXPECT_EQ(reply->body().find("[DONE]"), std::string::npos);
}

TEST(Chat, RefusalsOfTheSchedulerHaveTheirStatus) {
  FakeServer server;
  server.scheduler.refuse = Refusal::kQueueFull;
  for (const char* stream : {"false", "true"}) {
    const auto reply = server.chat(hello(std::string("\"stream\": ") + stream));
    EXPECT_EQ(reply->status(), 429);
    EXPECT_EQ(*reply->headers().find("retry-after"), "3");
    EXPECT_EQ(reply->json()["error"]["type"], "rate_limit_error");
    EXPECT_EQ(reply->json()["error"]["code"], "queue_full");
  }
  server.scheduler.refuse = Refusal::kClientLimit;
  EXPECT_EQ(server.chat(hello())->status(), 429);
  server.scheduler.refuse = Refusal::kDraining;
  EXPECT_EQ(server.chat(hello())->status(), 503);
  server.scheduler.refuse = Refusal::kNone;
  server.scheduler.throws = Error(ErrorCode::kDoesNotFit, "90000 tokens need 9 GiB; there are 2");
  const auto reply = server.chat(hello());
  EXPECT_EQ(reply->status(), 400);
  EXPECT_EQ(reply->json()["error"]["code"], "context_length_exceeded");
}

}  // namespace
}  // namespace baltoro::serve
