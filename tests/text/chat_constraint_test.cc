// Whole answers under a constraint: what fits and what does not, in each format, and that random
// answers are what the request asked for, as the parser sees them.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "baltoro/chat.h"
#include "baltoro/error.h"
#include "text/chat_test_util.h"
#include "text/grammar_test_util.h"
#include "text/schema_check.h"

namespace baltoro {
namespace {

constexpr const char* kTools = R"([
  {"type":"function","function":{"name":"look","parameters":{"type":"object","properties":{
    "place":{"type":"string"},"kind":{"enum":["a\"b","&"]},"count":{"type":["integer","null"]},
    "deep":{"type":"object","properties":{"x":{"type":"boolean"}},"required":["x"]}},
    "required":["place"]}}},
  {"type":"function","function":{"name":"wait"}}])";

constexpr const char* kSchema =
    R"({"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false})";

Conversation conversation(ToolChoice::Kind choice, std::string_view tools, std::string_view schema,
                          std::optional<bool> thinking = std::nullopt) {
  Conversation out;
  out.messages.push_back({.role = "user", .content = {"x"}});
  out.tools = tools;
  out.tool_choice.kind = choice;
  out.thinking = thinking;
  if (!schema.empty())
    out.response_format = {ResponseFormat::Kind::kJsonSchema, std::string(schema)};
  return out;
}

Conversation required(std::optional<bool> thinking = std::nullopt) {
  return conversation(ToolChoice::Kind::kRequired, kTools, "", thinking);
}

// Whether an answer, its markers spelt out, is let through and ends there.
bool fits(const ChatFormat& format, const Tokenizer& tokenizer, const Conversation& request,
          std::string_view answer) {
  const auto constraint = format.constraint(request);
  if (constraint == nullptr) return true;
  for (const TokenId id : tokenizer.encode_control(answer)) {
    if (!has(mask_of(*constraint, tokenizer), id)) return false;
    constraint->accept(id);
  }
  const auto mask = mask_of(*constraint, tokenizer);
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    const bool is_stop = id == format.stop_ids().front();
    if (has(mask, id) != is_stop) return false;
  }
  return true;
}

// O, C, S and E stand for the markers of XTML; the text around has none of these letters.
std::string xtml(std::string_view answer) {
  std::string out;
  for (const char c : answer) {
    switch (c) {
      case 'O':
        out += "<|open|>";
        break;
      case 'C':
        out += "<|close|>";
        break;
      case 'S':
        out += "<|sep|>";
        break;
      case 'E':
        out += "<|end_of_msg|>";
        break;
      default:
        out += c;
    }
  }
  return out;
}

class XtmlConstraint : public ::testing::Test {
 protected:
  bool fits(const Conversation& request, std::string_view answer) {
    return baltoro::fits(format_, tokenizer_, request, xtml(answer));
  }
  Tokenizer tokenizer_ = committed_tokenizer();
  ChatFormat format_{tokenizer_, std::nullopt};
};

TEST_F(XtmlConstraint, ThinkingIsFreeAndTheContentIsJson) {
  const Conversation request = conversation(ToolChoice::Kind::kAuto, "", kSchema);
  for (const char* answer : {R"(hm {"CthinkSOresponseS{"n":1}CresponseSCmessageSE)",
                             R"(CthinkSOresponseS{"n": -20}CresponseSCmessageSE)"}) {
    EXPECT_TRUE(fits(request, answer)) << answer;
  }
  for (const char* answer :
       {R"({"n":1}CresponseSCmessageSE)", R"(CthinkS{"n":1}CresponseSCmessageSE)",
        R"(CthinkSOresponseS{"n":1})", R"(CthinkSOresponseSCresponseSCmessageSE)",
        R"(CthinkSOresponseS{"m":1}CresponseSCmessageSE)",
        R"(CthinkSOresponseS{"n":1} xCresponseSCmessageSE)",
        R"(OresponseS{"n":1}CresponseSCmessageSE)",
        R"(CthinkSOresponseS{"n":1}CresponseSOtoolsSCtoolsSCmessageSE)", "E"}) {
    EXPECT_FALSE(fits(request, answer)) << answer;
  }
  const Conversation instruct = conversation(ToolChoice::Kind::kAuto, "", kSchema, false);
  EXPECT_TRUE(fits(instruct, R"({"n":1}CresponseSCmessageSE)"));
  EXPECT_FALSE(fits(instruct, R"(CthinkSOresponseS{"n":1}CresponseSCmessageSE)"));
}

