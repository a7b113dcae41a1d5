// JSON in prompts must be what Python's json.dumps writes, to the byte: one other digit or key
// order is another prompt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat_test_util.h"
#include "text/json_print.h"
#include "text/json_value.h"

namespace baltoro {
namespace {

using ::testing::HasSubstr;

std::string default_style(std::string_view json) {
  return print_json(parse_json(json, "test"), JsonStyle::kDefault);
}

std::string sorted(std::string_view json) {
  return print_json(parse_json(json, "test"), JsonStyle::kSortedCompact);
}

// Expected values are json.dumps(json.loads(x), ensure_ascii=False) of CPython 3.11.
TEST(JsonPrint, NumbersAreAsPythonPrintsThem) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"0", "0"},
      {"-0", "0"},
      {"-12", "-12"},
      {"123456789012345678901234567890", "123456789012345678901234567890"},
      {"1.0", "1.0"},
      {"-0.0", "-0.0"},
      {"-0e5", "-0.0"},
      {"1e2", "100.0"},
      {"1E5", "100000.0"},
      {"1e15", "1000000000000000.0"},
      {"1e16", "1e+16"},
      {"1e22", "1e+22"},
      {"1e23", "1e+23"},
      {"1.5e300", "1.5e+300"},
      {"9007199254740993.0", "9007199254740992.0"},
      {"123456789012345678.5", "1.2345678901234568e+17"},
      {"0.0001", "0.0001"},
      {"0.00001", "1e-05"},
      {"1e-7", "1e-07"},
      {"0.1", "0.1"},
      {"0.30000000000000004", "0.30000000000000004"},
      {"3.14159", "3.14159"},
      {"-2.50", "-2.5"},
      {"5e-324", "5e-324"},
      {"2.2250738585072014e-308", "2.2250738585072014e-308"},
      {"1.7976931348623157e308", "1.7976931348623157e+308"},
      {"1e-400", "0.0"},
      {"-1e-400", "-0.0"},
      {"1e400", "Infinity"},
      {"-1e400", "-Infinity"},
      {"1e99999999999999999999", "Infinity"},
      {"1e-99999999999999999999", "0.0"},
      {"0.0e999", "0.0"}};
  for (const auto& [json, expected] : cases) EXPECT_EQ(default_style(json), expected) << json;
}

TEST(JsonPrint, OnlyQuoteBackslashAndControlsAreEscaped) {
  EXPECT_EQ(default_style(R"("\"\\\/\b\f\n\r\t\u0000\u001f\u007f\u2028\u00e9\ud83d\ude00")"),
            "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u001f\x7f\u2028\u00e9\U0001F600\"");
}

TEST(JsonPrint, SeparatorsAndOrderFollowTheStyle) {
  const std::string_view json = R"( { "b" : [1 , 2, {"z":0,"a":[]}] ,"a":{} , "" : null } )";
  EXPECT_EQ(default_style(json), R"({"b": [1, 2, {"z": 0, "a": []}], "a": {}, "": null})");
  EXPECT_EQ(sorted(json), R"({"":null,"a":{},"b":[1,2,{"a":[],"z":0}]})");
}

// U+FFFF sorts before U+1F600 by code point, behind it by UTF-16 unit (a surrogate, 0xD83D).
TEST(JsonPrint, KeysSortByCodePoint) {
  EXPECT_EQ(sorted(R"({"\ud83d\ude00":1,"\uffff":2,"Z":3,"a":4,"é":5})"),
            "{\"Z\":3,\"a\":4,\"é\":5,\"\uFFFF\":2,\"\U0001F600\":1}");
}

TEST(JsonValue, TheLastOfEqualKeysStandsInTheFirstPlace) {
  EXPECT_EQ(default_style(R"({"a":1,"b":2,"a":3,"c":4,"b":{"x":1,"x":2}})"),
            R"({"a": 3, "b": {"x": 2}, "c": 4})");
}

TEST(JsonValue, WhatIsNoJsonIsRefusedWithItsPlace) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "line 1, column 1: expected a value"},
      {"{\"a\":1,}", "line 1, column 8: expected a key in double quotes"},
      {"[1,\n 2,]", "line 2, column 4: expected a value"},
      {"[1 2]", "line 1, column 4: expected ',' or ']'"},
      {"{'a':1}", "expected a key in double quotes"},
      {"{1:2}", "expected a key in double quotes"},
      {"{\"a\" 1}", "expected ':'"},
      {"{\"a\":1 \"b\":2}", "expected ',' or '}'"},
      {"01", "text after the end"},
      {"1.", "expected a digit after the point"},
      {".5", "expected a value"},
      {"1e", "expected a digit in the exponent"},
      {"+1", "expected a value"},
      {"NaN", "expected a value"},
      {"-Infinity", "expected a value"},
      {"tru", "expected a value"},
      {"\"a", "the string has no end"},
      {"\"\\x\"", "unknown escape"},
      {"\"\\u12g4\"", "four hexadecimal digits"},
      {"\"\\u12", "four hexadecimal digits"},
      {"\"\\ud83d\"", "half of a surrogate pair"},
      {"\"\\ud83d\\u0041\"", "half of a surrogate pair"},
      {"\"\\", "unknown escape"},
      {"\"a\nb\"", "control character"},
      {"\"\xff\"", "not UTF-8"},
      {"\xEF\xBB\xBF{}", "expected a value"},
      {"{} {}", "text after the end"},
      {std::string(300, '['), "nested deeper than 256"}};
  for (const auto& [json, expected] : cases) {
    const std::string error = error_of([&json = json] { parse_json(json, "request"); });
    EXPECT_THAT(error, HasSubstr("usage: request: line ")) << json;
    EXPECT_THAT(error, HasSubstr(expected)) << json;
    EXPECT_FALSE(is_json(json)) << json;
  }
}

std::string fields_of(std::string_view text) {
  const auto members = read_leading_object(text);
  if (!members) return "none";
  std::string line;
  for (const JsonMember& member : *members) {
    line += member.key + "=" + std::string(member.value.source) + ";";
  }
  return line;
}

TEST(JsonLeadingObject, KeepsTheSourceTextOfEachValue) {
  EXPECT_EQ(fields_of(" {\"a\" : 1e2 ,\"b\":[1,2] , \"c\":{\"x\": \"\\u00e9\"},\"a\":\"s\\n\"}"),
            "a=1e2;b=[1,2];c={\"x\": \"\\u00e9\"};a=\"s\\n\";");
}

TEST(JsonLeadingObject, ReadsAsPythonsNonStrictReader) {
  EXPECT_EQ(fields_of("{}"), "");
  EXPECT_EQ(fields_of("{\"a\":1}, and more {"), "a=1;");
  EXPECT_EQ(fields_of("{\"a\":\"x\ny\"}"), "a=\"x\ny\";");
  EXPECT_EQ(read_leading_object("{\"a\":\"\\ud83d\"}")->front().value.text, "\uFFFD");
  for (const std::string_view text :
       {"", "  ", "[1]", "\"s\"", "{\"a\":1,}", "{'a':1}", "{\"a\":01}", "{\"a\":NaN}", "{1:2}",
        "\xEF\xBB\xBF{}", "\xC2\xA0{}", "{\"a\":1", "{\"a\"", "{\"a\":"}) {
    EXPECT_EQ(fields_of(text), "none") << text;
  }
}

}  // namespace
}  // namespace baltoro
