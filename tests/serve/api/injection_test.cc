// Special tokens in what a client writes never become structure, whatever field they stand in.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "serve/api/fake_model.h"

namespace baltoro::serve {
namespace {

// Requests with the mark @ in every field of text.
constexpr const char* kChat = R"({
  "messages": [
    {"role": "system", "content": "s @", "name": "n @"},
    {"role": "user", "content": [{"type": "text", "text": "t @"}], "name": "n @"},
    {"role": "assistant", "content": "c @", "reasoning_content": "r @", "name": "n @", "tool_calls": [
      {"id": "i @", "type": "function", "function": {"name": "f @", "arguments": "{\"k @\": \"v @\", \"l\": [\"@\"]}"}},
      {"id": "j @", "type": "function", "function": {"name": "f @", "arguments": "no JSON @"}}]},
    {"role": "tool", "tool_call_id": "i @", "content": "result @"},
    {"role": "tool", "tool_call_id": "j @", "content": "result @"},
    {"role": "user", "content": "@"}],
  "tools": [{"type": "function", "function": {"name": "f @", "description": "d @",
    "parameters": {"type": "object", "properties": {"k @": {"type": "string", "description": "@"}}}}}])";

constexpr const char* kXtmlOnly = R"(,
  "response_format": {"type": "json_schema", "json_schema": {"name": "n @", "schema":
    {"type": "object", "title": "@", "properties": {"p @": {"enum": ["@"]}}}}})";

constexpr const char* kMessages = R"({"max_tokens": 5,
  "system": [{"type": "text", "text": "s @"}], "thinking": {"type": "adaptive"},
  "messages": [
    {"role": "user", "content": [{"type": "text", "text": "t @"}]},
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "r @", "signature": "@"},
      {"type": "text", "text": "c @"},
      {"type": "tool_use", "id": "i @", "name": "f @", "input": {"k @": "v @", "l": ["@"]}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "i @", "content": "result @"}]}],
  "tools": [{"name": "f @", "description": "d @", "input_schema": {"type": "object",
    "properties": {"k @": {"type": "string", "description": "@"}}}}]})";

std::string fill(std::string text, const std::string& value) {
  for (std::size_t at = text.find('@'); at != std::string::npos; at = text.find('@', at)) {
    text.replace(at, 1, value);
    at += value.size();
  }
  return text;
}

void expect_no_structure(const std::vector<std::string>& specials, const std::string& path,
                         const std::string& body) {
  FakeServer server(specials);
  const auto controls = [&](const std::string& value) {
    const auto reply = server.post(path, fill(body, value));
    EXPECT_EQ(reply->status(), 200) << value << ": " << reply->body();
    std::vector<TokenId> ids;
    for (const TokenId id : server.prompt()) {
      if (server.tokenizer.is_special(id)) ids.push_back(id);
    }
    return ids;
  };
  const std::vector<TokenId> plain = controls("x");
  EXPECT_FALSE(plain.empty());
  for (const std::string& special : specials) EXPECT_EQ(controls(special), plain) << special;
}

TEST(Injection, NoFieldOfAChatBecomesStructure) {
  expect_no_structure(xtml_specials(), "/v1/chat/completions",
                      std::string(kChat) + kXtmlOnly + "}");
  for (const bool thinking : {false, true}) {
    expect_no_structure(k2_specials(thinking), "/v1/chat/completions", std::string(kChat) + "}");
  }
}

TEST(Injection, NoFieldOfMessagesBecomesStructure) {
  expect_no_structure(xtml_specials(), "/v1/messages", kMessages);
  expect_no_structure(k2_specials(true), "/v1/messages", kMessages);
}

}  // namespace
}  // namespace baltoro::serve