TEST_F(XtmlConstraint, JsonObjectIsAnyObject) {
  Conversation request = conversation(ToolChoice::Kind::kAuto, "", "", false);
  request.response_format.kind = ResponseFormat::Kind::kJsonObject;
  EXPECT_TRUE(fits(request, R"({"a":[1,{"b":null}]}CresponseSCmessageSE)"));
  EXPECT_FALSE(fits(request, R"([1]CresponseSCmessageSE)"));
}

TEST_F(XtmlConstraint, JsonBesideToolsMayGiveWayToCalls) {
  const Conversation request = conversation(ToolChoice::Kind::kAuto, kTools, kSchema, false);
  const std::string call = R"(OtoolsSOcall tool="wait" index="1"SCcallSCtoolsS)";
  EXPECT_TRUE(fits(request, R"({"n":1}CresponseSCmessageSE)"));
  EXPECT_TRUE(fits(request, R"({"n":1}CresponseS)" + call + "CmessageSE"));
  EXPECT_TRUE(fits(request, "CresponseS" + call + "CmessageSE"));
  EXPECT_FALSE(fits(request, "CresponseSCmessageSE"));
}

TEST_F(XtmlConstraint, ARequiredCallIsOfADeclaredToolWithItsArguments) {
  const Conversation request = required(false);
  const auto with = [&](const std::string& calls) {
    return fits(request, "well CresponseSOtoolsS" + calls + "CtoolsSCmessageSE");
  };
  const std::string wait = R"(Ocall tool="wait" index="1"SCcallS)";
  const std::string look =
      R"(Ocall tool="look" index="2"SOargument key="place" type="string"Sa"b {é)"
      R"(CargumentS)";
  EXPECT_TRUE(with(wait));
  EXPECT_TRUE(with(wait + wait));
  EXPECT_TRUE(with(look + "CcallS"));
  EXPECT_TRUE(with(look + R"(Oargument key="kind" type="string"S&CargumentSCcallS)"));
  EXPECT_TRUE(with(look + R"(Oargument key="kind" type="string"Sa"bCargumentSCcallS)"));
  EXPECT_TRUE(with(look + R"(Oargument key="count" type="null"SnullCargumentSCcallS)"));
  EXPECT_TRUE(with(look + R"(Oargument key="count" type="number"S12CargumentS)"
                          R"(Oargument key="deep" type="object"S{"x": true}CargumentSCcallS)"));
  EXPECT_FALSE(with(""));
  EXPECT_FALSE(fits(request, "well CresponseSCmessageSE"));
  EXPECT_FALSE(with(R"(Ocall tool="other" index="1"SCcallS)"));
  EXPECT_FALSE(with(R"(Ocall tool="look" index="1"SCcallS)"));
  EXPECT_FALSE(with(R"(Ocall tool="wait" index="0"SCcallS)"));
  EXPECT_FALSE(with(look + R"(Oargument key="kind" type="string"SxCargumentSCcallS)"));
  EXPECT_FALSE(with(look + R"(Oargument key="count" type="number"S1.5CargumentSCcallS)"));
  EXPECT_FALSE(with(look + R"(Oargument key="count" type="string"S1CargumentSCcallS)"));
  EXPECT_FALSE(with(look + R"(Oargument key="deep" type="object"S{}CargumentSCcallS)"));
  EXPECT_FALSE(with(look + R"(Oargument key="other" type="null"SnullCargumentSCcallS)"));
}

TEST_F(XtmlConstraint, ArgumentsThatAreNotListedKeepClearOfThoseThatAre) {
  Conversation request = conversation(
      ToolChoice::Kind::kRequired,
      R"([{"name":"f","parameters":{"properties":{"ab":{"type":"null"},"x&\"":{"type":"null"}},
          "additionalProperties":{"type":["integer","string"]}}}])",
      "", false);
  const auto with = [&](const std::string& argument) {
    return fits(request, R"(CresponseSOtoolsSOcall tool="f" index="1"SOargument key=")" + argument +
                             "CargumentSCcallSCtoolsSCmessageSE");
  };
  EXPECT_TRUE(with(R"(ab" type="null"Snull)"));
  EXPECT_TRUE(with(R"(x&amp;&quot;" type="null"Snull)"));
  EXPECT_TRUE(with(R"(abc" type="number"S5)"));
  EXPECT_TRUE(with(R"(a" type="string"S5)"));
  EXPECT_FALSE(with(R"(ab" type="number"S5)"));
  EXPECT_FALSE(with(R"(a" type="null"Snull)"));
  EXPECT_FALSE(with(R"(x&" type="number"S5)"));
}

TEST_F(XtmlConstraint, ANamedToolIsCalledOnce) {
  Conversation request = required(false);
  request.tool_choice = {ToolChoice::Kind::kNamed, "wait"};
  const std::string wait = R"(Ocall tool="wait" index="1"SCcallS)";
  EXPECT_TRUE(fits(request, "CresponseSOtoolsS" + wait + "CtoolsSCmessageSE"));
  EXPECT_FALSE(fits(request, "CresponseSOtoolsS" + wait + wait + "CtoolsSCmessageSE"));
  EXPECT_FALSE(
      fits(request, R"(CresponseSOtoolsSOcall tool="look" index="1"SCcallSCtoolsSCmessageSE)"));
}

TEST_F(XtmlConstraint, WithoutParallelCallsThereIsAtMostOne) {
  Conversation request = conversation(ToolChoice::Kind::kAuto, kTools, "", false);
  EXPECT_EQ(format_.constraint(request), nullptr);
  request.parallel_calls = false;
  const std::string wait = R"(Ocall tool="wait" index="1"SCcallS)";
  EXPECT_TRUE(fits(request, "xCresponseSCmessageSE"));
  EXPECT_TRUE(fits(request, "xCresponseSOtoolsS" + wait + "CtoolsSCmessageSE"));
  EXPECT_FALSE(fits(request, "xCresponseSOtoolsS" + wait + wait + "CtoolsSCmessageSE"));
  request.tools.clear();
  EXPECT_EQ(format_.constraint(request), nullptr);
}

TEST_F(XtmlConstraint, ToolChoiceNoneLeavesNoOpenerForCalls) {
  const Conversation request = conversation(ToolChoice::Kind::kNone, kTools, "", false);
  EXPECT_TRUE(fits(request, "anyCresponseSCmessageSE"));
  EXPECT_FALSE(
      fits(request, R"(CresponseSOtoolsSOcall tool="wait" index="1"SCcallSCtoolsSCmessageSE)"));
}

TEST_F(XtmlConstraint, ToolsOfSystemMessagesCount) {
  Conversation request = conversation(ToolChoice::Kind::kRequired, "", "", false);
  request.messages.push_back({.role = "system", .tools = R"([{"name":"late"}])"});
  EXPECT_TRUE(
      fits(request, R"(CresponseSOtoolsSOcall tool="late" index="1"SCcallSCtoolsSCmessageSE)"));
}

TEST_F(XtmlConstraint, FreeTextTakesEveryOrdinaryTokenAndNoOtherMarker) {
  const auto constraint = format_.constraint(required());
  const auto mask = mask_of(*constraint, tokenizer_);
  for (TokenId id = 0; id < tokenizer_.vocab_size(); ++id) {
    const bool closes = id == tokenizer_.special_id("<|close|>");
    EXPECT_EQ(has(mask, id), closes || !tokenizer_.is_special(id)) << id;
  }
}

std::string refusal(const Conversation& request) {
  const Tokenizer tokenizer = committed_tokenizer();
  const ChatFormat format(tokenizer, std::nullopt);
  return error_of([&] { format.constraint(request); });
}

TEST(ChatConstraintRefusals, NameTheirPlaceInTheRequest) {
  const auto tool = [](const std::string& function) {
    return R"([{"type":"function","function":{"name":"f",)" + function + "}}]";
  };
  const auto starts = [](const std::string& error, const char* expected) {
    EXPECT_TRUE(error.starts_with(expected)) << error;
  };
  const auto kRequired = ToolChoice::Kind::kRequired;
  starts(
      refusal(conversation(ToolChoice::Kind::kAuto, "", R"({"properties":{"a":{"pattern":"x"}}})")),
      "unsupported: response_format.json_schema.schema.properties.a.pattern: the keyword");
  starts(refusal(conversation(kRequired, tool(R"("strict":true,"parameters":{"minimum":1})"), "")),
         "unsupported: tools[0].function.parameters.minimum: the keyword");
  starts(refusal(conversation(kRequired, tool(R"("parameters":{"type":"string"})"), "")),
         "usage: tools[0].function.parameters: the arguments of a call are an object");
  starts(refusal(conversation(kRequired, "", "")),
         "usage: tool_choice: a call is required, but no tool");
  Conversation named = conversation(ToolChoice::Kind::kNamed, tool(R"("x":1)"), "");
  named.tool_choice.name = "g";
  starts(refusal(named), "usage: tool_choice: a call is required, but no tool \"g\" is declared");
  Conversation no_prefix = conversation(kRequired, tool(R"("x":1)"), "");
  no_prefix.add_generation_prefix = false;
  starts(refusal(no_prefix), "usage: add_generation_prompt is false");
  starts(refusal(conversation(ToolChoice::Kind::kAuto, "", std::string(300000, ' ') + "{}")),
         "unsupported: response_format.json_schema.schema: it has 300002 bytes");
  EXPECT_EQ(
      refusal(conversation(kRequired, tool(R"("parameters":{"minimum":1,"properties":{}})"), "")),
      "no error");
}

TEST(ChatConstraintCache, TheSameWishHasTheSameGrammarAndAnotherOneHasNot) {
  const Tokenizer tokenizer = committed_tokenizer();
  const ChatFormat format(tokenizer, std::nullopt);
  for (int i = 0; i < 40; ++i) {
    const std::string schema = "{\"const\":" + std::to_string(i % 20) + "}";
    const Conversation request = conversation(ToolChoice::Kind::kAuto, "", schema, false);
    const std::string answer = std::to_string(i % 20) + "CresponseSCmessageSE";
    ASSERT_TRUE(fits(format, tokenizer, request, xtml(answer))) << i;
    ASSERT_FALSE(fits(format, tokenizer, request, xtml("7" + answer))) << i;
  }
}

std::string k2(std::string_view answer) {
  std::string out;
  for (const char c : answer) {
    switch (c) {
      case '[':
        out += "<|tool_calls_section_begin|>";
        break;
      case ']':
        out += "<|tool_calls_section_end|>";
        break;
      case '(':
        out += "<|tool_call_begin|>";
        break;
      case '|':
        out += "<|tool_call_argument_begin|>";
        break;
      case ')':
        out += "<|tool_call_end|>";
        break;
      case '<':
        out += "<think>";
        break;
      case '>':
        out += "</think>";
        break;
      case '$':
        out += "<|im_end|>";
        break;
      default:
        out += c;
    }
  }
  return out;
}

TEST(K2Constraint, ContentAndCallsAreHeldToTheRequest) {
  const Tokenizer tokenizer = byte_tokenizer(k2_specials(false));
  const ChatFormat format(tokenizer, std::nullopt);
  const auto check = [&](const Conversation& request, std::string_view answer) {
    return fits(format, tokenizer, request, k2(answer));
  };
  const Conversation json = conversation(ToolChoice::Kind::kAuto, "", kSchema);
  EXPECT_TRUE(check(json, R"({"n":5}$)"));
  EXPECT_FALSE(check(json, R"({"m":5}$)"));
  EXPECT_FALSE(check(json, "$"));
  const Conversation call = required();
  EXPECT_TRUE(check(call, "well[(functions.wait:0|{})]$"));
  EXPECT_TRUE(check(
      call, R"([(functions.look:12|{"place": "x", "deep": {"x":false}})(functions.wait:3|{})]$)"));
  EXPECT_FALSE(check(call, "well$"));
  EXPECT_FALSE(check(call, "[]$"));
  EXPECT_FALSE(check(call, "[(functions.look:0|{})]$"));
  EXPECT_FALSE(check(call, "[(functions.other:0|{})]$"));
  EXPECT_FALSE(check(call, "[(functions.wait:|{})]$"));
  const Conversation none = conversation(ToolChoice::Kind::kNone, kTools, "");
  EXPECT_TRUE(check(none, "text$"));
  EXPECT_FALSE(check(none, "[(functions.wait:0|{})]$"));
  const Conversation both = conversation(ToolChoice::Kind::kAuto, kTools, kSchema);
  EXPECT_TRUE(check(both, R"({"n":5}$)"));
  EXPECT_TRUE(check(both, R"({"n":5}[(functions.wait:0|{})]$)"));
  EXPECT_TRUE(check(both, "[(functions.wait:0|{})]$"));
}

TEST(K2Constraint, TheThinkingVariantThinksFirst) {
  const Tokenizer tokenizer = byte_tokenizer(k2_specials(true));
  const ChatFormat format(tokenizer, std::nullopt);
  const Conversation json = conversation(ToolChoice::Kind::kAuto, "", kSchema);
  EXPECT_TRUE(fits(format, tokenizer, json, k2(R"(<hm>{"n":5}$)")));
  EXPECT_FALSE(fits(format, tokenizer, json, k2(R"({"n":5}$)")));
  EXPECT_FALSE(fits(format, tokenizer, json, k2(R"(<{"n":5}$)")));
}

// An answer by random choices; markers are taken often, so that channels end.
std::vector<TokenId> random_answer(TokenConstraint& constraint, const Tokenizer& tokenizer,
                                   const ChatFormat& format, std::mt19937& random) {
  std::vector<TokenId> ids;
  while (ids.size() < 1500) {
    const auto mask = mask_of(constraint, tokenizer);
    std::vector<TokenId> allowed, ending;
    for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
      if (!has(mask, id)) continue;
      allowed.push_back(id);
      const std::string_view bytes = tokenizer.token_bytes(id);
      if (tokenizer.is_special(id) || bytes == "\"" || bytes == "}") ending.push_back(id);
    }
    const bool end = !ending.empty() && random() % (ids.size() < 200 ? 6 : 2) == 0;
    const auto& from = end ? ending : allowed;
    if (from.empty()) return {};
    ids.push_back(from[random() % from.size()]);
    constraint.accept(ids.back());
    if (ids.back() == format.stop_ids().front()) return ids;
  }
  return {};
}

// Calls a parser sees in random answers to the request; each must be one that the request allows.
void check_random_answers(const Tokenizer& tokenizer, const Conversation& request, bool with_calls,
                          int num_answers) {
  const ChatFormat format(tokenizer, std::nullopt);
  const Json look = Json::parse(kTools)[0]["function"]["parameters"];
  const Json schema = Json::parse(kSchema);
  int num_ended = 0;
  for (int i = 0; i < num_answers; ++i) {
    std::mt19937 random(static_cast<unsigned>(i));
    const auto constraint = format.constraint(request);
    const std::vector<TokenId> ids = random_answer(*constraint, tokenizer, format, random);
    if (ids.empty()) continue;
    ++num_ended;
    AnswerReader reader(format, request);
    const ChatResult result = reader.feed(ids).finish();
    ASSERT_EQ(reader.disagreement(), "");
    if (!with_calls) {
      ASSERT_TRUE(SchemaCheck(schema).accepts(Json::parse(result.content))) << result.content;
      ASSERT_EQ(result.finish_reason, FinishReason::kStop);
      continue;
    }
    ASSERT_EQ(result.finish_reason, FinishReason::kToolCalls);
    for (const ToolCall& call : result.tool_calls) {
      ASSERT_TRUE(call.name == "look" || call.name == "wait") << call.name;
      const Json arguments = Json::parse(call.arguments);
      if (call.name == "wait") {
        ASSERT_EQ(arguments, Json::object());
      } else {
        ASSERT_TRUE(SchemaCheck(look).accepts(arguments)) << call.arguments;
      }
    }
  }
  EXPECT_GT(num_ended, num_answers / 2);
}

TEST(ChatConstraintAnswers, RandomOnesAreWhatTheRequestAskedFor) {
  const Conversation json = conversation(ToolChoice::Kind::kAuto, "", kSchema);
  check_random_answers(committed_tokenizer(), json, false, 20);
  check_random_answers(committed_tokenizer(), required(), true, 20);
  for (const bool thinking : {false, true}) {
    const Tokenizer tokenizer = byte_tokenizer(k2_specials(thinking));
    check_random_answers(tokenizer, json, false, 100);
    check_random_answers(tokenizer, required(), true, 100);
  }
}

}  // namespace
}  // namespace baltoro
