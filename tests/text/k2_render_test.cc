// The exact segments of K2 prompts, derived by hand from the description of the format. In the
// expected lines S is <|im_system|>, M <|im_middle|>, E <|im_end|>, [[ ]] a section of calls,
// [ : ] a call, ( ) the reasoning.
#include "text/k2_render.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "text/chat_test_util.h"

namespace baltoro {
namespace {

using ::testing::HasSubstr;

Conversation request(const std::string& fields) {
  Conversation conversation = parse_conversation("{" + fields + "}");
  if (fields.find("add_generation_prompt") == std::string::npos) {
    conversation.add_generation_prefix = false;
  }
  return conversation;
}

std::string instruct(const std::string& fields) {
  return show(render_k2(request(fields), {false, kK2DefaultSystem}));
}

// Without the default system text, to keep lines short.
std::string bare(const std::string& fields) {
  return show(render_k2(request(fields), {false, std::nullopt}));
}

std::string thinking(const std::string& fields) {
  return show(render_k2(request(fields), {true, std::nullopt}));
}

std::string error(const std::string& fields, bool thinking_variant = false) {
  return error_of([&] { render_k2(request(fields), {thinking_variant, kK2DefaultSystem}); });
}

const std::string kDefault =
    "S 'system' M 'You are Kimi, an AI assistant created by Moonshot AI.' E";

TEST(K2Render, AConversationWithoutSystemMessageGetsTheDefaultText) {
  EXPECT_EQ(instruct(R"("messages": [{"role": "user", "content": "Hi"}])"),
            kDefault + " U 'user' M 'Hi' E");
  EXPECT_EQ(instruct(R"("messages": [{"role": "user", "content": "Hi"},
                                     {"role": "system", "content": "late"}])"),
            kDefault + " U 'user' M 'Hi' E S 'system' M 'late' E");
  EXPECT_EQ(bare(R"("messages": [{"role": "user", "content": "Hi"}])"), "U 'user' M 'Hi' E");
}

TEST(K2Render, AFirstSystemMessageReplacesItEvenIfEmpty) {
  EXPECT_EQ(instruct(R"("messages": [{"role": "system", "content": "Be brief."}])"),
            "S 'system' M 'Be brief.' E");
  EXPECT_EQ(instruct(R"("messages": [{"role": "system", "content": ""}])"), "S 'system' M E");
}

TEST(K2Render, NoMessagesAtAllDifferBetweenTheVariants) {
  EXPECT_EQ(instruct(R"("messages": [])"), "");
  EXPECT_EQ(show(render_k2(request(R"("messages": [])"), {true, kK2DefaultSystem})), kDefault);
}

TEST(K2Render, GenerationPromptFollowsAnyMessage) {
  EXPECT_EQ(bare(R"("add_generation_prompt": true, "messages": [{"role": "user"}])"),
            "U 'user' M E A 'assistant' M");
  EXPECT_EQ(bare(R"("add_generation_prompt": true,
                    "messages": [{"role": "assistant", "content": "a"}])"),
            "A 'assistant' M 'a' E A 'assistant' M");
  EXPECT_EQ(thinking(R"("add_generation_prompt": true, "messages": [{"role": "user"}])"),
            "U 'user' M E A 'assistant' M");
}

TEST(K2Render, NamesStandForTheRoleUnlessEmpty) {
  EXPECT_EQ(bare(R"("messages": [{"role": "user", "name": "Ann", "content": "x"},
                    {"role": "assistant", "name": "Kim", "content": "y"},
                    {"role": "system", "name": "", "content": "z"}])"),
            "U 'Ann' M 'x' E A 'Kim' M 'y' E S 'system' M 'z' E");
}

TEST(K2Render, UnknownRolesAreSystemTurnsOfTheirName) {
  EXPECT_EQ(instruct(R"("messages": [{"role": "developer", "content": "x"}])"),
            kDefault + " S 'developer' M 'x' E");
  EXPECT_EQ(bare(R"("messages": [{"role": "critic", "name": "C", "content": "x"}])"),
            "S 'C' M 'x' E");
}

