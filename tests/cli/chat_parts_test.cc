// What `baltoro chat --server` is made of, without a server.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "baltoro/error.h"
#include "cli/chat_stream.h"
#include "cli/http_client.h"
#include "cli/sse_reader.h"

namespace baltoro::cli {
namespace {

using Events = std::vector<std::string>;

TEST(SseReaderTest, EventsAreTheSameHoweverTheirBytesAreCut) {
  const std::string text =
      ": hello\n\ndata: one\n\nevent: x\r\ndata:two\r\ndata:  three\r\n\r\ndata: "
      "f\xC3\xA9\r\rdata: no";
  const Events expected = {"one", "two\n three", "f\xC3\xA9"};
  for (std::size_t size = 1; size <= text.size(); ++size) {
    SseReader reader;
    Events events;
    for (std::size_t at = 0; at < text.size(); at += size) {
      for (std::string& event : reader.feed(text.substr(at, size))) events.push_back(event);
    }
    EXPECT_EQ(events, expected) << size;
  }
}

TEST(ServerUrlTest, NamesHostPortAndBase) {
  struct Case {
    const char* text;
    const char* shown;
    const char* host;
    const char* port;
    const char* base;
  };
  for (const Case& c :
       {Case{"http://a", "http://a", "a", "80", "/v1"},
        Case{"http://127.0.0.1:8080/", "http://127.0.0.1:8080", "127.0.0.1", "8080", "/v1"},
        Case{"http://a:1/v1/", "http://a:1", "a", "1", "/v1"},
        Case{"http://a/x/y", "http://a", "a", "80", "/x/y/v1"},
        Case{"http://[::1]:9", "http://[::1]:9", "::1", "9", "/v1"}}) {
    const ServerUrl url = parse_server_url("--server", c.text);
    EXPECT_EQ(url.text, c.shown);
    EXPECT_EQ(url.host, c.host) << c.text;
    EXPECT_EQ(url.port, c.port) << c.text;
    EXPECT_EQ(url.base, c.base) << c.text;
  }
  for (const char* text :
       {"", "a", "http://", "http://:80", "http://a:", "http://a:x", "http://a:0", "http://a:65536",
        "http://[::1]x", "http://a/\r\nX: y", "http://a?b"}) {
    EXPECT_THROW(parse_server_url("--server", text), Error) << text;
  }
}

TEST(ChatStreamTest, ACallThatIsCutOffIsNoPartOfTheResult) {
  int deltas = 0;
  ChatStream stream([&](const ChatDelta&) { ++deltas; });
  const auto call = [](int index, const char* arguments) {
    return std::string(R"({"choices":[{"delta":{"tool_calls":[{"index":)") + std::to_string(index) +
           R"(,"id":"i","function":{"name":"f","arguments":")" + arguments + R"("}}]}}]})";
  };
  stream.feed(call(0, "{}"));
  stream.feed(call(1, "{"));
  EXPECT_EQ(deltas, 5);  // start, arguments, end; start, arguments
  ASSERT_EQ(stream.result().tool_calls.size(), 1u);
  EXPECT_EQ(stream.result().tool_calls[0].arguments, "{}");
  EXPECT_FALSE(stream.finished());
  stream.feed(R"({"choices":[{"delta":{},"finish_reason":"tool_calls"}]})");
  EXPECT_TRUE(stream.finished());
  EXPECT_EQ(stream.result().tool_calls.size(), 2u);
}

}  // namespace
}  // namespace baltoro::cli
