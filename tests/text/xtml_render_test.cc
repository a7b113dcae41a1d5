// The exact segments of XTML prompts, derived by hand from the description of the format. The
// border of a segment decides the ids, so text alone would not do.
#include "text/xtml_render.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "text/chat_test_util.h"

namespace baltoro {
namespace {

using ::testing::HasSubstr;

// `fields` are the members of a request; no effort note and no prefix unless they say so.
Conversation request(const std::string& fields) {
  Conversation conversation = parse_conversation("{" + fields + "}");
  if (fields.find("thinking_effort") == std::string::npos) conversation.thinking_effort.reset();
  if (fields.find("add_generation_prompt") == std::string::npos) {
    conversation.add_generation_prefix = false;
  }
  return conversation;
}

std::string rendered(const std::string& fields) { return show(render_xtml(request(fields))); }

std::string error(const std::string& fields) {
  return error_of([&] { render_xtml(request(fields)); });
}

// Hand-written pieces of the expected lines.
const std::string kEndMessage = " C 'message' S E";
const std::string kAssistant = "O 'message' ' role' '=\"' 'assistant' '\"' S";
const std::string kUser = "O 'message' ' role' '=\"' 'user' '\"' S";
const std::string kNoThought = " O 'think' S C 'think' S";

std::string note(const std::string& type, const std::string& body) {
  return "O 'message' ' role' '=\"' 'system' '\"' ' type' '=\"' '" + type + "' '\"' S '" + body +
         "'" + kEndMessage;
}

std::string tool(const std::string& name, const std::string& index, const std::string& body) {
  return "O 'message' ' role' '=\"' 'tool' '\"' ' tool' '=\"' '" + name +
         "' '\"' ' index' '=\"' '" + index + "' '\"' S '" + body + "'" + kEndMessage;
}

std::string argument(const std::string& key, const std::string& type, const std::string& value) {
  return " O 'argument' ' key' '=\"' '" + key + "' '\"' ' type' '=\"' '" + type + "' '\"' S " +
         (value.empty() ? "" : "'" + value + "' ") + "C 'argument' S";
}

std::string call(const std::string& name, const std::string& index, const std::string& body) {
  return " O 'call' ' tool' '=\"' '" + name + "' '\"' ' index' '=\"' '" + index + "' '\"' S" +
         body + " C 'call' S";
}

std::string with_calls(const std::string& calls) {
  return kAssistant + kNoThought + " O 'response' S C 'response' S O 'tools' S" + calls +
         " C 'tools' S" + kEndMessage;
}

// An assistant message with one call of f whose `arguments` are this JSON.
std::string one_call(const std::string& arguments) {
  return rendered(
      R"("messages": [{"role": "assistant", "tool_calls": [{"name": "f", "arguments": )" +
      arguments + "}]}]");
}

std::string f_with(const std::string& arguments) { return with_calls(call("f", "1", arguments)); }

TEST(XtmlRender, UserMessageIsSpelledOutInFull) {
  EXPECT_EQ(rendered(R"("messages": [{"role": "user", "content": "Hi"}])"),
            "O 'message' ' role' '=\"' 'user' '\"' S 'Hi' C 'message' S E");
}

TEST(XtmlRender, NoMessagesGiveAnEmptyPromptWithoutPrefix) {
  EXPECT_EQ(rendered(R"("messages": [])"), "");
}

TEST(XtmlRender, PrefixOpensTheChannelOfTheMode) {
  EXPECT_EQ(rendered(R"("messages": [], "add_generation_prompt": true)"),
            kAssistant + " O 'think' S");
  EXPECT_EQ(rendered(R"("messages": [], "add_generation_prompt": true, "thinking": false)"),
            kAssistant + " O 'response' S");
}

TEST(XtmlRender, PrefixFollowsAFinalAssistantMessageToo) {
  EXPECT_EQ(rendered(R"("messages": [{"role": "assistant", "content": "A"}],
                        "thinking": false, "add_generation_prompt": true)"),
            kAssistant + " O 'response' S 'A' C 'response' S" + kEndMessage + " " + kAssistant +
                " O 'response' S");
}

TEST(XtmlRender, ContentMayBeNullEmptyOrParts) {
  EXPECT_EQ(rendered(R"("messages": [{"role": "user", "content": null}])"), kUser + kEndMessage);
  EXPECT_EQ(rendered(R"("messages": [{"role": "user"}])"), kUser + kEndMessage);
  EXPECT_EQ(rendered(R"("messages": [{"role": "user", "content": ""}])"), kUser + kEndMessage);
  EXPECT_EQ(rendered(R"("messages": [{"role": "user", "content":
                [{"type": "text", "text": "a"}, {"type": "text", "text": ""},
                 {"type": "text", "text": "b"}]}])"),
            kUser + " 'a' 'b'" + kEndMessage);
}

