// /v1/completions over a scripted model.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "serve/api/fake_model.h"

namespace baltoro::serve {
namespace {

TEST(Completion, AWholeAnswerHasOpenAisShape) {
  FakeServer server;
  server.scheduler.answers = {" a time[EOS]"};
  const auto reply = server.post("/v1/completions", R"({"prompt": "Once upon"})");
  ASSERT_EQ(reply->status(), 200) << reply->body();
  Json json = reply->json();
  EXPECT_TRUE(json["id"].get<std::string>().starts_with("cmpl-"));
  json["id"] = "ID";
  json["created"] = 0;
  EXPECT_EQ(json.dump(),
            R"({"id":"ID","object":"text_completion","created":0,"model":"tiny","choices":[)"
            R"({"text":" a time","index":0,"logprobs":null,"finish_reason":"stop"}],)"
            R"("system_fingerprint":"fp_1","usage":{"prompt_tokens":9,"completion_tokens":8,)"
            R"("total_tokens":17,"prompt_tokens_details":{"cached_tokens":0},)"
            R"("completion_tokens_details":{"reasoning_tokens":0}}})");
  EXPECT_EQ(server.scheduler.requests.back().max_tokens, 16);
  EXPECT_EQ(server.scheduler.requests.back().stop_ids.size(), 1u);
}

TEST(Completion, SpecialTokensInAPromptAreText) {
  FakeServer server;
  server.post("/v1/completions", R"({"prompt": "<|open|>[EOS]"})");
  for (const TokenId id : server.prompt()) EXPECT_FALSE(server.tokenizer.is_special(id));
}

TEST(Completion, SeveralPromptsAndChoicesAreNumbered) {
  FakeServer server;
  server.scheduler.answers = {"x[EOS]", "y[EOS]"};
  for (const char* prompt : {R"(["one", "two"])", "[[111, 110, 101], [116]]"}) {
    const Json json = server
                          .post("/v1/completions",
                                fmt::format(R"({{"prompt": {}, "n": 2, "echo": true}})", prompt))
                          ->json();
    ASSERT_EQ(json["choices"].size(), 4u);
    EXPECT_EQ(json["choices"][0]["text"], "onex");
    EXPECT_EQ(json["choices"][1]["text"], "oney");
    EXPECT_TRUE(json["choices"][3]["text"].get<std::string>().ends_with("y"));
    for (int i = 0; i < 4; ++i) EXPECT_EQ(json["choices"][static_cast<std::size_t>(i)]["index"], i);
  }
  EXPECT_EQ(server.scheduler.requests.size(), 4u);
}

TEST(Completion, APromptOfIdsIsTakenAsItIs) {
  FakeServer server;
  server.post("/v1/completions", R"({"prompt": [72, 105, 260]})");
  EXPECT_EQ(server.prompt(), (std::vector<TokenId>{72, 105, 260}));
}

TEST(Completion, AStreamHasTheSameTextAndEnds) {
  FakeServer server;
  server.scheduler.answers = {"abc STOP def[EOS]"};
  const auto reply = server.post(
      "/v1/completions",
      R"({"prompt": "p", "stream": true, "echo": true, "stop": ["STOP"], "max_tokens": 50,
          "stream_options": {"include_usage": true}})");
  std::string text;
  const std::vector<Json> events = reply->events();
  for (const Json& event : events) {
    if (!event.is_object() || event["choices"].empty()) continue;
    EXPECT_EQ(event["object"], "text_completion");
    text += event["choices"][0]["text"].get<std::string>();
  }
  EXPECT_EQ(text, "pabc ");
  ASSERT_GE(events.size(), 3u);
  EXPECT_EQ(events[events.size() - 3]["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(events[events.size() - 2]["usage"]["prompt_tokens"], 1);
  EXPECT_EQ(events.back(), "[DONE]");
}

TEST(Completion, LogprobsHaveTheOldShape) {
  FakeServer server;
  server.scheduler.answers = {"Aé[EOS]"};
  const Json json = server.post("/v1/completions", R"({"prompt": "p", "logprobs": 2})")->json();
  EXPECT_EQ(json["choices"][0]["logprobs"].dump(),
            R"({"tokens":["A","�","�"],"token_logprobs":[-0.5,-0.5,-0.5],)"
            R"("top_logprobs":[{"A":-0.5,"B":-1.5},{"�":-0.5},{"�":-0.5}],"text_offset":[0,1,2]})");
}

TEST(Completion, EndOfTextCanBeIgnored) {
  FakeServer server;
  server.scheduler.answers = {"a[EOS]b"};
  server.post("/v1/completions", R"({"prompt": "p", "ignore_eos": true})");
  EXPECT_TRUE(server.scheduler.requests.back().stop_ids.empty());
}

TEST(Completion, OneRefusedPromptRefusesThemAll) {
  FakeServer server;
  server.scheduler.hold = true;
  const auto submit = [&](GenerationRequest request) {
    if (!server.scheduler.requests.empty()) server.scheduler.refuse = Refusal::kQueueFull;
    return server.scheduler.submit(std::move(request));
  };
  Model model = server.model();
  model.submit = submit;
  Api api(std::move(model));
  const auto reply = std::make_shared<CollectingReply>();
  HttpRequest request;
  request.method = "POST";
  request.path = "/v1/completions";
  request.body = R"({"prompt": ["a", "b"]})";
  api.handle(request, reply);
  ASSERT_TRUE(reply->wait());
  EXPECT_EQ(reply->status(), 429);
  EXPECT_TRUE(server.scheduler.tickets.at(0)->cancelled());
}

}  // namespace
}  // namespace baltoro::serve
