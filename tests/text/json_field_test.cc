#include "text/json_field.h"

#include <gtest/gtest.h>

#include <string>

#include "text/chat_test_util.h"

namespace baltoro {
namespace {

class JsonFieldTest : public ::testing::Test {
 protected:
  JsonField read(const std::string& json) {
    text_ = json;
    root_ = parse_json(text_, "request");
    return {&root_, ""};
  }

  std::string text_;
  JsonValue root_;
};

TEST_F(JsonFieldTest, AnErrorNamesThePath) {
  const JsonField root = read(R"({"a": [{"b": 1}, {"b": "x"}]})");
  EXPECT_EQ(error_of([&] { root["a"].items()[0]["b"].required_string(); }),
            "usage: a[0].b: expected a string, found a number");
  EXPECT_EQ(error_of([&] { root["c"]["d"].required_string(); }),
            "usage: c.d: expected a string, found nothing");
  EXPECT_EQ(error_of([&] { root.required_string(); }),
            "usage: request: expected a string, found an object");
  EXPECT_EQ(root["a"].items()[1]["b"].required_string(), "x");
}

TEST_F(JsonFieldTest, NullIsMissing) {
  const JsonField root = read(R"({"a": null})");
  EXPECT_FALSE(root["a"].present());
  EXPECT_EQ(root["a"].optional_integer(), std::nullopt);
  EXPECT_EQ(root["a"].optional_string(), std::nullopt);
  EXPECT_EQ(root["b"].optional_bool(), std::nullopt);
  EXPECT_EQ(root["b"].optional_number(), std::nullopt);
  EXPECT_TRUE(root["b"].items().empty());
}

TEST_F(JsonFieldTest, ANumberWithoutFractionIsAnInteger) {
  EXPECT_EQ(read("12").optional_integer(), 12);
  EXPECT_EQ(read("-3").optional_integer(), -3);
  EXPECT_EQ(read("2.0").optional_integer(), 2);
  EXPECT_EQ(read("1e3").optional_integer(), 1000);
  EXPECT_EQ(read("9223372036854775807").optional_integer(), 9223372036854775807);
  for (const char* json : {"1.5", "9223372036854775808", "1e300", "1e999", "true", "\"1\""}) {
    EXPECT_NE(error_of([&] { read(json).optional_integer(); }), "no error") << json;
  }
}

TEST_F(JsonFieldTest, ANumberMustBeFinite) {
  EXPECT_EQ(read("0.25").optional_number(), 0.25);
  EXPECT_EQ(read("1e-999").optional_number(), 0.0);
  EXPECT_EQ(error_of([&] { read(R"({"t": 1e999})")["t"].optional_number(); }),
            "usage: t: 1e999 is too large for a number");
}

}  // namespace
}  // namespace baltoro