TEST(K2Render, PartsAreJoinedIntoOneSegment) {
  EXPECT_EQ(bare(R"("messages": [{"role": "user", "content":
                    [{"type": "text", "text": " a"}, {"type": "text", "text": "b\n"}]}])"),
            "U 'user' M ' ab\n' E");
  EXPECT_EQ(bare(R"("messages": [{"role": "user", "content": null}])"), "U 'user' M E");
}

TEST(K2Render, ToolsComeFirstSortedAndCompact) {
  EXPECT_EQ(instruct(R"("tools": [{"type": "function", "function": {"name": "f", "a": "é"}}],
                        "messages": [{"role": "system", "content": "s"}])"),
            R"(S 'tool_declare' M '[{"function":{"a":"é","name":"f"},"type":"function"}]' E )"
            "S 'system' M 's' E");
  EXPECT_EQ(bare(R"("tools": [], "messages": [])"), "");
}

TEST(K2Render, ToolChoiceNoneLeavesTheToolsUndeclared) {
  EXPECT_EQ(bare(R"("tools": [{"name": "f"}], "tool_choice": "none",
                    "messages": [{"role": "user", "content": "x"}])"),
            "U 'user' M 'x' E");
}

TEST(K2Render, WhatTheFormatCannotSayIsRefused) {
  EXPECT_THAT(error(R"("messages": [], "tool_choice": {"name": "f"})"),
              HasSubstr("usage: tool_choice: no tool \"f\" is declared"));
  EXPECT_THAT(error(R"("messages": [], "thinking": true)"),
              HasSubstr("unsupported: thinking: this model has no thinking channel"));
  EXPECT_THAT(error(R"("messages": [], "thinking": false)", true),
              HasSubstr("unsupported: thinking: this model always thinks"));
  EXPECT_EQ(error(R"("messages": [], "thinking": false)"), "no error");
  EXPECT_THAT(error(R"("messages": [{"role": "user"}, {"role": "system", "tools": [{}]}])"),
              HasSubstr("unsupported: messages[1].tools: "));
}

TEST(K2Render, ANamedToolIsDeclaredAloneAndWhatOnlyAConstraintDoesAddsNoWords) {
  EXPECT_EQ(bare(R"("messages": [], "tools": [{"name": "f"}, {"name": "g"}],
                    "tool_choice": {"name": "g"})"),
            R"(S 'tool_declare' M '[{"name":"g"}]' E)");
  const std::string plain = bare(R"("messages": [], "tools": [{"name": "f"}])");
  EXPECT_EQ(bare(R"("messages": [], "tools": [{"name": "f"}], "tool_choice": "required",
                    "response_format": {"type": "json_object"})"),
            plain);
}

TEST(K2Render, InstructDropsReasoning) {
  EXPECT_EQ(bare(R"("messages": [{"role": "assistant", "content": "a", "reasoning": "r"}])"),
            "A 'assistant' M 'a' E");
}

// A call of f, `fields` besides.
std::string calls(const std::string& list) {
  return R"({"role": "assistant", "tool_calls": [)" + list + "]}";
}

TEST(K2Render, ArgumentsAreKeptAsTextOrPrintedWithDefaultSeparators) {
  EXPECT_EQ(bare(R"("messages": [)" +
                 calls(R"({"id": "functions.f:0", "name": "f", "arguments": "{\"a\":1e2} {"},
                          {"id": "functions.f:1", "name": "f", "arguments": {"z":1e2,"a":["é"]}},
                          {"id": "functions.f:2", "name": "f", "arguments": ""})") +
                 "]"),
            "A 'assistant' M [[ [ 'functions.f:0' : '{\"a\":1e2} {' ] "
            "[ 'functions.f:1' : '{\"z\": 100.0, \"a\": [\"é\"]}' ] "
            "[ 'functions.f:2' : ] ]] E");
}

