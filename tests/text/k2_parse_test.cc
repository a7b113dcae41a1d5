// Answers in the K2 format: what is reasoning, what content, which calls count, at every cut.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "text/chat_test_util.h"
#include "text/json_value.h"

namespace baltoro {
namespace {

class K2Parse : public ::testing::TestWithParam<bool> {
 protected:
  struct Variant {
    explicit Variant(bool thinking)
        : tokenizer(byte_tokenizer(k2_specials(thinking))), format(tokenizer, std::nullopt) {}

    std::string parsed(const std::string& answer, const std::string& tools = "") const {
      Conversation conversation;
      conversation.tools = tools;
      AnswerReader reader(format, conversation);
      const ChatResult result = reader.feed(tokenizer.encode_control(answer)).finish();
      EXPECT_EQ(reader.disagreement(), "");
      return show(result);
    }

    Tokenizer tokenizer;
    ChatFormat format;
  };

  Variant instruct_{false};
  Variant thinking_{true};
};

const std::string kBegin = "<|tool_calls_section_begin|>";
const std::string kEnd = "<|tool_calls_section_end|>";

std::string call(const std::string& header, const std::string& arguments) {
  return "<|tool_call_begin|>" + header + "<|tool_call_argument_begin|>" + arguments +
         "<|tool_call_end|>";
}

TEST_F(K2Parse, InstructAnswersAreAllContent) {
  EXPECT_EQ(instruct_.parsed(" Hi \n<|im_end|>"), " |  Hi \n | | stop");
  EXPECT_EQ(instruct_.parsed("<think>x</think>y<|im_end|>"), " | <think>x</think>y | | stop");
}

TEST_F(K2Parse, AnIdThatIsTakenIsGivenAnotherNumber) {
  Conversation conversation;
  conversation.messages.push_back({.role = "assistant"});
  for (const char* id : {"functions.f:0", "call_abc"}) {
    conversation.messages.back().tool_calls.push_back({id, "f", "{}"});
  }
  ChatParser parser = instruct_.format.parser(conversation);
  // The second call was shown to the model as functions.f:1.
  for (const TokenId id : instruct_.tokenizer.encode_control(
           kBegin + call("functions.f:0", "{}") + call("functions.f:1", "{}") +
           call("functions.f:7", "{}") + call("functions.f:7", "{}") + kEnd + "<|im_end|>")) {
    parser.feed(id);
  }
  parser.finish();
  std::vector<std::string> ids;
  for (const ToolCall& made : parser.result().tool_calls) ids.push_back(made.id);
  EXPECT_EQ(ids, (std::vector<std::string>{"functions.f:3", "functions.f:4", "functions.f:7",
                                           "functions.f:6"}));
}

TEST_F(K2Parse, EveryEndIdStopsAndNoneIsLength) {
  for (const char* end : {"<|im_end|>", "[EOS]", "[EOT]"}) {
    EXPECT_EQ(instruct_.parsed(std::string("a").append(end) + "b"), " | a | | stop") << end;
  }
  EXPECT_EQ(instruct_.parsed("a"), " | a | | length");
}

TEST_F(K2Parse, ReasoningIsOpenedByTheFirstIdOnly) {
  EXPECT_EQ(thinking_.parsed("<think> r\n</think>\na<|im_end|>"), " r\n | \na | | stop");
  EXPECT_EQ(thinking_.parsed("a<think>b</think>c<|im_end|>"), " | abc | | stop");
  EXPECT_EQ(thinking_.parsed("</think>a<|im_end|>"), " | a | | stop");
  EXPECT_EQ(thinking_.parsed("<think>r<think>s</think></think>a<|im_end|>"), "rs | a | | stop");
}

TEST_F(K2Parse, ReasoningEndsAtCallsAndAtTheEnd) {
  EXPECT_EQ(
      thinking_.parsed("<think>r" + kBegin + call("functions.f:0", "{}") + kEnd + "<|im_end|>"),
      "r |  | functions.f:0=f{} | tool_calls");
  EXPECT_EQ(thinking_.parsed("<think>r" + call("functions.f:0", "{}") + "<|im_end|>"),
            "r |  | functions.f:0=f{} | tool_calls");
  EXPECT_EQ(thinking_.parsed("<think>r<|im_end|>"), "r |  | | stop");
  EXPECT_EQ(thinking_.parsed("<think>r"), "r |  | | length");
}

TEST_F(K2Parse, TextOutsideCallsIsDroppedOnceASectionHasBegun) {
  EXPECT_EQ(instruct_.parsed("a" + kBegin + "x" + call("functions.f:0", "{}") + "y" + kEnd + "z" +
                             call("functions.g:1", "{}") + "w" + kBegin +
                             call("functions.h:2", "{}") + kEnd + "v<|im_end|>"),
            " | a | functions.f:0=f{} functions.g:1=g{} functions.h:2=h{} | tool_calls");
  EXPECT_EQ(instruct_.parsed(std::string("a") + call("functions.f:0", "{}") + "x<|im_end|>"),
            " | a | functions.f:0=f{} | tool_calls");
}

TEST_F(K2Parse, NamesComeFromTheHeader) {
  const auto name_of = [&](const std::string& header) {
    return instruct_.parsed(call(header, "{}") + "<|im_end|>");
  };
  EXPECT_EQ(name_of(" functions.get_weather:0\n"),
            " |  | functions.get_weather:0=get_weather{} | tool_calls");
  EXPECT_EQ(name_of("search:2"), " |  | search:2=search{} | tool_calls");
  EXPECT_EQ(name_of("functions.a.b-c:10"), " |  | functions.a.b-c:10=a.b-c{} | tool_calls");
  EXPECT_EQ(name_of("functions.f:1:3"), " |  | functions.f:1:3=f:1{} | tool_calls");
  EXPECT_EQ(name_of("functions.f2:0"), " |  | functions.f2:0=f2{} | tool_calls");
  EXPECT_EQ(name_of("functions.f"), " |  | | stop");
  EXPECT_EQ(name_of("functions.f2"), " |  | | stop");
  EXPECT_EQ(name_of("functions.f:"), " |  | | stop");
  EXPECT_EQ(name_of(""), " |  | | stop");
}

TEST_F(K2Parse, ABareNumberMeansTheOnlyTool) {
  const std::string one = R"([{"type": "function", "function": {"name": "f"}}])";
  const std::string two = R"([{"name": "f"}, {"name": "g"}])";
  for (const char* header : {"0", ":0", "functions.:0"}) {
    const std::string answer = call(header, "{}") + "<|im_end|>";
    EXPECT_EQ(instruct_.parsed(answer, one), " |  | " + std::string(header) + "=f{} | tool_calls");
    EXPECT_EQ(instruct_.parsed(answer, two), " |  | | stop");
    EXPECT_EQ(instruct_.parsed(answer), " |  | | stop");
  }
}

TEST_F(K2Parse, ADroppedCallDoesNotTakeTheNextOneWithIt) {
  EXPECT_EQ(instruct_.parsed(call("nameless", "{\"a\": 1}") + call("f:1", "{}") + "<|im_end|>"),
            " |  | f:1=f{} | tool_calls");
  EXPECT_EQ(instruct_.parsed("<|tool_call_begin|>f:0<|tool_call_end|>" + call("g:1", "{}") +
                             "<|im_end|>"),
            " |  | g:1=g{} | tool_calls");
}

TEST_F(K2Parse, ArgumentsArePassedOnAsTextWithoutSpaceAtTheEnds) {
  const auto arguments_of = [&](const std::string& text) {
    return instruct_.parsed(call("f:0", text) + "<|im_end|>");
  };
  EXPECT_EQ(arguments_of("\n {\"a\":  1e2} \t\n"), " |  | f:0=f{\"a\":  1e2} | tool_calls");
  EXPECT_EQ(arguments_of("{broken"), " |  | f:0=f{broken | tool_calls");
  EXPECT_EQ(arguments_of(""), " |  | f:0=f{} | tool_calls");
  EXPECT_EQ(arguments_of(" \n"), " |  | f:0=f{} | tool_calls");
  EXPECT_EQ(arguments_of("a \n b"), " |  | f:0=fa \n b | tool_calls");
}

TEST_F(K2Parse, ACallWithoutTerminatorCountsIfItsArgumentsAreWhole) {
  const std::string open = "<|tool_call_begin|>f:0<|tool_call_argument_begin|>";
  for (const std::string& next : {call("g:1", "{}"), kEnd, kBegin, std::string()}) {
    const std::string rest = next + "<|im_end|>";
    const std::string g = next.find("g:1") == std::string::npos ? "" : " g:1=g{}";
    const std::string none = g.empty() ? "stop" : "tool_calls";
    EXPECT_EQ(instruct_.parsed(open + "{\"a\": 1} " + rest),
              " |  | f:0=f{\"a\": 1}" + g + " | tool_calls");
    EXPECT_EQ(instruct_.parsed(open + "{\"a\": " + rest), " |  |" + g + " | " + none);
    EXPECT_EQ(instruct_.parsed(open + rest), " |  |" + g + " | " + none);
  }
  EXPECT_EQ(instruct_.parsed(open + "{\"a\": 1}"), " |  | | length");
}

TEST_F(K2Parse, MarkersOutOfPlaceAreNotText) {
  EXPECT_EQ(instruct_.parsed("a<|tool_call_end|>b<|tool_call_argument_begin|>c" + kEnd +
                             "d<|im_user|>e<|im_end|>"),
            " | abcde | | stop");
  EXPECT_EQ(instruct_.parsed("<|tool_call_begin|>x<|tool_call_begin|>f:0"
                             "<|tool_call_argument_begin|>{}<|tool_call_argument_begin|>"
                             "<|tool_call_end|><|im_end|>"),
            " |  | f:0=f{} | tool_calls");
}

TEST_F(K2Parse, MarkersSpelledByTextAreText) {
  const std::string spelled = "<|tool_call_begin|>f:0<|im_end|></think>";
  AnswerReader reader(thinking_.format, Conversation());
  const ChatResult result = reader.feed(thinking_.tokenizer.encode(spelled)).finish();
  EXPECT_EQ(show(result), " | " + spelled + " | | length");
}

const std::string kNasty = "{\"text\": \"say \\\"hi\\\" <b>\\n \U0001F600 }]\", \"n\": [1, 2]}";

TEST_F(K2Parse, EveryCutKeepsReasoningContentAndWholeCallsApart) {
  const std::vector<TokenId> ids = thinking_.tokenizer.encode_control(
      "<think>thïnk </think>änswer" + kBegin + call("functions.f:0", kNasty) +
      call("functions.g:1", " {} ") + kEnd + "<|im_end|>");
  std::size_t num_calls = 0;
  for (std::size_t cut = 0; cut <= ids.size(); ++cut) {
    SCOPED_TRACE(cut);
    AnswerReader reader(thinking_.format, Conversation());
    const ChatResult result =
        reader.feed({ids.begin(), ids.begin() + static_cast<long>(cut)}).finish();
    EXPECT_EQ(reader.disagreement(), "");
    EXPECT_TRUE(result.content.empty() || result.reasoning == "thïnk ");
    EXPECT_EQ(result.content.find("think"), std::string::npos);
    EXPECT_GE(result.tool_calls.size(), num_calls);
    num_calls = result.tool_calls.size();
    EXPECT_EQ(result.finish_reason,
              cut < ids.size() ? FinishReason::kLength : FinishReason::kToolCalls);
  }
  EXPECT_EQ(num_calls, 2u);
}

TEST_F(K2Parse, ArgumentsStreamAndAddUpToValidJson) {
  AnswerReader reader(instruct_.format, Conversation());
  const ChatResult result =
      reader.feed(instruct_.tokenizer.encode_control(call("f:0", "\n" + kNasty + "\n"))).finish();
  ASSERT_EQ(result.tool_calls.size(), 1u);
  EXPECT_EQ(result.tool_calls[0].arguments, kNasty);
  EXPECT_TRUE(is_json(reader.assembled().calls.at(0).arguments));
  EXPECT_GT(reader.assembled().calls.at(0).num_pieces, 10);
}

TEST_F(K2Parse, RenderingAParsedAnswerGivesItsIdsBack) {
  for (const Variant* variant : {&instruct_, &thinking_}) {
    const bool thinks = variant == &thinking_;
    const std::vector<TokenId> ids = variant->tokenizer.encode_control(
        std::string(thinks ? "<think>r</think>" : "") + "a" + kBegin +
        call("functions.f:0", "{\"a\":1e2}") + kEnd + "<|im_end|>");
    AnswerReader reader(variant->format, Conversation());
    Conversation conversation;
    conversation.messages.push_back({.role = "user", .content = {"u"}});
    std::vector<TokenId> expected = variant->format.render(conversation);
    expected.insert(expected.end(), ids.begin(), ids.end());
    conversation.messages.push_back(to_message(reader.feed(ids).finish()));
    conversation.add_generation_prefix = false;
    EXPECT_EQ(variant->format.render(conversation), expected);
  }
}

TEST_F(K2Parse, AnySequenceOfIdsGivesDeltasThatEqualTheResult) {
  const std::vector<std::string> pieces = {
      "<think>", "</think>", kBegin,    kEnd, "<|tool_call_begin|>", "<|tool_call_argument_begin|>",
      "f:0",     "{}",       " ",       "\n", "<|tool_call_end|>",   "<|im_user|>",
      "12",      "text",     "\xF0\x9F"};
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    std::string answer;
    const auto length = random() % 40;
    for (unsigned i = 0; i < length; ++i) answer += pieces[random() % pieces.size()];
    if (round % 3 == 0) answer += "<|im_end|>";
    AnswerReader reader(thinking_.format, Conversation());
    const ChatResult result = reader.feed(thinking_.tokenizer.encode_control(answer)).finish();
    ASSERT_EQ(reader.disagreement(), "") << answer;
    ASSERT_EQ(result.content.find("<|"), std::string::npos) << answer;
    ASSERT_EQ(result.finish_reason == FinishReason::kLength, round % 3 != 0) << answer;
  }
}

}  // namespace
}  // namespace baltoro
