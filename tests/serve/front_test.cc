// Who is let in, and what is told of requests.
#include "serve/front.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "serve/recorded_reply.h"

namespace baltoro::serve {
namespace {

FrontOptions with_keys(std::initializer_list<const char*> keys, FrontOptions options = {}) {
  for (const char* key : keys) options.keys.add(key, "test");
  return options;
}

HttpRequest request(const char* method, const char* path, HttpHeaders headers = {}) {
  HttpRequest out;
  out.method = method;
  out.path = path;
  out.headers = std::move(headers);
  if (out.headers.find("host") == nullptr) out.headers.add("Host", "localhost:8080");
  out.client_address = "127.0.0.1";
  out.id = "id-1";
  return out;
}

class FrontTest : public ::testing::Test {
 protected:
  explicit FrontTest(LogFormat format = LogFormat::kJson)
      : log_(std::make_shared<AccessLog>(
            format, [this](std::string_view line) { lines_.emplace_back(line); })) {}

  Front& make(FrontOptions options = {}, bool ready = true) {
    front_ = std::make_unique<Front>(std::move(options), log_);
    if (ready) {
      front_->set_ready({.api =
                             [this](HttpRequest asked, std::shared_ptr<HttpReply> reply) {
                               api_request_ = std::move(asked);
                               api_reply_ = std::move(reply);
                             },
                         .stats = [] { return SchedulerStats{.running = 7}; }});
    }
    return *front_;
  }
  // 0 where the request is let in.
  int admitted(HttpRequest asked) const {
    const auto error = front_->admit(asked);
    return error ? error->status : 0;
  }
  std::shared_ptr<RecordedReply> handle(HttpRequest asked) {
    auto reply = std::make_shared<RecordedReply>();
    front_->handle(std::move(asked), reply);
    return reply;
  }
  nlohmann::json last_line() const { return nlohmann::json::parse(lines_.back()); }

