// What clients do to a server on a socket: the protocol, its limits, its deadlines.
#include "serve/http_server.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "baltoro/error.h"
#include "serve/client.h"
#include "serve/fake_handler.h"
#include "serve/held_wakes.h"

namespace baltoro::serve {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// Long enough for a loaded machine, short beside the timeouts that must not be what ends a test.
constexpr milliseconds kSoon{5'000};

TEST(HttpServer, KeepsTheConnectionForFurtherRequests) {
  TestServer server;
  TestClient client(server.port());
  client.get("/echo?a=1");
  const TestResponse first = client.read();
  EXPECT_EQ(first.status, 200);
  EXPECT_EQ(first.body, "GET a=1 ");
  EXPECT_EQ(first.headers.at("connection"), "keep-alive");
  EXPECT_EQ(first.headers.at("content-type"), "text/plain");
  EXPECT_TRUE(first.headers.contains("date"));
  client.post("/echo", std::string(100'000, 'x'));
  EXPECT_EQ(client.read().body, "POST  " + std::string(100'000, 'x'));
}

TEST(HttpServer, AnswersPipelinedRequestsInTheirOrder) {
  TestServer server;
  TestClient client(server.port());
  client.send(
      "GET /wait HTTP/1.1\r\nHost: a\r\n\r\nGET /echo?2 HTTP/1.1\r\nHost: a\r\n\r\n"
      "GET /echo?3 HTTP/1.1\r\nHost: a\r\n\r\n");
  const Call call = server.handler.next();
  EXPECT_EQ(client.read_some(milliseconds(100)), "");
  call.reply->send(200, {}, "1");
  EXPECT_EQ(client.read().body, "1");
  EXPECT_EQ(client.read().body, "GET 2 ");
  EXPECT_EQ(client.read().body, "GET 3 ");
}

TEST(HttpServer, TakesARequestThatCameWhileTheOneBeforeWasAnswered) {
  TestServer server;
  TestClient client(server.port());
  client.get("/wait");
  const Call call = server.handler.next();
  client.get("/echo?next");
  std::this_thread::sleep_for(milliseconds(50));
  call.reply->send(200, {}, "1");
  EXPECT_EQ(client.read().body, "1");
  EXPECT_EQ(client.read().body, "GET next ");
}

TEST(HttpServer, AnswersHeadWithoutABody) {
  TestServer server;
  TestClient client(server.port());
  client.send("HEAD /echo HTTP/1.1\r\nHost: a\r\n\r\n");
  const TestResponse response = client.read(true);
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.headers.at("content-length"), "6");
  client.get("/echo");
  EXPECT_EQ(client.read().body, "GET  ");
}

TEST(HttpServer, EndsAStreamToAnOldClientWithTheConnection) {
  TestServer server;
  TestClient client(server.port());
  client.send("GET /stream HTTP/1.0\r\n\r\n");
  const Call call = server.handler.next();
  call.reply->begin_stream(200, {});
  EXPECT_TRUE(call.reply->write("ab"));
  EXPECT_TRUE(call.reply->write("cd"));
  call.reply->end();
  const TestResponse response = client.read();
  EXPECT_EQ(response.body, "abcd");
  EXPECT_FALSE(response.headers.contains("transfer-encoding"));
  EXPECT_TRUE(response.whole);
}

TEST(HttpServer, StreamsChunksAsTheyComeAndGoesOn) {
  TestServer server;
  TestClient client(server.port());
  client.get("/stream");
  const Call call = server.handler.next();
  call.reply->begin_stream(200, {{"Content-Type", "text/event-stream"}});
  EXPECT_NE(client.read_some(kSoon).find("chunked"), std::string::npos);
  EXPECT_TRUE(call.reply->write("data: 1\n\n"));
  EXPECT_EQ(client.read_some(kSoon), "9\r\ndata: 1\n\n\r\n");
  EXPECT_TRUE(call.reply->write(""));  // a chunk of no bytes would end the stream
  EXPECT_TRUE(call.reply->write("data: 2\n\n"));
  EXPECT_EQ(client.read_some(kSoon), "9\r\ndata: 2\n\n\r\n");
  call.reply->end();
  EXPECT_EQ(client.read_some(kSoon), "0\r\n\r\n");
  EXPECT_FALSE(call.reply->write("late"));
  client.get("/echo");
  EXPECT_EQ(client.read().status, 200);
}

TEST(HttpServer, SendsWhatIsHeldBackWhenItIsHeldNoMore) {
  TestServer test;
  TestClient one(test.server.port()), two(test.server.port());
  one.get("/wait");
  const Call first = test.handler.next();
  two.get("/wait");
  const Call second = test.handler.next();
  std::optional<HeldWakes> held(std::in_place);
  for (const Call* call : {&first, &second}) {
    call->reply->begin_stream(200, {});
    EXPECT_TRUE(call->reply->write("a"));
    EXPECT_TRUE(call->reply->write("b"));
  }
  EXPECT_EQ(one.read_some(milliseconds(100)), "");
  EXPECT_EQ(two.read_some(milliseconds(1)), "");
  held.reset();
  EXPECT_THAT(one.read_some(kSoon), ::testing::EndsWith("1\r\na\r\n1\r\nb\r\n"));
  EXPECT_THAT(two.read_some(kSoon), ::testing::EndsWith("1\r\na\r\n1\r\nb\r\n"));
  first.reply->end();
  EXPECT_EQ(one.read_some(kSoon), "0\r\n\r\n");
}

TEST(HttpServer, MayGoWhileItsWakesAreHeld) {
  std::optional<TestServer> test(std::in_place);
  TestClient client(test->server.port());
  client.get("/wait");
  const Call call = test->handler.next();
  const HeldWakes held;
  call.reply->begin_stream(200, {});
  test.reset();
  EXPECT_FALSE(call.reply->write("a"));
}

TEST(HttpServer, RefusesWhatIsNoRequest) {
  const std::pair<const char*, int> cases[] = {
      {"nonsense\r\n\r\n", 400},
      {"GET /echo HTTP/9.9\r\nHost: a\r\n\r\n", 400},
      {"GET /echo HTTP/1.1\r\n\r\n", 400},
      {"GET /echo HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
      {"GET echo HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET /echo HTTP/1.1\r\nHost: a\r\nbad header\r\n\r\n", 400},
      {"GET /ec\x01ho HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", 400},
      {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400},
      {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400},
      {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: "
       "chunked\r\n\r\n0\r\n\r\n",
       400},
      {"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400},
      {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nExpect: coffee\r\n\r\n", 417},
  };
  TestServer server;
  for (const auto& [bytes, status] : cases) {
    TestClient client(server.port());
    client.send(bytes);
    const TestResponse response = client.read();
    EXPECT_EQ(response.status, status) << bytes;
    EXPECT_NE(response.body.find("\"error\""), std::string::npos) << bytes;
    EXPECT_TRUE(client.closed_within(kSoon)) << bytes;
  }
}

TEST(HttpServer, TakesTheTargetOfAProxy) {
  TestServer server;
  TestClient client(server.port());
  client.get("http://localhost/echo?q");
  EXPECT_EQ(client.read().body, "GET q ");
}

TEST(HttpServer, RefusesLongHeaders) {
  TestServer server({.max_header_bytes = 1000});
  TestClient good(server.port());
  good.get("/echo", fmt::format("X: {}\r\n", std::string(900, 'x')));
  EXPECT_EQ(good.read().status, 200);
  TestClient bad(server.port());
  bad.get("/echo", fmt::format("X: {}\r\n", std::string(1000, 'x')));
  EXPECT_EQ(bad.read().status, 431);
  EXPECT_TRUE(bad.closed_within(kSoon));
}

TEST(HttpServer, RefusesABodyByItsDeclaredLength) {
  TestServer server({.max_body_bytes = 1000});
  TestClient client(server.port());
  client.post("/echo", std::string(1000, 'x'));
  EXPECT_EQ(client.read().status, 200);
  client.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n");
  EXPECT_EQ(client.read().status, 413);
}

TEST(HttpServer, RefusesInTheShapeOfTheInterface) {
  TestServer server({.max_body_bytes = 1000});
  const std::pair<const char*, const char*> cases[] = {
      {"POST /v1/messages HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n",
       R"({"type":"error","error":{"type":"request_too_large",)"},
      {"POST /v1/messages HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nExpect: tea\r\n\r\n",
       R"({"type":"error","error":{"type":"invalid_request_error",)"},
      {"GET /echo HTTP/1.1\r\nHost: a\r\nanthropic-version: 1\r\nExpect: tea\r\n\r\n",
       R"({"type":"error","error":{"type":"invalid_request_error",)"},
      {"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n",
       R"({"error":{"message":"the body has more than 1000 bytes)"},
  };
  for (const auto& [bytes, begin] : cases) {
    TestClient client(server.port());
    client.send(bytes);
    const TestResponse response = client.read();
    EXPECT_TRUE(response.body.starts_with(begin)) << bytes << response.body;
    EXPECT_FALSE(response.headers.at("x-request-id").empty()) << bytes;
  }
}

TEST(HttpServer, RefusesABodyOfChunksWhenItGrowsTooLong) {
  TestServer server({.max_body_bytes = 1000});
  TestClient client(server.port());
  client.send("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
  const std::string chunk = fmt::format("{:x}\r\n{}\r\n", 600, std::string(600, 'x'));
  client.send(chunk + "0\r\n\r\n");
  EXPECT_EQ(client.read().status, 200);
  client.send("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
  client.send(chunk + chunk + "0\r\n\r\n");
  EXPECT_EQ(client.read().status, 413);
}

// The client sends all of it before it looks at the answer, which must not be lost in a reset.
TEST(HttpServer, AnswersAClientThatSends100MegabytesRegardless) {
  TestServer server;
  TestClient client(server.port());
  client.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n");
  const std::string megabyte(1'000'000, 'x');
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(client.send(megabyte));
  EXPECT_EQ(client.read().status, 413);
}

TEST(HttpServer, BoundsTheBodiesOfAllRequests) {
  TestServer server({.max_body_bytes = 1000, .max_total_body_bytes = 1500});
  TestClient first(server.port());
  first.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n");
  std::this_thread::sleep_for(milliseconds(100));
  TestClient second(server.port());
  second.post("/echo", std::string(1000, 'x'));
  const TestResponse refused = second.read();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.headers.at("retry-after"), "1");
  first.send(std::string(1000, 'x'));
  EXPECT_EQ(first.read().status, 200);
  // The bytes are given back when the handler has returned, which may be after its answer is here.
  int third = 0;
  for (int attempt = 0; attempt < 500 && third != 200; ++attempt) {
    std::this_thread::sleep_for(milliseconds(attempt == 0 ? 0 : 10));
    TestClient client(server.port());
    client.post("/echo", std::string(1000, 'x'));
    third = client.read().status;
  }
  EXPECT_EQ(third, 200);
}

TEST(HttpServer, SaysContinueToWhoAsks) {
  TestServer server({.max_body_bytes = 10});
  TestClient client(server.port());
  client.send(
      "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.read().status, 100);
  client.send("ab");
  EXPECT_EQ(client.read().body, "POST  ab");
  client.send(
      "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 20\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.read().status, 413);
}

TEST(HttpServer, AsksBeforeItReadsABody) {
  const auto admit = [](HttpRequest& head) -> std::optional<HttpError> {
    if (head.headers.find("authorization") != nullptr) return std::nullopt;
    return HttpError{.status = 401, .message = "no"};
  };
  std::atomic<int> refused = 0;
  TestServer server({}, {.admit = admit, .refused = [&](int status, const HttpRequest& request) {
                           refused = status;
                           EXPECT_EQ(request.path, "/echo");
                         }});
  TestClient client(server.port());
  client.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n");
  EXPECT_EQ(client.read().status, 401);
  EXPECT_EQ(refused, 401);
  TestClient good(server.port());
  good.get("/echo", "Authorization: x\r\n");
  EXPECT_EQ(good.read().status, 200);
}

TEST(HttpServer, CutsOffSlowHeaders) {
  TestServer server({.header_timeout = milliseconds(300)});
  TestClient client(server.port());
  const auto start = Clock::now();
  ASSERT_TRUE(client.send("GET /echo HTTP/1.1\r\n"));
  std::thread drip([&] {
    for (int i = 0; i < 20; ++i) {
      if (!client.send("X")) break;
      std::this_thread::sleep_for(milliseconds(50));
    }
  });
  const TestResponse response = client.read();
  const auto waited = Clock::now() - start;
  drip.join();
  EXPECT_EQ(response.status, 408);
  EXPECT_GE(waited, milliseconds(290));
  EXPECT_LT(waited, kSoon);
}

TEST(HttpServer, CutsOffSlowBodies) {
  TestServer server({.body_timeout = milliseconds(300)});
  TestClient client(server.port());
  client.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc");
  EXPECT_EQ(client.read().status, 408);
  EXPECT_TRUE(client.closed_within(kSoon));
}

TEST(HttpServer, ClosesIdleConnectionsAndNoOthers) {
  TestServer server({.idle_timeout = milliseconds(200)});
  TestClient silent(server.port());
  TestClient served(server.port());
  TestClient waiting(server.port());
  served.get("/echo");
  EXPECT_EQ(served.read().status, 200);
  waiting.get("/wait");
  const Call call = server.handler.next();
  EXPECT_TRUE(silent.closed_within(kSoon));
  EXPECT_TRUE(served.closed_within(kSoon));
  call.reply->send(200, {}, "late");
  EXPECT_EQ(waiting.read().body, "late");
}

TEST(HttpServer, RefusesConnectionsBeyondItsLimit) {
  TestServer server({.max_connections = 2});
  TestClient first(server.port());
  TestClient second(server.port());
  first.get("/echo");
  second.get("/echo");
  EXPECT_EQ(first.read().status, 200);
  EXPECT_EQ(second.read().status, 200);
  TestClient third(server.port());
  third.get("/echo");
  EXPECT_EQ(third.read().status, 503);
  EXPECT_TRUE(third.closed_within(kSoon));
  first.close();
  third.close();
  while (server.server.num_connections() > 1) std::this_thread::sleep_for(milliseconds(1));
  TestClient fourth(server.port());
  fourth.get("/echo");
  EXPECT_EQ(fourth.read().status, 200);
}

TEST(HttpServer, AnswersForAHandlerThatFails) {
  TestServer server;
  TestClient client(server.port());
  client.get("/throw");
  const TestResponse thrown = client.read();
  EXPECT_EQ(thrown.status, 500);
  EXPECT_EQ(thrown.body.find("secret"), std::string::npos);
  client.get("/drop");
  EXPECT_EQ(client.read().status, 500);
  client.get("/stream");
  {
    const Call call = server.handler.next();
    call.reply->begin_stream(200, {});
    call.reply->write("half");
  }
  const TestResponse cut = client.read();
  EXPECT_EQ(cut.status, 200);
  EXPECT_FALSE(cut.whole);
}

TEST(HttpServer, MakesControlCharactersOfHeadersHarmless) {
  TestServer server;
  TestClient client(server.port());
  client.get("/wait");
  server.handler.next().reply->send(200, {{"X-A", "b\r\nX-Evil: 1"}}, "");
  const TestResponse response = client.read();
  EXPECT_EQ(response.headers.at("x-a"), "b  X-Evil: 1");
  EXPECT_FALSE(response.headers.contains("x-evil"));
}

TEST(HttpServer, GivesIdsAndKeepsSaneOnes) {
  TestServer server;
  TestClient client(server.port());
  const auto id_of = [&](std::string_view headers) {
    client.get("/wait", headers);
    const Call call = server.handler.next();
    call.reply->send(200, {}, "");
    client.read();
    return call.request.id;
  };
  const std::string made = id_of("");
  EXPECT_TRUE(made.starts_with("req-"));
  EXPECT_NE(id_of(""), made);
  EXPECT_EQ(id_of("X-Request-Id: abc_1.2-3\r\n"), "abc_1.2-3");
  EXPECT_TRUE(id_of("X-Request-Id: a b\r\n").starts_with("req-"));
  EXPECT_TRUE(id_of(fmt::format("X-Request-Id: {}\r\n", std::string(65, 'a'))).starts_with("req-"));
}

TEST(HttpServer, ListensOnIpv6) {
  std::unique_ptr<TestServer> server;
  try {
    server = std::make_unique<TestServer>(HttpServerOptions{.host = "::1"});
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  EXPECT_EQ(server->server.url(), fmt::format("http://[::1]:{}", server->port()));
  TestClient client(server->port(), true);
  client.get("/echo");
  EXPECT_EQ(client.read().status, 200);
}

TEST(HttpServer, SaysWhyItCannotListen) {
  TestServer server;
  try {
    HttpServer second({.port = server.port()}, {});
    FAIL() << "two servers on one port";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIo);
    EXPECT_NE(std::string(error.what()).find(std::to_string(server.port())), std::string::npos);
  }
  EXPECT_THROW(HttpServer({.host = "example.com"}, {}), Error);
}

}  // namespace
}  // namespace baltoro::serve
