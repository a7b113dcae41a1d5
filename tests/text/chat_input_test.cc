// A request that is wrong must be refused with the path of what is wrong: a field that is dropped
// without a word changes the prompt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "text/chat_test_util.h"

namespace baltoro {
namespace {

using ::testing::ElementsAre;

TEST(ParseConversation, ReadsEveryField) {
  const Conversation conversation = parse_conversation(R"({
    "model": "k3", "temperature": 0.5,
    "messages": [
      {"role": "system", "content": "S", "tools": [{"name": "late"}]},
      {"role": "user", "name": "Ann", "content": [{"type": "text", "text": "a"}, "b"]},
      {"role": "assistant", "content": null, "reasoning": "r", "refusal": null, "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}},
        {"name": "g", "arguments": {"x": 1e2}}]},
      {"role": "tool", "tool_call_id": "c1", "id": "other", "tool": "f", "content": "42"}],
    "tools": [ {"name": "f"} ],
    "thinking": false, "thinking_effort": "low",
    "tool_choice": {"type": "function", "function": {"name": "f"}},
    "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"a": 1.0}}},
    "add_generation_prompt": false})");
  ASSERT_EQ(conversation.messages.size(), 4u);
  const Message& system = conversation.messages[0];
  EXPECT_EQ(system.tools, R"([{"name": "late"}])");
  const Message& user = conversation.messages[1];
  EXPECT_EQ(user.name, "Ann");
  EXPECT_THAT(user.content, ElementsAre("a", "b"));
  const Message& assistant = conversation.messages[2];
  EXPECT_TRUE(assistant.content.empty());
  EXPECT_EQ(assistant.reasoning, "r");
  ASSERT_EQ(assistant.tool_calls.size(), 2u);
  EXPECT_EQ(assistant.tool_calls[0].id, "c1");
  EXPECT_EQ(assistant.tool_calls[0].arguments, R"({"a": 1})");
  EXPECT_EQ(assistant.tool_calls[0].form, ArgumentsForm::kText);
  EXPECT_EQ(assistant.tool_calls[1].name, "g");
  EXPECT_EQ(assistant.tool_calls[1].arguments, R"({"x": 1e2})");
  EXPECT_EQ(assistant.tool_calls[1].form, ArgumentsForm::kObject);
  EXPECT_EQ(conversation.messages[3].tool_call_id, "c1");
  EXPECT_EQ(conversation.messages[3].tool, "f");
  EXPECT_EQ(conversation.tools, R"([ {"name": "f"} ])");
  EXPECT_EQ(conversation.thinking, false);
  EXPECT_EQ(conversation.thinking_effort, "low");
  EXPECT_EQ(conversation.tool_choice.kind, ToolChoice::Kind::kNamed);
  EXPECT_EQ(conversation.tool_choice.name, "f");
  EXPECT_EQ(conversation.response_format.kind, ResponseFormat::Kind::kJsonSchema);
  EXPECT_EQ(conversation.response_format.schema, R"({"a": 1.0})");
  EXPECT_FALSE(conversation.add_generation_prefix);
}

TEST(ParseConversation, WhatIsMissingOrNullHasItsDefault) {
  for (const char* json : {R"({"messages": []})",
                           R"({"messages": [], "tools": null, "thinking": null, "tool_choice": null,
            "response_format": null, "add_generation_prompt": null})",
                           R"({"messages": [], "tools": [], "tool_choice": "auto",
            "response_format": {"type": "text"}})"}) {
    const Conversation conversation = parse_conversation(json);
    EXPECT_TRUE(conversation.tools.empty()) << json;
    EXPECT_EQ(conversation.thinking, std::nullopt) << json;
    EXPECT_EQ(conversation.thinking_effort, "max") << json;
    EXPECT_EQ(conversation.tool_choice.kind, ToolChoice::Kind::kAuto) << json;
    EXPECT_EQ(conversation.response_format.kind, ResponseFormat::Kind::kText) << json;
    EXPECT_TRUE(conversation.add_generation_prefix) << json;
  }
  EXPECT_EQ(parse_conversation(R"({"messages": [], "thinking_effort": null})").thinking_effort,
            std::nullopt);
}

