#include "cli/calculator.h"

#include <gtest/gtest.h>

#include <string>

#include "baltoro/error.h"

namespace baltoro::cli {
namespace {

TEST(Calculator, KeepsPrecedenceAndParentheses) {
  EXPECT_EQ(evaluate("2 + 3 * 4"), "14");
  EXPECT_EQ(evaluate("(2 + 3) * 4"), "20");
  EXPECT_EQ(evaluate("20 - 3 - 4"), "13");
  EXPECT_EQ(evaluate("48 / 4 / 3"), "4");
  EXPECT_EQ(evaluate("2*(3+(4-1))*5"), "60");
  EXPECT_EQ(evaluate("-3 * -(2 + 1)"), "9");
  EXPECT_EQ(evaluate("7 - -2"), "9");
  EXPECT_EQ(evaluate("6 × 7"), "42");
  EXPECT_EQ(evaluate("9 − 12 ÷ 4"), "6");
}

TEST(Calculator, IsExactWhereBinaryFloatsAreNot) {
  EXPECT_EQ(evaluate("0.1 + 0.2"), "0.3");
  EXPECT_EQ(evaluate("1 / 3 * 3"), "1");
  EXPECT_EQ(evaluate("1 / 3"), "1/3");
  EXPECT_EQ(evaluate("-22 / 7"), "-22/7");
  EXPECT_EQ(evaluate("1 / 8"), "0.125");
  EXPECT_EQ(evaluate("-1 / 40"), "-0.025");
  EXPECT_EQ(evaluate("5.50"), "5.5");
  EXPECT_EQ(evaluate(".5 + 1."), "1.5");
  EXPECT_EQ(evaluate("9007199254740993 * 1"), "9007199254740993");
  EXPECT_EQ(evaluate("1 / 4611686018427387904 * 4611686018427387904"), "1");
  EXPECT_EQ(evaluate("3 / 4611686018427387904").substr(0, 22), "0.00000000000000000065");
}

TEST(Calculator, NamesThePlaceOfAFault) {
  const auto message = [](const char* text) -> std::string {
    try {
      return "value " + evaluate(text);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kUsage);
      return e.what();
    }
  };
  EXPECT_EQ(message("1 / 0"), "division by zero before at position 6 of \"1 / 0\"");
  EXPECT_EQ(message("2 +"), "expected a number at position 4 of \"2 +\"");
  EXPECT_EQ(message(""), "expected a number at position 1 of \"\"");
  EXPECT_EQ(message("(1"), "expected ) at position 3 of \"(1\"");
  EXPECT_EQ(message("1)"), "expected an operator or the end at position 2 of \"1)\"");
  EXPECT_EQ(message("2 3"), "expected an operator or the end at position 3 of \"2 3\"");
  EXPECT_EQ(message("two"), "expected a number at position 1 of \"two\"");
  EXPECT_NE(message("9223372036854775807 + 1").find("too large"), std::string::npos);
  EXPECT_NE(message("99999999999 * 99999999999").find("too large"), std::string::npos);
  EXPECT_NE(message("-9223372036854775807 - 1").find("too large"), std::string::npos);
  EXPECT_NE(message(std::string(100, '(').c_str()).find("too many"), std::string::npos);
}

}  // namespace
}  // namespace baltoro::cli
