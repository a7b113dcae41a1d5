// JSON schemas as grammars: against an independent reading of the schema, byte by byte and by random
// answers under the mask; and what is refused.
#include "text/grammar/json_schema.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "baltoro/error.h"
#include "text/chat_test_util.h"
#include "text/grammar_test_util.h"
#include "text/random_schema.h"
#include "text/schema_check.h"

namespace baltoro {
namespace {

std::string dump(const Json& json) { return json.dump(); }

// The same document with the other white space that is allowed.
std::string pretty(const Json& json) { return json.dump(2); }

std::string spaced(const Json& json) {
  if (json.is_object()) {
    std::string text = "{";
    for (const auto& item : json.items()) {
      text += (text.size() > 1 ? ", " : "") + Json(item.key()).dump() + ": " + spaced(item.value());
    }
    return text + "}";
  }
  if (!json.is_array()) return json.dump();
  std::string text = "[";
  for (const Json& item : json) text += (text.size() > 1 ? ", " : "") + spaced(item);
  return text + "]";
}

TEST(JsonSchema, AcceptsTheDocumentsThatSatisfyItAndNoOthers) {
  int num_valid = 0, num_invalid = 0, num_schemas = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    SchemaMaker maker(seed);
    const Json schema = maker.root();
    Grammar grammar;
    try {
      grammar = schema_grammar(dump(schema));
    } catch (const Error& error) {
      // Random schemas may lead back to themselves or allow nothing.
      const std::string what = error.what();
      const bool known = what.ends_with("with nothing in between") ||
                         what.ends_with("no value that ends can satisfy it") ||
                         what.find("below minItems") != std::string::npos ||
                         what.ends_with("it is no property, and there are no others");
      ASSERT_TRUE(known) << what << "\n" << dump(schema);
      continue;
    }
    ++num_schemas;
    const SchemaCheck check(schema);
    for (int i = 0; i < 40; ++i) {
      const Json document = i < 5 ? maker.any(3) : maker.document(schema, schema, 7);
      const bool valid = check.accepts(document);
      for (const std::string& text : {dump(document), pretty(document), spaced(document)}) {
        ASSERT_EQ(matches(grammar, text), valid) << dump(schema) << "\n" << text;
      }
      (valid ? num_valid : num_invalid) += 1;
    }
  }
  EXPECT_GT(num_schemas, 200);
  EXPECT_GT(num_valid, 2000);
  EXPECT_GT(num_invalid, 1000);
}

// Answers with random choices among what the mask allows. Those that have become long are led to an
// end: of the allowed tokens, one that closes something.
std::string random_answer(GrammarConstraint& constraint, const Tokenizer& tokenizer, TokenId end,
                          std::mt19937& random) {
  std::string text;
  for (int step = 0; step < 3000; ++step) {
    const auto mask = mask_of(constraint, tokenizer);
    std::vector<TokenId> allowed, closing;
    for (TokenId token = 0; token < tokenizer.vocab_size(); ++token) {
      if (!has(mask, token)) continue;
      allowed.push_back(token);
      const std::string_view bytes = tokenizer.token_bytes(token);
      if (token == end || bytes == "\"" || bytes == "}" || bytes == "]") closing.push_back(token);
    }
    if (allowed.empty()) return text + " <dead end>";
    const bool hurry = step > 40 && !closing.empty() && random() % 8 != 0;
    const auto& from = hurry ? closing : allowed;
    const TokenId token = from[random() % from.size()];
    constraint.accept(token);
    if (token == end) return text;
    text += tokenizer.token_bytes(token);
  }
  return text + " <no end>";
}

void check_answers(const Tokenizer& tokenizer, TokenId end, int num_schemas, int num_answers) {
  int compiled = 0;
  for (unsigned seed = 0; compiled < num_schemas; ++seed) {
    SchemaMaker maker(seed + 10000);
    const Json schema = maker.root();
    std::shared_ptr<const TokenGrammar> grammar;
    try {
      grammar = schema_tokens(dump(schema), tokenizer, end);
    } catch (const Error&) {
      continue;
    }
    ++compiled;
    const SchemaCheck check(schema);
    std::mt19937 random(seed);
    for (int i = 0; i < num_answers; ++i) {
      GrammarConstraint constraint(grammar, tokenizer);
      const std::string text = random_answer(constraint, tokenizer, end, random);
      if (text.ends_with("<no end>")) continue;  // a schema that nests without an end in sight
      Json document;
      ASSERT_NO_THROW(document = Json::parse(text)) << dump(schema) << "\n" << text;
      ASSERT_TRUE(check.accepts(document)) << dump(schema) << "\n" << text;
    }
  }
}

TEST(JsonSchemaAnswers, RandomChoicesGiveValidDocuments) {
  const Tokenizer glued = glued_tokenizer();
  check_answers(glued, glued.special_id("[EOS]").value(), 150, 6);
}

TEST(JsonSchemaAnswers, RandomChoicesOfATrainedVocabularyGiveValidDocuments) {
  const Tokenizer story = committed_tokenizer();
  check_answers(story, story.special_id("[EOS]").value(), 25, 3);
}

bool accepts(std::string_view schema, std::string_view text) {
  return matches(schema_grammar(schema), text);
}

TEST(JsonText, StringsAreValidUtf8WithEscapesThatEveryReaderTakes) {
  const char* const schema = R"({"type":"string"})";
  for (const char* text :
       {R"("")", R"("a")", R"("\"\\\/\b\f\n\r\t")", R"("\u00e9\uFFFF\uD7FF")", R"("\ud83d\uDE00")",
        "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\x7F\"", "\"\xF4\x8F\xBF\xBF\xED\x9F\xBF\""}) {
    EXPECT_TRUE(accepts(schema, text)) << text;
    EXPECT_NO_THROW(Json::parse(text)) << text;
  }
  for (const char* text : {"a", "\"", "\"a", "\"a\"b", "\"\n\"", "\"\x1F\"", R"("\x")", R"("\u12")",
                           R"("\ud83d")", R"("\ud83dx")", R"("\ude00")", R"("\ud83d\u0041")"}) {
    EXPECT_FALSE(accepts(schema, text)) << text;
  }
  for (const char* bytes : {"\x80", "\xC3", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xED\xA0\x80",
                            "\xF0\x80\x80\x80", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"}) {
    EXPECT_FALSE(accepts(schema, std::string("\"") + bytes + "\"")) << Json(bytes[0]);
  }
}

TEST(JsonText, NumbersHaveTheFormOfJsonAndAreBounded) {
  for (const char* text :
       {"0", "-0", "12", "-9223372036854775808", "0.5", "1e5", "1E-10", "1.25e+3"}) {
    EXPECT_TRUE(accepts(R"({"type":"number"})", text)) << text;
  }
  for (const char* text : {"", "-", "01", "+1", ".5", "1.", "1e", "1e+", "12345678901234567890",
                           "1e100", "0.123456789012345678901"}) {
    EXPECT_FALSE(accepts(R"({"type":"number"})", text)) << text;
  }
  for (const char* text : {"0", "7", "-15"}) EXPECT_TRUE(accepts(R"({"type":"integer"})", text));
  for (const char* text : {"1.0", "1e2", "00"})
    EXPECT_FALSE(accepts(R"({"type":"integer"})", text));
}

TEST(JsonText, WhiteSpaceIsBounded) {
  const char* const schema = R"({"type":"object","properties":{"a":{"type":"array"}}})";
  const std::string indent(40, ' ');
  for (const std::string& text :
       {std::string(R"({"a":[1,2]})"), std::string(R"({ "a": [ 1, 2 ] })"), std::string("{ }"),
        "{\n" + indent + "\"a\": [\n\t1,\n\t2\n]\n}", std::string("{\n}")}) {
    EXPECT_TRUE(accepts(schema, text)) << text;
  }
  for (const std::string& text :
       {std::string(R"( {"a":[1]})"), std::string(R"({"a" :[1]})"), std::string(R"({"a":  [1]})"),
        std::string(R"({"a":[1 ,2]})"), "{\n" + indent + " \"a\":[1]}", std::string("{  }"),
        std::string("{\n\n}"), std::string(R"({"a":[1]} )")}) {
    EXPECT_FALSE(accepts(schema, text)) << text;
  }
}

TEST(JsonSchema, PropertiesKeepTheirOrderAndOptionalOnesMayBeLeftOut) {
  const char* const schema = R"({"type":"object","required":["b"],"additionalProperties":false,
    "properties":{"a":{"type":"null"},"b":{"type":"null"},"c":{"type":"null"}}})";
  for (const char* text : {R"({"b":null})", R"({"a":null,"b":null})", R"({"b":null,"c":null})",
                           R"({"a":null,"b":null,"c":null})"}) {
    EXPECT_TRUE(accepts(schema, text)) << text;
  }
  for (const char* text : {"{}", R"({"a":null})", R"({"b":null,"a":null})", R"({"b":null,})",
                           R"({,"b":null})", R"({"b":null,"b":null})", R"({"b":null,"d":null})",
                           R"({"a":null,"c":null})", R"({"b":1})"}) {
    EXPECT_FALSE(accepts(schema, text)) << text;
  }
}