TEST(K2Render, ContentStandsBeforeTheCalls) {
  EXPECT_EQ(bare(R"("messages": [{"role": "assistant", "content": "wait", "tool_calls":
                    [{"id": "functions.f:0", "name": "f", "arguments": "{}"}]}])"),
            "A 'assistant' M 'wait' [[ [ 'functions.f:0' : '{}' ] ]] E");
}

TEST(K2Render, ResultsAreOneSegmentWithTheirHead) {
  EXPECT_EQ(bare(R"("messages": [)" +
                 calls(R"({"id": "functions.f:0", "name": "f", "arguments": "{}"})") + R"(,
                  {"role": "tool", "tool_call_id": "functions.f:0", "content": "42"},
                  {"role": "tool", "name": "f", "tool_call_id": "functions.f:0", "content": null}])"),
            "A 'assistant' M [[ [ 'functions.f:0' : '{}' ] ]] E "
            "S 'tool' M '## Return of functions.f:0\n42' E "
            "S 'f' M '## Return of functions.f:0\n' E");
}

TEST(K2Render, IdsOfAnotherFormAreRenamedByTheCountInTheConversation) {
  const std::string turn = calls(R"({"id": "call_0", "name": "f", "arguments": "{}"},
                                    {"id": "functions.g:7", "name": "g", "arguments": "{}"})");
  const std::string results = R"({"role": "tool", "tool_call_id": "functions.g:7", "content": "b"},
                                 {"role": "tool", "tool_call_id": "call_0", "content": "a"})";
  // Both turns call theirs "call_0": each result belongs to the call before it.
  EXPECT_EQ(bare(R"("messages": [)" + turn + "," + results + "," + turn + "," + results + "]"),
            "A 'assistant' M [[ [ 'functions.f:0' : '{}' ] [ 'functions.g:7' : '{}' ] ]] E "
            "S 'tool' M '## Return of functions.g:7\nb' E "
            "S 'tool' M '## Return of functions.f:0\na' E "
            "A 'assistant' M [[ [ 'functions.f:2' : '{}' ] [ 'functions.g:7' : '{}' ] ]] E "
            "S 'tool' M '## Return of functions.g:7\nb' E "
            "S 'tool' M '## Return of functions.f:2\na' E");
}

TEST(K2Render, CallsOfOneTurnWithOneIdAreAnsweredInTheirOrder) {
  EXPECT_EQ(bare(R"("messages": [)" + calls(R"({"id": "x", "name": "f", "arguments": "{}"},
                          {"id": "x", "name": "g", "arguments": "{}"})") +
                 R"(, {"role": "tool", "tool_call_id": "x", "content": "1"},
                      {"role": "tool", "tool_call_id": "x", "content": "2"}])"),
            "A 'assistant' M [[ [ 'functions.f:0' : '{}' ] [ 'functions.g:1' : '{}' ] ]] E "
            "S 'tool' M '## Return of functions.f:0\n1' E "
            "S 'tool' M '## Return of functions.g:1\n2' E");
}

TEST(K2Render, ResultsWithoutIdAnswerTheFirstOpenCall) {
  EXPECT_EQ(
      bare(R"("messages": [)" +
           calls(R"({"name": "f", "arguments": "{}"}, {"id": "y", "name": "g", "arguments": "{}"},
                          {"name": "h", "arguments": "{}"})") +
           R"(, {"role": "tool", "tool_call_id": "y", "content": "2"},
                      {"role": "tool", "content": "1"}, {"role": "tool", "content": "3"}])"),
      "A 'assistant' M [[ [ 'functions.f:0' : '{}' ] [ 'functions.g:1' : '{}' ] "
      "[ 'functions.h:2' : '{}' ] ]] E "
      "S 'tool' M '## Return of functions.g:1\n2' E "
      "S 'tool' M '## Return of functions.f:0\n1' E "
      "S 'tool' M '## Return of functions.h:2\n3' E");
}

