// /v1/models, /tokenize and /detokenize.
#include <gtest/gtest.h>

#include "serve/api/fake_model.h"

namespace baltoro::serve {
namespace {

TEST(Routes, ModelsAreListedForBothClients) {
  FakeServer server;
  EXPECT_EQ(server.start("GET", "/v1/models", "")->body(),
            R"({"object":"list","data":[{"id":"tiny","object":"model","created":1700000000,)"
            R"("owned_by":"baltoro","max_model_len":20000},{"id":"alias/tiny","object":"model",)"
            R"("created":1700000000,"owned_by":"baltoro","max_model_len":20000}]})");
  const Json anthropic =
      server.start("GET", "/v1/models", "", {{"Anthropic-Version", "2023-06-01"}})->json();
  EXPECT_EQ(
      anthropic["data"][0].dump(),
      R"({"type":"model","id":"tiny","display_name":"tiny","created_at":"2023-11-14T22:13:20Z"})");
  EXPECT_EQ(anthropic["has_more"], false);
  EXPECT_EQ(anthropic["last_id"], "alias/tiny");
}

TEST(Routes, AModelIsFoundByItsName) {
  FakeServer server;
  EXPECT_EQ(server.start("GET", "/v1/models/tiny", "")->json()["id"], "tiny");
  EXPECT_EQ(server.start("GET", "/v1/models/alias/tiny", "")->json()["id"], "alias/tiny");
  EXPECT_EQ(server.start("GET", "/v1/models/alias%2Ftiny", "")->json()["id"], "alias/tiny");
  for (const char* path : {"/v1/models/gpt", "/v1/models/tiny%", "/v1/models/../tiny"}) {
    const auto reply = server.start("GET", path, "");
    EXPECT_EQ(reply->status(), 404) << path;
    EXPECT_EQ(reply->json()["error"]["code"], "model_not_found") << path;
  }
}

TEST(Routes, TextBecomesTokensAndText) {
  FakeServer server;
  EXPECT_EQ(server.post("/tokenize", R"({"prompt": "Hi[EOS]"})")->body(),
            R"({"count":7,"max_model_len":20000,"tokens":[72,105,91,69,79,83,93]})");
  EXPECT_EQ(server.post("/detokenize", R"({"tokens": [72, 105, 257]})")->body(),
            R"({"prompt":"Hi[EOS]"})");
  EXPECT_EQ(server.post("/detokenize", R"({"tokens": [195]})")->body(),
            "{\"prompt\":\"\xEF\xBF\xBD\"}");
}

TEST(Routes, AChatIsTokenizedAsItsPrompt) {
  FakeServer server;
  const std::string body = R"({"messages": [{"role": "user", "content": "hi"}]})";
  const Json json = server.post("/tokenize", body)->json();
  server.chat(body);
  EXPECT_EQ(json["tokens"].get<std::vector<TokenId>>(), server.prompt());
}

TEST(Routes, BadTokensAreNamed) {
  FakeServer server;
  const auto param = [&](const char* path, const char* body) {
    const auto reply = server.post(path, body);
    EXPECT_EQ(reply->status(), 400) << body;
    return reply->json()["error"]["param"];
  };
  EXPECT_EQ(param("/detokenize", "{}"), "tokens");
  EXPECT_EQ(param("/detokenize", R"({"tokens": [1, 5000]})"), "tokens[1]");
  EXPECT_EQ(param("/detokenize", R"({"tokens": ["1"]})"), "tokens[0]");
  EXPECT_EQ(param("/tokenize", "{}"), nullptr);
  EXPECT_EQ(param("/tokenize", R"({"prompt": 1})"), "prompt");
}

}  // namespace
}  // namespace baltoro::serve