TEST(JsonSchema, OtherPropertiesCannotStandForListedOnes) {
  const char* const schema = R"({"properties":{"a":{"type":"null"},"ab":{"type":"null"},
    "\u00e9":{"type":"null"}},"additionalProperties":{"type":"integer"}})";
  for (const char* text : {R"({"a":null,"x":1})", R"({"abc":1,"":2,"b":3})", R"({"aé":1})",
                           R"({"è":1})", R"({"\u0065":1})"}) {
    const bool escaped = std::string_view(text).find('\\') != std::string_view::npos;
    EXPECT_EQ(accepts(schema, text), !escaped) << text;
  }
  for (const char* text :
       {R"({"a":1})", R"({"x":1,"a":null})", R"({"x":1,"ab":2})", R"({"é":1})", R"({"x":null})"}) {
    EXPECT_FALSE(accepts(schema, text)) << text;
  }
}

TEST(JsonSchema, ClosedObjectsHaveNoOtherPropertiesUnlessTheySaySo) {
  const auto accepts_other = [](const char* schema) {
    return matches(schema_grammar(schema, {.closed = true}), R"({"x":1})");
  };
  EXPECT_FALSE(accepts_other(R"({"type":"object","properties":{}})"));
  EXPECT_TRUE(accepts_other(R"({"type":"object"})"));
  EXPECT_TRUE(accepts_other(R"({"properties":{},"additionalProperties":true})"));
}

