// Answers in XTML: reasoning must never show up as content, calls must be whole, and a cut at any
// place must leave a right result.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "text/chat_test_util.h"
#include "text/json_value.h"

namespace baltoro {
namespace {

Conversation mode(bool thinking) {
  Conversation conversation;
  conversation.thinking = thinking;
  return conversation;
}

class XtmlParse : public ::testing::Test {
 protected:
  // `answer` as ids, its markers as special ids; ends cut off unless it holds END.
  std::string parsed(const std::string& answer, bool thinking = true) {
    return parsed_ids(tokenizer_.encode_control(answer), thinking);
  }

  std::string parsed_ids(const std::vector<TokenId>& ids, bool thinking = true) {
    AnswerReader reader(format_, mode(thinking));
    const ChatResult result = reader.feed(ids).finish();
    EXPECT_EQ(reader.disagreement(), "");
    return show(result);
  }

  Tokenizer tokenizer_ = byte_tokenizer(xtml_specials());
  ChatFormat format_{tokenizer_, std::nullopt};
};

// Short names for the markers in answers.
const std::string kThinkEnd = "<|close|>think<|sep|>";
const std::string kResponse = "<|open|>response<|sep|>";
const std::string kResponseEnd = "<|close|>response<|sep|>";
const std::string kTools = "<|open|>tools<|sep|>";
const std::string kToolsEnd = "<|close|>tools<|sep|>";
const std::string kCallEnd = "<|close|>call<|sep|>";
const std::string kEnd = "<|close|>message<|sep|><|end_of_msg|>";

std::string call(const std::string& name) {
  return "<|open|>call tool=\"" + name + "\" index=\"1\"<|sep|>";
}

std::string argument(const std::string& key, const std::string& type, const std::string& value) {
  return "<|open|>argument key=\"" + key + "\" type=\"" + type + "\"<|sep|>" + value +
         "<|close|>argument<|sep|>";
}

// The result of one call with this body.
std::string in_call(const std::string& body) {
  return kThinkEnd + kResponse + kResponseEnd + kTools + call("f") + body + kCallEnd + kToolsEnd +
         kEnd;
}

TEST_F(XtmlParse, AWholeAnswerIsSplit) {
  EXPECT_EQ(parsed(" r\n" + kThinkEnd + kResponse + " a\n" + kResponseEnd + kEnd),
            " r\n |  a\n | | stop");
  EXPECT_EQ(parsed("a" + kResponseEnd + kEnd, false), " | a | | stop");
}

TEST_F(XtmlParse, ARepeatedOpenerAtTheStartIsSwallowed) {
  EXPECT_EQ(parsed("<|open|>think<|sep|>r" + kThinkEnd + kResponse + "a" + kResponseEnd + kEnd),
            "r | a | | stop");
  EXPECT_EQ(parsed(kResponse + "a" + kResponseEnd + kEnd, false), " | a | | stop");
  EXPECT_EQ(parsed("<|open|>message role=\"assistant\"<|sep|><|open|>think<|sep|>r" + kThinkEnd +
                   kResponse + "a" + kResponseEnd + kEnd),
            "r | a | | stop");
}

TEST_F(XtmlParse, ReasoningEndsWithoutItsCloserToo) {
  EXPECT_EQ(parsed("r" + kResponse + "a" + kResponseEnd + kEnd), "r | a | | stop");
  EXPECT_EQ(parsed("r" + kTools + call("f") + kCallEnd + kToolsEnd + kEnd),
            "r |  | call_0=f{} | tool_calls");
  EXPECT_EQ(parsed("r<|close|>message<|sep|>x<|end_of_msg|>"), "r |  | | stop");
  EXPECT_EQ(parsed("r<|end_of_msg|>x"), "r |  | | stop");
}

TEST_F(XtmlParse, TheAnswerEndsWithoutItsCloserToo) {
  EXPECT_EQ(parsed("a" + kTools + call("f") + kCallEnd + kEnd, false),
            " | a | call_0=f{} | tool_calls");
  EXPECT_EQ(parsed("a<|close|>message<|sep|>x<|end_of_msg|>", false), " | a | | stop");
  EXPECT_EQ(parsed("a<|end_of_msg|>", false), " | a | | stop");
}

TEST_F(XtmlParse, TextWithoutAResponseChannelIsTheAnswer) {
  EXPECT_EQ(parsed("r" + kThinkEnd + "{\"a\": 1}" + kEnd), "r | {\"a\": 1} | | stop");
  EXPECT_EQ(parsed("r" + kThinkEnd + "\n a" + kEnd), "r | \n a | | stop");
  EXPECT_EQ(parsed("r" + kThinkEnd + " \n" + kResponse + "a" + kResponseEnd + kEnd),
            "r | a | | stop");
}

TEST_F(XtmlParse, AThinkChannelIsReasoningWhereverItStands) {
  EXPECT_EQ(
      parsed("<|open|>think<|sep|>r" + kThinkEnd + kResponse + "a" + kResponseEnd + kEnd, false),
      "r | a | | stop");
  EXPECT_EQ(parsed("a<|open|>think<|sep|>r" + kThinkEnd + "b" + kResponseEnd + kEnd, false),
            "r | ab | | stop");
  EXPECT_EQ(parsed(kThinkEnd + "a" + kResponseEnd + kEnd, false), " | a | | stop");
}

TEST_F(XtmlParse, TheFirstCloserAtDepthZeroEndsTheAnswer) {
  EXPECT_EQ(parsed("a<|close|>respond<|sep|>b" + kEnd, false), " | a | | stop");
  EXPECT_EQ(parsed("a<|open|>b<|sep|>c<|close|>b<|sep|>d" + kResponseEnd + "e" + kEnd, false),
            " | acd | | stop");
  EXPECT_EQ(parsed("a<|open|>b<|sep|>c" + kResponseEnd + "e" + kEnd, false), " | ac | | stop");
}

TEST_F(XtmlParse, NothingBehindTheMessageIsText) {
  EXPECT_EQ(parsed("a" + kResponseEnd + "x<|close|>message<|sep|>y" + kResponse + "z", false),
            " | a | | length");
  EXPECT_EQ(parsed("a" + kResponseEnd + kEnd + "z" + kTools + call("f") + kCallEnd, false),
            " | a | | stop");
  EXPECT_EQ(parsed("a<|open|>message role=\"user\"<|sep|>I ask" + kEnd, false), " | a | | stop");
}

TEST_F(XtmlParse, MarkersSpelledByTextAreText) {
  const std::string spelled =
      "<|close|>response<|sep|><|open|>tools<|sep|><|end_of_msg|></think><|im_end|>";
  std::vector<TokenId> ids = tokenizer_.encode("say " + spelled);
  const std::vector<TokenId> end = tokenizer_.encode_control(kResponseEnd + kEnd);
  ids.insert(ids.end(), end.begin(), end.end());
  EXPECT_EQ(parsed_ids(ids, false), " | say " + spelled + " | | stop");
  EXPECT_EQ(parsed_ids(tokenizer_.encode(spelled), true), spelled + " |  | | length");
}

TEST_F(XtmlParse, OtherSpecialIdsAreNotText) {
  EXPECT_EQ(parsed("a[EOS]b<|osagent_mode|><|sep|>c[PAD]" + kResponseEnd + kEnd, false),
            " | abc | | stop");
}

TEST_F(XtmlParse, ArgumentsBecomeJsonByTheirType) {
  EXPECT_EQ(
      parsed(in_call(argument("s", "string", " q\"\\\n<\x01é") + argument("n", "number", " 1e2\n") +
                     argument("b", "boolean", "true") + argument("z", "null", "null") +
                     argument("o", "object", "{\"k\": [1,2]}") + argument("a", "array", "[]"))),
      " |  | call_0=f{\"s\": \" q\\\"\\\\\\n<\\u0001é\", \"n\": 1e2, \"b\": true, \"z\": null, "
      "\"o\": {\"k\": [1,2]}, \"a\": []} | tool_calls");
}

TEST_F(XtmlParse, ATypeThatDoesNotHoldIsAString) {
  EXPECT_EQ(parsed(in_call(argument("a", "number", "1.") + argument("b", "object", "{'x'}") +
                           argument("c", "number", "NaN") + argument("d", "null", ""))),
            " |  | call_0=f{\"a\": \"1.\", \"b\": \"{'x'}\", \"c\": \"NaN\", \"d\": \"\"} | "
            "tool_calls");
}

TEST_F(XtmlParse, AnArgumentWithoutTypeIsAStringAndWithoutKeyNone) {
  EXPECT_EQ(parsed(in_call("<|open|>argument key=\"a\"<|sep|>5<|close|>argument<|sep|>"
                           "<|open|>argument type=\"number\"<|sep|>6<|close|>argument<|sep|>")),
            " |  | call_0=f{\"a\": \"5\"} | tool_calls");
}

TEST_F(XtmlParse, AttributesAreUnescapedOnce) {
  const std::string body = argument("k&quot;&amp;quot;", "string", "&quot;");
  EXPECT_EQ(parsed(kThinkEnd + kTools + call("a&quot;b&amp;amp;") + body + kCallEnd + kEnd),
            " |  | call_0=a\"b&amp;{\"k\\\"&quot;\": \"&quot;\"} | tool_calls");
}

TEST_F(XtmlParse, CallsCountInOrderOfAppearance) {
  EXPECT_EQ(parsed(kThinkEnd + kTools + "<|open|>call index=\"7\" tool=\"f\"<|sep|>" + kCallEnd +
                   " between " + "<|open|>call tool=\"g\" index=\"1\"<|sep|>" + kCallEnd +
                   kToolsEnd + "behind" + kEnd),
            " |  | call_0=f{} call_1=g{} | tool_calls");
}

TEST_F(XtmlParse, ACallWithoutANameIsDropped) {
  EXPECT_EQ(parsed(kThinkEnd + kTools + "<|open|>call index=\"1\"<|sep|>" +
                   argument("a", "string", "x") + kCallEnd + call("g") + kCallEnd + kEnd),
            " |  | call_0=g{} | tool_calls");
  EXPECT_EQ(parsed(kThinkEnd + kTools + call("") + kCallEnd + kEnd), " |  | | stop");
}

TEST_F(XtmlParse, AJsonBlockCountsOnlyAsTheWholeBody) {
  const std::string open = "<|open|>json type=\"object\"<|sep|>";
  const std::string close = "<|close|>json<|sep|>";
  const std::string block = open + "{\"a\":1}" + close;
  EXPECT_EQ(parsed(in_call("\n" + block + " ")), " |  | call_0=f{\"a\":1} | tool_calls");
  EXPECT_EQ(parsed(in_call(open + "not json" + close)), " |  | call_0=fnot json | tool_calls");
  EXPECT_EQ(parsed(in_call(open + close)), " |  | call_0=f{} | tool_calls");
  EXPECT_EQ(parsed(in_call(block + argument("b", "number", "2"))),
            " |  | call_0=f{\"b\": 2} | tool_calls");
  EXPECT_EQ(parsed(in_call(argument("b", "number", "2") + block)),
            " |  | call_0=f{\"b\": 2} | tool_calls");
  EXPECT_EQ(parsed(in_call(block + "x")), " |  | call_0=f{} | tool_calls");
  EXPECT_EQ(parsed(in_call(block + block)), " |  | call_0=f{} | tool_calls");
}

TEST_F(XtmlParse, MissingTerminators) {
  const std::string first = argument("a", "string", "x");
  const std::string unclosed = "<|open|>argument key=\"a\" type=\"string\"<|sep|>x";
  // The call is closed, only its argument is not.
  EXPECT_EQ(parsed(kTools + call("f") + unclosed + kCallEnd + kToolsEnd + kEnd),
            " |  | call_0=f{\"a\": \"x\"} | tool_calls");
  EXPECT_EQ(parsed(kTools + call("f") + unclosed + argument("b", "number", "1") + kCallEnd + kEnd),
            " |  | call_0=f{\"a\": \"x\", \"b\": 1} | tool_calls");
  // The call is not closed: dropped, whatever ends it.
  EXPECT_EQ(parsed(kTools + call("f") + first + call("g") + kCallEnd + kToolsEnd + kEnd),
            " |  | call_1=g{} | tool_calls");
  EXPECT_EQ(parsed(kTools + call("f") + first + kToolsEnd + kEnd), " |  | | stop");
  EXPECT_EQ(parsed(kTools + call("f") + first + kEnd), " |  | | stop");
  EXPECT_EQ(parsed(kTools + call("f") + first), " |  | | length");
  // The section is not closed, its first call is.
  EXPECT_EQ(parsed(kTools + call("f") + first + kCallEnd + call("g")),
            " |  | call_0=f{\"a\": \"x\"} | length");
}

TEST_F(XtmlParse, AnInterruptedMarkerIsNotText) {
  EXPECT_EQ(parsed("a<|close|>respo", false), " | a | | length");
  EXPECT_EQ(parsed("a<|open|>too<|close|>response<|sep|>" + kEnd, false), " | a | | stop");
  EXPECT_EQ(parsed("a<|close|><|end_of_msg|>", false), " | a | | stop");
}

TEST_F(XtmlParse, HalfACharacterIsHeldBackAndShownAsReplacementIfItNeverEnds) {
  ChatParser parser = format_.parser(mode(false));
  const std::vector<TokenId> emoji = tokenizer_.encode("\U0001F600");
  ASSERT_EQ(emoji.size(), 4u);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(parser.feed(emoji[static_cast<std::size_t>(i)]).empty());
  ASSERT_EQ(parser.feed(emoji[3]).size(), 1u);
  EXPECT_EQ(parser.result().content, "\U0001F600");
  EXPECT_TRUE(parser.feed(emoji[0]).empty());
  EXPECT_EQ(parser.finish().size(), 1u);
  EXPECT_EQ(parser.result().content, "\U0001F600\uFFFD");
}

TEST_F(XtmlParse, HalfACharacterStaysInTheChannelThatItBegan) {
  EXPECT_EQ(parsed("r\xF0\x9F" + kThinkEnd + kResponse +
                   "\x98\x80"
                   "a" +
                   kResponseEnd + kEnd),
            "r\uFFFD | \uFFFD\uFFFDa | | stop");
}

TEST_F(XtmlParse, AStopStringIsAnEndOfItsOwn) {
  AnswerReader reader(format_, mode(false));
  EXPECT_EQ(show(reader.feed(tokenizer_.encode("abc")).finish(true)), " | abc | | stop");
}

TEST_F(XtmlParse, AnIdOutsideTheVocabularyIsAnError) {
  ChatParser parser = format_.parser(mode(false));
  EXPECT_THAT(error_of([&] { parser.feed(tokenizer_.vocab_size()); }),
              ::testing::StartsWith("usage: "));
}

// A text value that has all that could confuse: quotes, markup, newlines, an emoji, text that
// looks like a closer.
const std::string kNasty =
    "say \"hi\" \\ <b>\n\t\U0001F600 </argument> <|close|>call<|sep|> }]\x7f";

class XtmlParseCuts : public XtmlParse {
 protected:
  std::vector<TokenId> sample() const {
    std::vector<TokenId> ids = tokenizer_.encode_control(
        "thïnk\n" + kThinkEnd + kResponse + "änswer \U0001F600" + kResponseEnd + kTools +
        call("first") + "<|open|>argument key=\"text\" type=\"string\"<|sep|>");
    const auto add = [&](const std::vector<TokenId>& more) {
      ids.insert(ids.end(), more.begin(), more.end());
    };
    add(tokenizer_.encode(kNasty));
    add(tokenizer_.encode_control(
        "<|close|>argument<|sep|>" + argument("n", "number", "12") + kCallEnd + call("second") +
        argument("o", "object", "{\"k\": null}") + kCallEnd + kToolsEnd + kEnd));
    return ids;
  }
};

// Whether `part` is a beginning of `whole`, but for a replaced half character at its end.
bool is_beginning(std::string part, const std::string& whole) {
  if (part.ends_with("\uFFFD") && !whole.starts_with(part)) part.erase(part.size() - 3);
  return whole.starts_with(part);
}

TEST_F(XtmlParseCuts, EveryCutKeepsReasoningContentAndWholeCallsApart) {
  const std::vector<TokenId> ids = sample();
  std::size_t num_calls = 0;
  for (std::size_t cut = 0; cut <= ids.size(); ++cut) {
    SCOPED_TRACE(cut);
    AnswerReader reader(format_, mode(true));
    const ChatResult result =
        reader.feed({ids.begin(), ids.begin() + static_cast<long>(cut)}).finish();
    EXPECT_EQ(reader.disagreement(), "");
    EXPECT_TRUE(is_beginning(result.reasoning, "thïnk\n")) << result.reasoning;
    EXPECT_TRUE(is_beginning(result.content, "änswer \U0001F600")) << result.content;
    EXPECT_GE(result.tool_calls.size(), num_calls);
    num_calls = result.tool_calls.size();
    for (const ToolCall& done : result.tool_calls) EXPECT_TRUE(is_json(done.arguments));
    EXPECT_EQ(result.finish_reason,
              cut < ids.size() ? FinishReason::kLength : FinishReason::kToolCalls);
  }
  EXPECT_EQ(num_calls, 2u);
}

TEST_F(XtmlParseCuts, ArgumentsStreamAndAddUpToValidJson) {
  AnswerReader reader(format_, mode(true));
  const ChatResult result = reader.feed(sample()).finish();
  ASSERT_EQ(result.tool_calls.size(), 2u);
  for (const Assembled::Call& streamed : reader.assembled().calls) {
    EXPECT_GE(streamed.num_pieces, 2);
    EXPECT_TRUE(is_json(streamed.arguments)) << streamed.arguments;
  }
  // The string came byte by byte, not in one piece at the end.
  EXPECT_GT(reader.assembled().calls[0].num_pieces, static_cast<int>(kNasty.size()) / 2);
  const JsonValue first = parse_json(result.tool_calls[0].arguments, "arguments");
  EXPECT_EQ(first.find("text")->text, kNasty);
  EXPECT_EQ(first.find("n")->text, "12");
  EXPECT_EQ(result.tool_calls[1].arguments, "{\"o\": {\"k\": null}}");
  EXPECT_EQ(result.tool_calls[0].name, "first");
  EXPECT_EQ(result.tool_calls[1].name, "second");
}

// What was parsed and is rendered again must be what the model wrote: the next turn continues it.
TEST_F(XtmlParseCuts, RenderingAParsedAnswerGivesItsIdsBack) {
  AnswerReader reader(format_, mode(true));
  Conversation conversation = mode(true);
  conversation.thinking_effort.reset();
  const std::vector<TokenId> prompt = format_.render(conversation);
  std::vector<TokenId> expected = prompt;
  const std::vector<TokenId> ids =
      tokenizer_.encode_control("r" + kThinkEnd + kResponse + "a" + kResponseEnd + kTools +
                                "<|open|>call tool=\"f\" index=\"1\"<|sep|>" +
                                argument("s", "string", "x\"\n") + argument("n", "number", "1e2") +
                                argument("s", "array", "[1,2]") + kCallEnd + kToolsEnd + kEnd);
  expected.insert(expected.end(), ids.begin(), ids.end());
  conversation.messages.push_back(to_message(reader.feed(ids).finish()));
  conversation.add_generation_prefix = false;
  EXPECT_EQ(format_.render(conversation), expected);
}

TEST_F(XtmlParse, AnySequenceOfIdsGivesDeltasThatEqualTheResult) {
  const std::vector<std::string> pieces = {"<|open|>",
                                           "<|close|>",
                                           "<|sep|>",
                                           "think",
                                           "response",
                                           "tools",
                                           "call",
                                           "argument",
                                           "json",
                                           "message",
                                           " tool=\"f\"",
                                           " key=\"k\"",
                                           " type=\"number\"",
                                           "12",
                                           "\xF0\x9F",
                                           "text",
                                           " ",
                                           "[EOS]"};
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    std::string answer;
    const auto length = random() % 40;
    for (unsigned i = 0; i < length; ++i) answer += pieces[random() % pieces.size()];
    if (round % 3 == 0) answer += "<|end_of_msg|>";
    AnswerReader reader(format_, mode(round % 2 == 0));
    const ChatResult result = reader.feed(tokenizer_.encode_control(answer)).finish();
    ASSERT_EQ(reader.disagreement(), "") << answer;
    ASSERT_EQ(result.content.find("<|"), std::string::npos) << answer;
    ASSERT_EQ(result.finish_reason == FinishReason::kLength, round % 3 != 0) << answer;
  }
}

}  // namespace
}  // namespace baltoro