  std::vector<std::string> lines_;
  std::shared_ptr<AccessLog> log_;
  std::unique_ptr<Front> front_;
  HttpRequest api_request_;
  std::shared_ptr<HttpReply> api_reply_;
};

TEST_F(FrontTest, LetsInByKeyAndNamesItByNumber) {
  make(with_keys({"one", "two"}));
  HttpRequest good = request("POST", "/v1/completions", {{"Authorization", "Bearer two"}});
  EXPECT_FALSE(front_->admit(good));
  EXPECT_EQ(good.key_name, "key-2");
  EXPECT_EQ(admitted(request("POST", "/v1/completions", {{"x-api-key", "one"}})), 0);
  EXPECT_EQ(admitted(request("POST", "/v1/completions", {{"x-api-key", "on"}})), 401);
  EXPECT_EQ(admitted(request("POST", "/v1/completions")), 401);
}

TEST_F(FrontTest, OnlyHealthAndPageAreOpen) {
  make(with_keys({"one"}));
  EXPECT_EQ(admitted(request("GET", "/health")), 0);
  EXPECT_EQ(admitted(request("GET", "/")), 0);
  EXPECT_EQ(admitted(request("HEAD", "/page/main.js")), 0);
  for (const char* path : {"/metrics", "/v1/models", "/tokenize", "/nowhere", "/health/x"}) {
    EXPECT_EQ(admitted(request("GET", path)), 401) << path;
  }
  EXPECT_EQ(admitted(request("POST", "/health")), 401);
}

TEST_F(FrontTest, WithoutKeysItAnswersToItsOwnNamesAlone) {
  make({.allowed_hosts = {"box.example"}});
  for (const char* host : {"localhost", "LOCALHOST:8080", "127.0.0.1:8080", "[::1]:8080", "[::1]",
                           "a.localhost:1", "box.example:80", "10.0.0.7"}) {
    EXPECT_EQ(admitted(request("GET", "/health", {{"Host", host}})), 0) << host;
  }
  for (const char* host : {"evil.example", "127.0.0.1.evil.example:8080", "localhost.evil"}) {
    EXPECT_EQ(admitted(request("GET", "/health", {{"Host", host}})), 403) << host;
  }
  make(with_keys({"one"}));
  EXPECT_EQ(admitted(request("GET", "/health", {{"Host", "box.example"}})), 0);
  make({.loopback = false});
  EXPECT_EQ(admitted(request("GET", "/health", {{"Host", "box.example"}})), 0);
}

TEST_F(FrontTest, PagesOfOtherSitesAreRefusedUnlessNamed) {
  const auto from = [](const char* origin) {
    return request("POST", "/v1/completions", {{"Origin", origin}});
  };
  make();
  EXPECT_EQ(admitted(from("http://localhost:8080")), 0);
  EXPECT_EQ(admitted(from("http://localhost:9090")), 403);
  EXPECT_EQ(admitted(from("https://evil.example")), 403);
  EXPECT_EQ(admitted(from("null")), 403);
  make({.cors_origins = {"https://good.example"}});
  EXPECT_EQ(admitted(from("https://good.example")), 0);
  EXPECT_EQ(admitted(from("https://evil.example")), 403);
  make({.cors_origins = {"*"}});
  EXPECT_EQ(admitted(from("null")), 0);
}

TEST_F(FrontTest, CorsIsOffByDefault) {
  const HttpHeaders asking = {{"Origin", "https://good.example"},
                              {"Access-Control-Request-Method", "POST"},
                              {"Access-Control-Request-Headers", "authorization"}};
  make();
  auto reply = handle(request("OPTIONS", "/v1/completions", asking));
  EXPECT_EQ(reply->status, 204);
  EXPECT_EQ(reply->header("access-control-allow-origin"), "");
  EXPECT_EQ(reply->header("access-control-allow-methods"), "");

  make(with_keys({"k"}, {.cors_origins = {"https://good.example"}}));
  EXPECT_EQ(admitted(request("OPTIONS", "/v1/completions", asking)), 0);  // it cannot have a key
  reply = handle(request("OPTIONS", "/v1/completions", asking));
  EXPECT_EQ(reply->header("access-control-allow-origin"), "https://good.example");
  EXPECT_EQ(reply->header("access-control-allow-headers"), "authorization");
  EXPECT_EQ(reply->header("vary"), "Origin");
  reply = handle(request("OPTIONS", "/v1/completions", {{"Origin", "https://evil.example"}}));
  EXPECT_EQ(reply->header("access-control-allow-origin"), "");
}

TEST_F(FrontTest, HealthFollowsTheLifeOfTheServer) {
  make({}, false);
  front_->set_loaded_share(0.25);
  auto reply = handle(request("GET", "/health"));
  EXPECT_EQ(reply->status, 503);
  EXPECT_EQ(reply->body, R"({"status":"loading","loaded":0.250})");
  reply = handle(request("POST", "/v1/completions"));
  EXPECT_EQ(reply->status, 503);
  EXPECT_EQ(reply->header("retry-after"), "1");
  front_->set_ready({});
  reply = handle(request("GET", "/health"));
  EXPECT_EQ(reply->status, 200);
  EXPECT_EQ(reply->body, R"({"status":"ok"})");
  front_->set_draining();
  EXPECT_EQ(handle(request("GET", "/health"))->status, 503);
  EXPECT_EQ(handle(request("POST", "/health"))->status, 405);
}

TEST_F(FrontTest, AnswersCarryTheIdAndAreNotSniffed) {
  make();
  const auto reply = handle(request("POST", "/v1/completions"));
  api_reply_->send(200, {{"Cache-Control", "max-age=1"}}, "{}");
  EXPECT_EQ(reply->header("x-request-id"), "id-1");
  EXPECT_EQ(reply->header("x-content-type-options"), "nosniff");
  EXPECT_EQ(reply->header("cache-control"), "max-age=1");
}

TEST_F(FrontTest, ThePageIsServedWhileTheModelLoads) {
  make({}, false);
  const auto reply = handle(request("GET", "/"));
  EXPECT_EQ(reply->status, 200);
  EXPECT_NE(reply->header("content-security-policy"), "");
  EXPECT_EQ(handle(request("POST", "/"))->status, 405);
  EXPECT_EQ(handle(request("GET", "/page/../../etc/passwd"))->status, 503);
}

TEST_F(FrontTest, MetricsCountRequestsByRouteAndStatus) {
  make();
  for (const char* path : {"/v1/completions", "/a", "/b", "/v1/models/x"}) {
    handle(request("POST", path));
    api_reply_->send(path[1] == 'v' ? 200 : 404, {}, "");
  }
  front_->refused(413, request("POST", "/v1/completions"));
  handle(request("POST", "/v1/messages"));  // in flight
  const std::string text = handle(request("GET", "/metrics"))->body;
  for (const char* line : {
           "baltoro_http_requests_total{route=\"/v1/completions\",status=\"200\"} 1\n",
           "baltoro_http_requests_total{route=\"/v1/completions\",status=\"413\"} 1\n",
           "baltoro_http_requests_total{route=\"/v1/models\",status=\"200\"} 1\n",
           "baltoro_http_requests_total{route=\"other\",status=\"404\"} 2\n",
           "baltoro_http_requests_in_flight 2\n",  // and /metrics itself
           "baltoro_choices_running 7\n",
       }) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
}

TEST_F(FrontTest, MetricsTimeTokensByChoice) {
  make();
  handle(request("POST", "/v1/completions"));
  api_reply_->note_token(0);
  api_reply_->note_token(1);
  api_reply_->note_token(0);
  api_reply_->note_token(1);
  api_reply_->note_token(1);
  api_reply_->send(200, {}, "");
  const std::string text = handle(request("GET", "/metrics"))->body;
  EXPECT_NE(text.find("baltoro_time_to_first_token_seconds_count 1\n"), std::string::npos);
  EXPECT_NE(text.find("baltoro_time_between_tokens_seconds_count 3\n"), std::string::npos);
}

TEST_F(FrontTest, LogsALineARequestWithoutItsText) {
  make();
  HttpRequest asked = request("POST", "/v1/completions");
  asked.body = "private";
  asked.key_name = "key-1";
  handle(std::move(asked));
  EXPECT_EQ(api_request_.body, "private");
  EXPECT_TRUE(lines_.empty());
  api_reply_->note_token(0);
  api_reply_->note_usage({.prompt_tokens = 5, .reused_tokens = 3, .completion_tokens = 9});
  api_reply_->begin_stream(200, {});
  api_reply_->end();
  ASSERT_EQ(lines_.size(), 1u);
  const nlohmann::json line = last_line();
  EXPECT_EQ(line["id"], "id-1");
  EXPECT_EQ(line["path"], "/v1/completions");
  EXPECT_EQ(line["status"], 200);
  EXPECT_EQ(line["client"], "127.0.0.1");
  EXPECT_EQ(line["key"], "key-1");
  EXPECT_EQ(line["prompt_tokens"], 5);
  EXPECT_EQ(line["reused_tokens"], 3);
  EXPECT_EQ(line["completion_tokens"], 9);
  EXPECT_TRUE(line.contains("first_token_ms"));
  EXPECT_EQ(lines_[0].find("private"), std::string::npos);
  api_reply_.reset();
  EXPECT_EQ(lines_.size(), 1u);
}

TEST_F(FrontTest, LogsTheTextWhereItIsAskedTo) {
  make({.log_prompts = true});
  HttpRequest asked = request("POST", "/v1/completions");
  asked.body = "not \xff private";
  handle(std::move(asked));
  api_reply_->send(200, {}, "");
  EXPECT_EQ(last_line()["body"], "not \xef\xbf\xbd private");
}

TEST_F(FrontTest, AClientThatGoesIsLoggedAs499AndToldToTheHandler) {
  make();
  const auto reply = handle(request("POST", "/v1/completions"));
  bool told = false;
  api_reply_->on_close([&] { told = true; });
  api_reply_->begin_stream(200, {});
  reply->close();
  EXPECT_TRUE(told);
  bool late = false;
  api_reply_->on_close([&] { late = true; });
  EXPECT_TRUE(late);
  // What the request took is known when the handler has let it go.
  EXPECT_TRUE(lines_.empty());
  api_reply_->note_usage({.prompt_tokens = 5, .completion_tokens = 9});
  api_reply_.reset();
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_EQ(last_line()["status"], 499);
  EXPECT_EQ(last_line()["completion_tokens"], 9);
}

TEST_F(FrontTest, AnAnswerToAClientThatHasGoneIsLoggedAs499) {
  make();
  const auto reply = handle(request("POST", "/v1/completions"));
  reply->close();
  api_reply_->send(200, {}, "late");
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_EQ(last_line()["status"], 499);
}

TEST_F(FrontTest, ADroppedReplyIsLoggedAs500) {
  make();
  handle(request("POST", "/v1/completions"));
  api_reply_.reset();
  EXPECT_EQ(last_line()["status"], 500);
}

class FrontTextTest : public FrontTest {
 protected:
  FrontTextTest() : FrontTest(LogFormat::kText) {}
};

TEST_F(FrontTextTest, TextLinesStayOneLine) {
  make();
  handle(request("POST", "/a\r\nb\xff"));
  api_reply_->note_usage({.prompt_tokens = 5, .completion_tokens = 9});
  api_reply_->send(404, {}, "");
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_EQ(std::count(lines_[0].begin(), lines_[0].end(), '\n'), 1);
  EXPECT_NE(lines_[0].find(" id-1 127.0.0.1 POST /a\\r\\nb\xef\xbf\xbd 404 0.000 s, prompt 5"),
            std::string::npos)
      << lines_[0];
}

}  // namespace
}  // namespace baltoro::serve