TEST(ParseConversation, ReasoningContentComesBeforeReasoning) {
  const auto reasoning_of = [](const std::string& fields) {
    const std::string json = R"({"messages": [{"role": "assistant", )" + fields + "}]}";
    return parse_conversation(json).messages[0].reasoning;
  };
  EXPECT_EQ(reasoning_of(R"("reasoning_content": "a", "reasoning": "b")"), "a");
  EXPECT_EQ(reasoning_of(R"("reasoning_content": null, "reasoning": "b")"), "b");
  EXPECT_EQ(reasoning_of(R"("reasoning": " \n")"), " \n");
  EXPECT_EQ(reasoning_of(R"("reasoning_content": "", "reasoning": "b")"), "");
}

TEST(ParseConversation, EachWrongRequestNamesItsPath) {
  const std::string assistant = R"({"messages": [{"role": "assistant", )";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[]", "usage: request: expected an object, found an array"},
      {"{", "usage: request: line 1, column 2: expected a key in double quotes"},
      {"{}", "usage: messages: expected an array of messages, found nothing"},
      {R"({"messages": {}})", "usage: messages: expected an array of messages, found an object"},
      {R"({"messages": ["hi"]})", "usage: messages[0]: expected a message, found a string"},
      {R"({"messages": [{"content": "hi"}]})",
       "usage: messages[0].role: expected a string, found nothing"},
      {R"({"messages": [{"role": 1}]})",
       "usage: messages[0].role: expected a string, found a number"},
      {R"({"messages": [{"role": "user", "content": 7}]})",
       "usage: messages[0].content: expected null, a string or a list of parts, found a number"},
      {R"({"messages": [{"role": "user", "content": [{"type": "text"}]}]})",
       "usage: messages[0].content[0].text: expected a string, found nothing"},
      {R"({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]})",
       "unsupported: messages[0].content[0]: a content part of type \"image_url\"; only \"text\" "
       "can be read"},
      {R"({"messages": [{"role": "user", "name": 3}]})",
       "usage: messages[0].name: expected a string or null, found a number"},
      {R"({"messages": [{"role": "user", "tools": [{}]}]})",
       "usage: messages[0].tools: a message of role \"user\" cannot have it"},
      {R"({"messages": [{"role": "tool", "tool_calls": [{"name": "f"}]}]})",
       "usage: messages[0].tool_calls: a message of role \"tool\" cannot have it"},
      {assistant + R"("tool_calls": {}}]})",
       "usage: messages[0].tool_calls: expected an array of tool calls, found an object"},
      {assistant + R"("tool_calls": [{"function": {}}]}]})",
       "usage: messages[0].tool_calls[0].function.name: expected a string, found nothing"},
      {assistant + R"("tool_calls": [{"name": "f", "arguments": [1]}]}]})",
       "usage: messages[0].tool_calls[0].arguments: expected an object, or a string of JSON, found "
       "an array"},
      {assistant + R"("tool_calls": [{"name": "f"}, {"name": "g", "id": 4}]}]})",
       "usage: messages[0].tool_calls[1].id: expected a string or null, found a number"},
      {assistant + R"("reasoning_content": []}]})",
       "usage: messages[0].reasoning_content: expected a string or null, found an array"},
      {R"({"messages": [], "tools": {"name": "f"}})",
       "usage: tools: expected an array of tool declarations, found an object"},
      {R"({"messages": [], "tools": ["f"]})",
       "usage: tools[0]: expected a tool declaration, found a string"},
      {R"({"messages": [], "thinking": "yes"})",
       "usage: thinking: expected a boolean, found a string"},
      {R"({"messages": [], "thinking_effort": 3})",
       "usage: thinking_effort: expected a string or null, found a number"},
      {R"({"messages": [], "tool_choice": "f"})",
       "usage: tool_choice: expected \"auto\", \"none\", \"required\" or {\"type\": \"function\", "
       "\"function\": {\"name\"}}, found \"f\""},
      {R"({"messages": [], "tool_choice": {"type": "function"}})",
       "usage: tool_choice.name: expected a string, found nothing"},
      {R"({"messages": [], "response_format": "json"})",
       "usage: response_format: expected an object {\"type\"}, found a string"},
      {R"({"messages": [], "response_format": {"type": "json_schema"}})",
       "usage: response_format.json_schema: expected an object with the schema, found nothing"}};
  for (const auto& [json, expected] : cases) {
    EXPECT_EQ(error_of([&json = json] { parse_conversation(json); }), expected) << json;
  }
}

}  // namespace
}  // namespace baltoro