TEST(XtmlRender, BodiesAreNeitherEscapedNorTrimmed) {
  EXPECT_EQ(rendered(R"("messages": [{"role": "user", "content": " &<\">\n "}])"),
            kUser + " ' &<\">\n '" + kEndMessage);
}

TEST(XtmlRender, NamesAreAttributesAndEscaped) {
  EXPECT_EQ(rendered(R"("messages": [{"role": "user", "name": "A&\"<>&amp;", "content": "x"}])"),
            "O 'message' ' role' '=\"' 'user' '\"' ' name' '=\"' "
            "'A&amp;&quot;<>&amp;amp;' '\"' S 'x'" +
                kEndMessage);
  EXPECT_EQ(rendered(R"("messages": [{"role": "user", "name": "", "content": "x"}])"),
            kUser + " 'x'" + kEndMessage);
  EXPECT_EQ(rendered(R"("thinking": false, "messages":
                [{"role": "assistant", "name": "B", "content": "x"}])"),
            "O 'message' ' role' '=\"' 'assistant' '\"' ' name' '=\"' 'B' '\"' S"
            " O 'response' S 'x' C 'response' S" +
                kEndMessage);
}

TEST(XtmlRender, DeveloperIsSystemAndOtherRolesAreRefused) {
  EXPECT_EQ(rendered(R"("messages": [{"role": "developer", "content": "x"}])"),
            "O 'message' ' role' '=\"' 'system' '\"' S 'x'" + kEndMessage);
  EXPECT_EQ(error(R"("messages": [{"role": "user"}, {"role": "critic"}])"),
            "usage: messages[1].role: expected system, developer, user, assistant or tool, found "
            "\"critic\"");
}

TEST(XtmlRender, ToolsAreDeclaredFirstSortedAndCompact) {
  EXPECT_EQ(rendered(R"("messages": [{"role": "system", "content": "x"}],
      "tools": [{"type": "function", "b": 1.50, "function": {"name": "f", "a": "é"}}])"),
            note("tool-declare",
                 "# Tools\nHere are the available tools, described in JSONSchema.\n\n```json\n"
                 R"([{"b":1.5,"function":{"a":"é","name":"f"},"type":"function"}])"
                 "\n```") +
                " O 'message' ' role' '=\"' 'system' '\"' S 'x'" + kEndMessage);
}

TEST(XtmlRender, EffortComesBehindTheToolsAndOnlyInThinkingMode) {
  const std::string effort =
      "`thinking_effort` guides on how much to think in your thinking channel (not including the "
      "response channel), supported values include `low`, `medium`, `high`, and `max`.\nNow the "
      "system is invoked with `thinking_effort=";
  EXPECT_EQ(rendered(R"("messages": [], "thinking_effort": "low", "tools": [{}])"),
            note("tool-declare",
                 "# Tools\nHere are the available tools, described in JSONSchema.\n\n"
                 "```json\n[{}]\n```") +
                " " + note("thinking-effort", effort + "low`."));
  Conversation by_default;
  by_default.add_generation_prefix = false;
  EXPECT_EQ(show(render_xtml(by_default)), note("thinking-effort", effort + "max`."));
  EXPECT_EQ(rendered(R"("messages": [], "thinking_effort": "low", "thinking": false)"), "");
  EXPECT_EQ(rendered(R"("messages": [], "thinking_effort": null)"), "");
}

TEST(XtmlRender, AnEffortThatWasNotTrainedIsRefusedWhereItCounts) {
  EXPECT_EQ(error(R"("messages": [], "thinking_effort": "medium")"),
            "usage: thinking_effort: expected low, high or max, found \"medium\"");
  EXPECT_EQ(error(R"("messages": [], "thinking_effort": "")"),
            "usage: thinking_effort: expected low, high or max, found \"\"");
  EXPECT_EQ(error(R"("messages": [], "thinking_effort": "medium", "thinking": false)"), "no error");
}

