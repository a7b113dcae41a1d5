// Connections that end, or do not: clients that vanish, slow readers, many at once, and the
// server's own end.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <thread>
#include <vector>

#include "serve/client.h"
#include "serve/fake_handler.h"

namespace baltoro::serve {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;
constexpr milliseconds kSoon{5'000};

TEST(HttpClose, IsToldAtOnceWhileAWholeAnswerIsMade) {
  TestServer server;
  for (const bool reset : {false, true}) {
    TestClient client(server.port());
    client.get("/wait");
    const Call call = server.handler.next();
    Event gone;
    call.reply->on_close([&] { gone.set(); });
    EXPECT_FALSE(gone.wait(milliseconds(50)));
    if (reset) {
      client.reset();
    } else {
      client.close();
    }
    EXPECT_TRUE(gone.wait(kSoon)) << (reset ? "reset" : "closed");
    call.reply->send(200, {}, "nobody reads this");
  }
}

TEST(HttpClose, IsToldDuringAStream) {
  TestServer server;
  TestClient client(server.port());
  client.get("/stream");
  const Call call = server.handler.next();
  Event gone;
  call.reply->on_close([&] { gone.set(); });
  call.reply->begin_stream(200, {});
  EXPECT_TRUE(call.reply->write("x"));
  client.close();
  EXPECT_TRUE(gone.wait(kSoon));
  EXPECT_FALSE(call.reply->write("x"));
  call.reply->end();
}

TEST(HttpClose, IsToldAtOnceToWhoAsksLate) {
  TestServer server;
  TestClient client(server.port());
  client.get("/wait");
  const Call call = server.handler.next();
  Event first;
  call.reply->on_close([&] { first.set(); });
  client.close();
  ASSERT_TRUE(first.wait(kSoon));
  bool told = false;
  call.reply->on_close([&] { told = true; });
  EXPECT_TRUE(told);
}

TEST(HttpClose, IsNotToldAfterTheAnswer) {
  TestServer server;
  std::atomic<int> told = 0;
  {
    TestClient client(server.port());
    client.get("/wait");
    const Call call = server.handler.next();
    call.reply->on_close([&] { ++told; });
    call.reply->send(200, {}, "done");
    EXPECT_EQ(client.read().body, "done");
  }
  while (server.server.num_connections() > 0) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(told, 0);
}

TEST(HttpClose, IsToldWhenTheServerEnds) {
  auto server = std::make_unique<TestServer>();
  TestClient client(server->port());
  client.get("/wait");
  const Call call = server->handler.next();
  Event gone;
  call.reply->on_close([&] { gone.set(); });
  server.reset();
  EXPECT_TRUE(gone.wait(milliseconds(0)));
  call.reply->send(200, {}, "too late");  // the reply outlives the server
}

TEST(HttpSlowReader, IsCutOffAndHarmsNobody) {
  TestServer server({.max_pending_bytes = 500'000});
  TestClient slow(server.port());
  slow.get("/slow");
  const Call slow_call = server.handler.next();
  Event gone;
  slow_call.reply->on_close([&] { gone.set(); });
  slow_call.reply->begin_stream(200, {});
  TestClient good(server.port());
  good.get("/good");
  const Call good_call = server.handler.next();
  good_call.reply->begin_stream(200, {});

  const std::string chunk(2'000, 'x');
  bool taken = true;
  std::size_t slow_bytes = 0;
  for (int i = 0; i < 50'000 && taken; ++i) {
    taken = slow_call.reply->write(chunk);
    if (taken) slow_bytes += chunk.size();
    ASSERT_TRUE(good_call.reply->write("y"));
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  EXPECT_FALSE(taken);
  EXPECT_GT(slow_bytes, 500'000u);  // what the system holds comes before the limit
  EXPECT_LT(slow_bytes, 50'000'000u);
  EXPECT_TRUE(gone.wait(kSoon));
  good_call.reply->end();
  const TestResponse response = good.read();
  EXPECT_TRUE(response.whole);
  EXPECT_GT(response.body.size(), 10u);
}

TEST(HttpSlowReader, OfAWholeAnswerIsCutOffWhenItTakesNothing) {
  TestServer server({.write_timeout = milliseconds(200)});
  TestClient client(server.port());
  client.get("/wait");
  server.handler.next().reply->send(200, {}, std::string(20'000'000, 'x'));
  const auto start = Clock::now();
  while (server.server.num_connections() > 0 && Clock::now() - start < kSoon) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_EQ(server.server.num_connections(), 0u);
}

TEST(HttpServerMany, Keeps1000IdleConnectionsBeside64Streams) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < 2400) GTEST_SKIP() << "this process may open only " << limit.rlim_cur;

  TestServer server;
  std::vector<TestClient> idle;
  for (int i = 0; i < 1000; ++i) {
    idle.emplace_back(server.port());
    if (i % 2 == 0) idle.back().get("/echo");
  }
  for (int i = 0; i < 1000; i += 2) ASSERT_EQ(idle[static_cast<std::size_t>(i)].read().status, 200);

  std::vector<TestClient> clients;
  std::vector<Call> calls;
  for (int i = 0; i < 64; ++i) {
    clients.emplace_back(server.port());
    clients.back().get("/stream");
    calls.push_back(server.handler.next());
    calls.back().reply->begin_stream(200, {});
  }
  for (int token = 0; token < 50; ++token) {
    for (const Call& call : calls) ASSERT_TRUE(call.reply->write("data: 1234567\n\n"));
    std::this_thread::sleep_for(milliseconds(1));
  }
  for (const Call& call : calls) call.reply->end();
  for (TestClient& client : clients) {
    const TestResponse response = client.read();
    EXPECT_TRUE(response.whole);
    EXPECT_EQ(response.body.size(), 50u * 15);
  }
  EXPECT_EQ(server.server.num_connections(), 1064u);
  for (TestClient& client : idle) client.get("/echo");
  for (TestClient& client : idle) ASSERT_EQ(client.read().status, 200);
}

TEST(HttpDrain, FinishesWhatItAcceptedAndTakesNoMore) {
  TestServer server;
  TestClient idle(server.port());
  idle.get("/echo");
  EXPECT_EQ(idle.read().status, 200);
  TestClient whole(server.port());
  whole.get("/wait");
  const Call whole_call = server.handler.next();
  TestClient stream(server.port());
  stream.get("/stream");
  const Call stream_call = server.handler.next();
  stream_call.reply->begin_stream(200, {});
  TestClient half(server.port());
  half.send("GET /echo HTTP/1.1\r\nHost:");
  std::this_thread::sleep_for(milliseconds(50));

  server.server.drain();
  EXPECT_FALSE(server.server.wait_drained(milliseconds(100)));
  EXPECT_TRUE(idle.closed_within(kSoon));
  EXPECT_THROW(TestClient(server.port()), std::runtime_error);
  half.send(" a\r\n\r\n");
  const TestResponse response = half.read();
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.headers.at("connection"), "close");
  whole_call.reply->send(200, {}, "whole");
  EXPECT_EQ(whole.read().body, "whole");
  EXPECT_TRUE(stream_call.reply->write("rest"));
  stream_call.reply->end();
  EXPECT_EQ(stream.read().body, "rest");
  EXPECT_TRUE(stream.closed_within(kSoon));
  EXPECT_TRUE(server.server.wait_drained(kSoon));
}

TEST(HttpDrain, AnswersRequestsThatWereOnTheirWay) {
  TestServer server;
  TestClient kept(server.port());
  kept.get("/echo");
  EXPECT_EQ(kept.read().status, 200);
  server.server.drain();
  kept.get("/echo");
  EXPECT_EQ(kept.read().status, 200);
  EXPECT_TRUE(kept.closed_within(kSoon));
  EXPECT_TRUE(server.server.wait_drained(kSoon));
}

TEST(HttpDrain, OfAnIdleServerIsQuick) {
  TestServer server;
  server.server.drain();
  EXPECT_TRUE(server.server.wait_drained(kSoon));
}

}  // namespace
}  // namespace baltoro::serve