TEST(JsonSchema, EnumAndConstKeepToTheirType) {
  EXPECT_TRUE(accepts(R"({"type":"string","enum":["a",1]})", "\"a\""));
  EXPECT_FALSE(accepts(R"({"type":"string","enum":["a",1]})", "1"));
  EXPECT_TRUE(accepts(R"({"const":{"a":[1,{}]}})", R"({"a": [1,{}]})"));
  EXPECT_FALSE(accepts(R"({"const":{"a":[1,{}]}})", R"({"a": [1]})"));
}

std::string refusal(std::string_view schema) {
  return error_of([&] { schema_grammar(schema); });
}

TEST(JsonSchemaRefusals, NameTheKeywordAndThePath) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {R"({"type":"string","pattern":"a*"})",
       "unsupported: schema.pattern: the keyword \"pattern\" is not supported"},
      {R"({"properties":{"a":{"items":{"minimum":3}}}})",
       "unsupported: schema.properties.a.items.minimum: the keyword \"minimum\""},
      {R"({"$defs":{"d":{"oneOf":[]}},"$ref":"#/$defs/d"})",
       "unsupported: schema.$defs.d.oneOf: the keyword \"oneOf\""},
      {R"({"anyOf":[{"type":"null"},{"format":"date"}]})",
       "unsupported: schema.anyOf[1].format: the keyword \"format\""},
      {R"({"anyOf":[{}],"type":"string"})",
       "unsupported: schema.type: the keyword \"type\" beside \"anyOf\""},
      {R"({"$ref":"#/$defs/a","properties":{},"$defs":{"a":{}}})",
       "unsupported: schema.properties: the keyword \"properties\" beside \"$ref\""},
      {R"({"enum":[1],"items":{}})",
       "unsupported: schema.items: the keyword \"items\" beside \"enum\""},
      {R"({"$ref":"http://x/y"})", "unsupported: schema.$ref: \"http://x/y\" does not begin"},
      {R"({"$ref":"#/$defs/x"})", "usage: schema.$ref: the schema has nothing at \"#/$defs/x\""},
      {R"({"$ref":"#"})", "unsupported: schema: it leads back to itself"},
      {R"({"anyOf":[{"type":"null"},{"$ref":"#"}]})", "unsupported: schema: it leads back"},
      {R"({"type":"array","items":{"$ref":"#"},"minItems":1})",
       "unsupported: schema: no value that ends"},
      {R"({"enum":[]})", "unsupported: schema: no value that ends"},
      {"false", "unsupported: schema: no value that ends"},
      {R"({"type":"array","maxItems":1000000000})",
       "unsupported: schema.maxItems: it is 1000000000; at most 4096"},
      {R"({"type":"array","minItems":99999999999999999999})",
       "unsupported: schema.minItems: it is 9999"},
      {R"({"type":"array","minItems":-1})", "usage: schema.minItems: it is -1"},
      {R"({"type":"array","minItems":1.5})", "usage: schema.minItems: it is 1.5"},
      {R"({"type":"array","minItems":3,"maxItems":2})", "usage: schema.maxItems: it is 2, below"},
      {R"({"type":"strin"})", "usage: schema.type: \"strin\" is no type"},
      {R"({"type":[]})", "usage: schema.type: an empty list"},
      {R"({"type":{}})", "usage: schema.type: expected the name of a type, found an object"},
      {R"({"properties":[]})", "usage: schema.properties: expected an object of schemas"},
      {R"({"properties":{"a":3}})", "usage: schema.properties.a: expected a schema"},
      {R"({"required":"a"})", "usage: schema.required: expected a list of names"},
      {R"({"required":["a"],"additionalProperties":false})", "usage: schema.required: \"a\" is"},
      {R"({"anyOf":{}})", "usage: schema.anyOf: expected a list of schemas"},
      {R"({"enum":3})", "usage: schema.enum: expected a list of values"},
      {"3", "usage: schema: expected a schema"},
  };
  for (const auto& [schema, expected] : cases) {
    const std::string error = refusal(schema);
    EXPECT_TRUE(error.starts_with(expected)) << schema << "\n" << error;
  }
}

TEST(JsonSchemaRefusals, LenientStyleLeavesOutWhatItDoesNotKnow) {
  const auto accepts_leniently = [](const char* schema, const char* text) {
    return matches(schema_grammar(schema, {.lenient = true, .closed = true}), text);
  };
  EXPECT_TRUE(accepts_leniently(R"({"type":"string","format":"date"})", "\"x\""));
  EXPECT_FALSE(accepts_leniently(R"({"type":"string","format":"date"})", "1"));
  EXPECT_TRUE(accepts_leniently(R"({"oneOf":[{"const":1},{"const":2}]})", "2"));
  EXPECT_FALSE(accepts_leniently(R"({"oneOf":[{"const":1},{"const":2}]})", "3"));
  EXPECT_FALSE(accepts_leniently(R"({"allOf":[{"const":1}],"title":"t"})", "3"));
  EXPECT_TRUE(accepts_leniently(
      R"({"type":"object","properties":{"a":{"type":"null"}},"anyOf":[{"required":["a"]}]})",
      R"({"a":null})"));
}

// What a server meets from outside must be refused or done in a moment.
TEST(JsonSchemaLimits, LargeSchemasEndInAnErrorOrAGrammar) {
  std::string many = R"({"enum":[)";
  for (int i = 0; i < 200000; ++i)
    many += (i > 0 ? ",\"value " : "\"value ") + std::to_string(i) + "\"";
  EXPECT_TRUE(refusal(many + "]}").starts_with("unsupported: schema: with this the grammar"));

  // Each definition twice the one before.
  std::string doubling = R"({"$ref":"#/$defs/d0","$defs":{)";
  for (int i = 0; i < 100; ++i) {
    const std::string next = "{\"$ref\":\"#/$defs/d" + std::to_string(i + 1) + "\"}";
    doubling += "\"d" + std::to_string(i) + "\":{\"anyOf\":[" + next + "," + next + "]},";
  }
  EXPECT_EQ(refusal(doubling + R"("d100":{"type":"null"}}})"), "no error");

  std::string nested = "{\"type\":\"null\"}";
  for (int i = 0; i < 100; ++i) {
    nested = R"({"type":"array","items":)" + nested + R"(,"maxItems":4000})";
  }
  EXPECT_TRUE(refusal(nested).starts_with("unsupported: schema.items.items"));

  std::string wide = R"({"properties":{)";
  for (int i = 0; i < 1000; ++i)
    wide += (i > 0 ? "," : "") + std::string("\"p") + std::to_string(i) + "\":{}";
  EXPECT_EQ(refusal(wide + "}}"), "no error");

  std::string chain = R"({"$ref":"#/$defs/d0","$defs":{)";
  for (int i = 0; i < 20000; ++i) {
    chain +=
        "\"d" + std::to_string(i) + "\":{\"$ref\":\"#/$defs/d" + std::to_string(i + 1) + "\"},";
  }
  EXPECT_TRUE(refusal(chain + R"("d20000":{}}})").find("references and anyOf in a row") !=
              std::string::npos);
}

}  // namespace
}  // namespace baltoro