TEST(XtmlRender, ASystemMessageWithToolsIsADeclarationAndNothingElse) {
  EXPECT_EQ(rendered(R"("messages": [{"role": "user", "content": "u"},
      {"role": "system", "name": "n", "content": "dropped", "tools": [{"name": "f", "a": 1}]}])"),
            kUser + " 'u'" + kEndMessage + " " +
                note("tool-declare",
                     "## New Tools Available\nThe system dynamically extends the toolset via "
                     "lazy-loading.\nYou have access to all existing and extended tools.\nHere are "
                     "the specs for the extended tools.\n\n```json\n[{\"a\":1,\"name\":\"f\"}]\n"
                     "```"));
  EXPECT_EQ(rendered(R"("messages": [{"role": "system", "content": "kept", "tools": []}])"),
            "O 'message' ' role' '=\"' 'system' '\"' S 'kept'" + kEndMessage);
}

TEST(XtmlRender, ReasoningIsKeptInThinkingModeAndTheChannelStandsEvenIfEmpty) {
  EXPECT_EQ(rendered(R"("messages": [{"role": "assistant", "content": "A",
                                      "reasoning_content": " \n"}])"),
            kAssistant + " O 'think' S ' \n' C 'think' S O 'response' S 'A' C 'response' S" +
                kEndMessage);
  EXPECT_EQ(rendered(R"("messages": [{"role": "assistant", "content": "A"}])"),
            kAssistant + kNoThought + " O 'response' S 'A' C 'response' S" + kEndMessage);
}

TEST(XtmlRender, ReasoningIsDroppedWithItsChannelOtherwise) {
  EXPECT_EQ(rendered(R"("thinking": false, "messages": [{"role": "assistant", "content": "A",
                                      "reasoning_content": "secret"}])"),
            kAssistant + " O 'response' S 'A' C 'response' S" + kEndMessage);
}

TEST(XtmlRender, ReasoningOfEarlierTurnsIsPreserved) {
  EXPECT_THAT(rendered(R"("messages": [{"role": "assistant", "content": "A", "reasoning": "r1"},
        {"role": "user", "content": "u"}, {"role": "assistant", "reasoning": "r2"}])"),
              ::testing::AllOf(HasSubstr("O 'think' S 'r1' C"), HasSubstr("O 'think' S 'r2' C")));
}

TEST(XtmlRender, CallsAreNumberedAndMayBeFlat) {
  EXPECT_EQ(rendered(R"("messages": [{"role": "assistant", "tool_calls":
                [{"function": {"name": "a\"b"}}, {"name": "g", "arguments": null},
                 {"name": "h", "arguments": ""}]}])"),
            with_calls(call("a&quot;b", "1", "") + call("g", "2", "") + call("h", "3", "")));
  EXPECT_EQ(rendered(R"("messages": [{"role": "assistant", "tool_calls": []}])"),
            kAssistant + kNoThought + " O 'response' S C 'response' S" + kEndMessage);
}

TEST(XtmlRender, ArgumentsOfAStringKeepTheirSourceText) {
  EXPECT_EQ(one_call(R"("{\"z\": 1e2, \"a\": [1,2], \"s\": \"q\\\"\\n<\", \"t\": true, )"
                     R"(\"n\": null, \"o\": {\"k\":\"\\u00e9\"}}")"),
            f_with(argument("z", "number", "1e2") + argument("a", "array", "[1,2]") +
                   argument("s", "string", "q\"\n<") + argument("t", "boolean", "true") +
                   argument("n", "null", "null") + argument("o", "object", "{\"k\":\"\\u00e9\"}")));
}

TEST(XtmlRender, ArgumentsOfAnObjectArePrintedAnew) {
  EXPECT_EQ(one_call(R"({"z":1e2,"a":[1,2],"s":"q\"\n<","t":false,"o":{"k":"\u00e9","b":0}})"),
            f_with(argument("z", "number", "100.0") + argument("a", "array", "[1, 2]") +
                   argument("s", "string", "q\"\n<") + argument("t", "boolean", "false") +
                   argument("o", "object", "{\"k\": \"é\", \"b\": 0}")));
}

TEST(XtmlRender, AnEmptyStringArgumentHasNoValueSegmentAndAnEmptyKeyKeepsItsQuotes) {
  EXPECT_EQ(one_call(R"({"a": "", "": 1})"),
            f_with(argument("a", "string", "") +
                   " O 'argument' ' key' '=\"' '\"' ' type' '=\"' 'number' '\"' S '1' "
                   "C 'argument' S"));
}