TEST(K2Render, AResultThatAnswersNothingIsRefused) {
  EXPECT_EQ(error(R"("messages": [{"role": "tool", "content": "1"}])"),
            "usage: messages[0]: a tool result without tool_call_id, and no call before it is "
            "unanswered");
}

TEST(K2Render, AnIdThatNoCallHasIsShownAsItIs) {
  EXPECT_EQ(bare(R"("messages": [{"role": "tool", "tool_call_id": "call_9", "content": "1"}])"),
            "S 'tool' M '## Return of call_9\n1' E");
}

TEST(K2Render, IdsThatOnlyLookRightAreRenamed) {
  for (const char* id : {"functions.f", "functions.f:", "functions.f:1a", "f:0", "Functions.f:0"}) {
    EXPECT_THAT(
        bare(R"("messages": [)" +
             calls(R"({"name": "f", "arguments": "{}", "id": ")" + std::string(id) + "\"}") + "]"),
        HasSubstr("[ 'functions.f:0' :"))
        << id;
  }
  for (const char* id :
       {"functions.f:12", "functions.a.b-c:0", "functions.:1", "functions.f:x:3"}) {
    EXPECT_THAT(
        bare(R"("messages": [)" +
             calls(R"({"name": "f", "arguments": "{}", "id": ")" + std::string(id) + "\"}") + "]"),
        HasSubstr("[ '" + std::string(id) + "' :"))
        << id;
  }
}

TEST(K2Render, ThinkingVariantKeepsReasoningOnlyBehindTheLastPlainAnswer) {
  const std::string call =
      R"({"role": "assistant", "reasoning": "r", "tool_calls": [{"id": "functions.f:0", "name": "f",
          "arguments": "{}"}]})";
  const std::string plain = R"({"role": "assistant", "content": "a", "reasoning": "old"})";
  const std::string call_without = "A 'assistant' M ( ) [[ [ 'functions.f:0' : '{}' ] ]] E";
  const std::string call_with = "A 'assistant' M ( 'r' ) [[ [ 'functions.f:0' : '{}' ] ]] E";
  const std::string plain_without = "A 'assistant' M ( ) 'a' E";
  const std::string user = R"({"role": "user", "content": "u"})";
  EXPECT_EQ(thinking(R"("messages": [)" + call + "]"), call_with);
  EXPECT_EQ(thinking(R"("messages": [)" + plain + "]"), plain_without);
  // The last plain answer counts, not the first.
  EXPECT_EQ(thinking(R"("messages": [)" + plain + "," + call + "," + plain + "," + user + "," +
                     call + "," + call + "]"),
            plain_without + " " + call_without + " " + plain_without + " U 'user' M 'u' E " +
                call_with + " " + call_with);
}

TEST(K2Render, ThinkingVariantTakesNullReasoningAsEmpty) {
  EXPECT_EQ(thinking(R"("messages": [{"role": "assistant", "reasoning_content": null,
                "tool_calls": [{"id": "functions.f:0", "name": "f", "arguments": "{}"}]}])"),
            "A 'assistant' M ( ) [[ [ 'functions.f:0' : '{}' ] ]] E");
}

TEST(K2DefaultSystem, IsReadFromTheTemplate) {
  EXPECT_EQ(find_default_system("{%- if x %}<|im_system|>system<|im_middle|>Be kind.<|im_end|>{%"),
            "Be kind.");
  EXPECT_EQ(find_default_system("{{ '<|im_system|>system<|im_middle|>' }}{{ c }}<|im_end|>\n"
                                "<|im_system|>system<|im_middle|>{{ m.content }}<|im_end|>\n"
                                "<|im_system|>system<|im_middle|>Two<|im_end|>"),
            "Two");
  EXPECT_EQ(find_default_system("<|im_system|>tool_declare<|im_middle|>x<|im_end|>"), std::nullopt);
  EXPECT_EQ(find_default_system("<|im_system|>system<|im_middle|>no end"), std::nullopt);
  EXPECT_EQ(find_default_system(""), std::nullopt);
}

}  // namespace
}  // namespace baltoro