TEST(XtmlRender, EqualKeysEachGiveAnArgument) {
  EXPECT_EQ(one_call(R"("{\"a\":1,\"a\":2}")"),
            f_with(argument("a", "number", "1") + argument("a", "number", "2")));
}

TEST(XtmlRender, TextBehindTheObjectIsNotLookedAt) {
  EXPECT_EQ(one_call(R"(" \n{\"a\":1} trailing }")"), f_with(argument("a", "number", "1")));
}

TEST(XtmlRender, EmptyObjectsGiveNoArguments) {
  EXPECT_EQ(one_call(R"("{}")"), f_with(""));
  EXPECT_EQ(one_call("{}"), f_with(""));
}

TEST(XtmlRender, WhatIsNoObjectBecomesAJsonBlockWithTheWholeText) {
  const std::vector<std::pair<std::string, std::string>> cases = {{R"("[1]")", "[1]"},
                                                                  {R"("{\"a\":1,}")", "{\"a\":1,}"},
                                                                  {R"("{'a':1}")", "{'a':1}"},
                                                                  {R"("{\"a\":01}")", "{\"a\":01}"},
                                                                  {R"("{\"a\":1")", "{\"a\":1"},
                                                                  {R"("\ufeff{}")", "\uFEFF{}"},
                                                                  {R"("{1:2}")", "{1:2}"},
                                                                  {R"("  ")", "  "},
                                                                  {R"("5")", "5"}};
  for (const auto& [json, text] : cases) {
    EXPECT_EQ(one_call(json),
              f_with(" O 'json' ' type' '=\"' 'object' '\"' S '" + text + "' C 'json' S"))
        << json;
  }
}

TEST(XtmlRender, RawControlCharactersInArgumentStringsAreAccepted) {
  EXPECT_EQ(one_call(R"("{\"a\":\"x\ny\tz\"}")"), f_with(argument("a", "string", "x\ny\tz")));
}

const std::string kTwoCalls =
    R"({"role": "assistant", "tool_calls": [{"id": "x", "name": "f"}, {"id": "y", "name": "g"}]})";
const std::string kTwoCallsShown = with_calls(call("f", "1", "") + call("g", "2", ""));

TEST(XtmlRender, AMatchedRunOfResultsTakesOrderAndNamesFromTheCalls) {
  EXPECT_EQ(rendered(R"("messages": [)" + kTwoCalls + R"(,
        {"role": "tool", "tool_call_id": "y", "name": "other", "content": "2"},
        {"role": "tool", "id": "x", "tool": "wrong", "content": "1"}])"),
            kTwoCallsShown + " " + tool("f", "1", "1") + " " + tool("g", "2", "2"));
}

TEST(XtmlRender, ARunWithOneForeignIdKeepsItsOrder) {
  EXPECT_EQ(rendered(R"("messages": [)" + kTwoCalls + R"(,
        {"role": "tool", "tool_call_id": "y", "content": "2"},
        {"role": "tool", "tool_call_id": "z", "name": "n", "content": "1"}])"),
            kTwoCallsShown + " " + tool("f", "1", "2") + " " + tool("n", "2", "1"));
}

TEST(XtmlRender, OfCallsWithOneIdTheFirstIsMeantAndTiesKeepTheirOrder) {
  EXPECT_EQ(rendered(R"("messages": [{"role": "assistant", "tool_calls":
                [{"id": "x", "name": "f"}, {"id": "x", "name": "g"}]},
        {"role": "tool", "tool_call_id": "x", "content": "1"},
        {"role": "tool", "tool_call_id": "x", "content": "2"}])"),
            kTwoCallsShown + " " + tool("f", "1", "1") + " " + tool("f", "2", "2"));
}

// Long enough for a sort that is not stable to show it.
TEST(XtmlRender, ManyResultsOfOneCallKeepTheirOrder) {
  std::string results;
  std::string expected = kTwoCallsShown;
  for (int i = 0; i < 60; ++i) {
    results += R"(, {"role": "tool", "tool_call_id": ")" + std::string(i % 2 == 0 ? "y" : "x") +
               R"(", "content": ")" + std::to_string(i) + "\"}";
  }
  for (int i = 0; i < 60; ++i) {
    const bool first = i < 30;
    const int content = first ? 2 * i + 1 : 2 * (i - 30);
    expected += ' ';
    expected += tool(first ? "f" : "g", std::to_string(i + 1), std::to_string(content));
  }
  EXPECT_EQ(rendered(R"("messages": [)" + kTwoCalls + results + "]"), expected);
}

TEST(XtmlRender, UnmatchedResultsAreNamedByToolThenNameThenPosition) {
  EXPECT_EQ(rendered(R"("messages": [)" + kTwoCalls + R"(,
        {"role": "tool", "tool": "t", "name": "n", "content": "1"},
        {"role": "tool", "content": "2"}])"),
            kTwoCallsShown + " " + tool("t", "1", "1") + " " + tool("g", "2", "2"));
  EXPECT_EQ(rendered(R"("messages": [{"role": "tool", "tool": "", "content": "1"}])"),
            "O 'message' ' role' '=\"' 'tool' '\"' ' tool' '=\"' '\"' ' index' '=\"' '1' '\"' "
            "S '1'" +
                kEndMessage);
}

TEST(XtmlRender, AResultWithoutAnyNameIsRefused) {
  EXPECT_THAT(error(R"("messages": [{"role": "tool", "content": "1"}])"),
              HasSubstr("usage: messages[0]: tool result 1 after an assistant message with 0 calls "
                        "has no name"));
}

TEST(XtmlRender, TheIndexCountsOnAcrossUserMessagesAndBeginsAnewAfterAnAssistant) {
  EXPECT_EQ(rendered(R"("messages": [)" + kTwoCalls + R"(,
        {"role": "tool", "tool_call_id": "x", "content": "1"}, {"role": "user", "content": "u"},
        {"role": "tool", "tool_call_id": "y", "content": "2"}, )" +
                     kTwoCalls + R"(, {"role": "tool", "content": "3"}])"),
            kTwoCallsShown + " " + tool("f", "1", "1") + " " + kUser + " 'u'" + kEndMessage + " " +
                tool("g", "2", "2") + " " + kTwoCallsShown + " " + tool("f", "1", "3"));
}

TEST(XtmlRender, ToolChoiceIsANoteBehindTheMessages) {
  EXPECT_EQ(rendered(R"("messages": [{"role": "user", "content": "u"}],
                        "tool_choice": "required")"),
            kUser + " 'u'" + kEndMessage + " " +
                note("tool-choice",
                     "The system is invoked with `tool_choice=required`.\nYou MUST call tools in "
                     "the next message."));
  EXPECT_EQ(rendered(R"("messages": [], "tool_choice": "none")"),
            note("tool-choice",
                 "The system is invoked with `tool_choice=none`.\nYou MUST NOT call any tools in "
                 "the next message."));
  EXPECT_EQ(rendered(R"("messages": [], "tool_choice": "auto")"), "");
}

TEST(XtmlRender, ANamedToolChoiceDeclaresThatToolAndRequiresACall) {
  const std::string tools = R"("tools": [{"name": "f"}, {"function": {"name": "g"}}], )";
  EXPECT_EQ(rendered(tools + R"("messages": [], "tool_choice": {"function": {"name": "g"}})"),
            note("tool-declare",
                 "# Tools\nHere are the available tools, described in JSONSchema.\n\n"
                 "```json\n[{\"function\":{\"name\":\"g\"}}]\n```") +
                " " +
                note("tool-choice",
                     "The system is invoked with `tool_choice=required`.\nYou MUST call tools in "
                     "the next message."));
  EXPECT_EQ(error(tools + R"("messages": [], "tool_choice": {"name": "h"})"),
            "usage: tool_choice: no tool \"h\" is declared; declared are: f, g");
}

TEST(XtmlRender, ResponseFormatIsTheLastNote) {
  const std::string raw =
      "`.\nYour response must be raw JSON data without markdown code blocks (```json) or any "
      "additional formatting.";
  const std::string object =
      note("response-format", "The system is invoked with `response_format=json_object" + raw);
  EXPECT_EQ(rendered(R"("messages": [], "tool_choice": "none",
                        "response_format": {"type": "json_object"})"),
            note("tool-choice",
                 "The system is invoked with `tool_choice=none`.\nYou MUST NOT call any tools in "
                 "the next message.") +
                " " + object);
  for (const char* schema : {R"({"name": "n", "schema": {"b": 1, "a": 2.0}})",
                             R"({"json_schema": {"b": 1, "a": 2.0}})", R"({"b": 1, "a": 2.0})"}) {
    EXPECT_EQ(
        rendered(R"("messages": [], "response_format": {"type": "json_schema",
                          "json_schema": )" +
                 std::string(schema) + "}"),
        note("response-format", "The system is invoked with `response_format=json_schema" + raw +
                                    "\nThe JSON data must match the following schema:\n```json\n"
                                    "{\"a\":2.0,\"b\":1}\n```"))
        << schema;
  }
}

}  // namespace
}  // namespace baltoro
