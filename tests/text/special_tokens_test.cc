// The special block: complete whatever the flags say, and refused when it collides.
#include "text/special_tokens.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "baltoro/error.h"

namespace baltoro {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

SpecialTokens parse(const std::string& entries) {
  return parse_special_tokens(R"({"added_tokens_decoder": {)" + entries + "}}", 300, "dir/c.json");
}

std::string error_of_file(const std::string& json) {
  try {
    parse_special_tokens(json, 300, "dir/c.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadModel);
    EXPECT_THAT(error.what(), HasSubstr("dir/c.json"));
    return error.what();
  }
  return "no error";
}

std::string error_of(const std::string& entries) {
  return error_of_file(R"({"added_tokens_decoder": {)" + entries + "}}");
}

TEST(SpecialTokens, EveryEntryBelongsToTheBlockWhateverItsFlag) {
  const SpecialTokens specials = parse(R"(
      "300": {"content": "[BOS]", "special": true},
      "301": {"content": "<|open|>", "special": false},
      "302": {"content": "<|close|>"})");
  EXPECT_EQ(specials.find("[BOS]"), 300);
  EXPECT_EQ(specials.find("<|open|>"), 301);
  EXPECT_EQ(specials.find("<|close|>"), 302);
  EXPECT_EQ(specials.find("<|sep|>"), std::nullopt);
  EXPECT_EQ(specials.end_id(), 303);
  EXPECT_FALSE(specials.contains(299));
  EXPECT_FALSE(specials.contains(303));
}

TEST(SpecialTokens, IdsWithoutEntryAreReserved) {
  const SpecialTokens specials = parse(R"("300": {"content": "[BOS]"}, "304": {"content": "[PAD]"},
      "302": {"content": "<|reserved_token_302|>"}, "301": {"content": "<|reserved_token_x|>"})");
  EXPECT_EQ(specials.name(303), "<|reserved_token_303|>");
  EXPECT_EQ(specials.find("<|reserved_token_303|>"), 303);
  EXPECT_FALSE(specials.is_reserved(300));
  EXPECT_FALSE(specials.is_reserved(301));
  EXPECT_TRUE(specials.is_reserved(302));
  EXPECT_TRUE(specials.is_reserved(303));
  EXPECT_FALSE(specials.is_reserved(304));
  EXPECT_FALSE(specials.is_reserved(305));
}

TEST(SpecialTokens, MatchIsLeftmostThenLongest) {
  const SpecialTokens specials = parse(
      R"("300": {"content": "<a>"}, "301": {"content": "<a><b>"}, "302": {"content": "b><"})");
  const auto match = specials.next_match("x<a<a><b><", 0);
  ASSERT_TRUE(match.has_value());
  EXPECT_EQ(match->begin, 3u);
  EXPECT_EQ(match->bytes, 6u);
  EXPECT_EQ(match->id, 301);
  EXPECT_EQ(specials.next_match("x<a<a><b><", 4)->id, 302);
  EXPECT_EQ(specials.next_match("<a", 0), std::nullopt);
  EXPECT_EQ(specials.next_match("<a>", 3), std::nullopt);
}

TEST(SpecialTokens, SurvivesAMove) {
  SpecialTokens source = parse(R"("300": {"content": "[E]"})");
  const SpecialTokens target = std::move(source);
  EXPECT_EQ(target.find("[E]"), 300);
}

TEST(SpecialTokens, IdThatIsARank) {
  EXPECT_THAT(error_of(R"("299": {"content": "[EOS]"}, "300": {"content": "[BOS]"})"),
              AllOf(HasSubstr("ids 299 to 300"), HasSubstr("from 300")));
}

// As if lines were missing at the end of the rank file: text would be encoded, to wrong ids.
TEST(SpecialTokens, BlockThatBeginsBehindAGap) {
  EXPECT_THAT(error_of(R"("301": {"content": "[BOS]"})"), HasSubstr("truncated"));
  EXPECT_THAT(error_of(R"("163584": {"content": "[BOS]"})"), HasSubstr("163584"));
}

TEST(SpecialTokens, IdFarBehindTheRanks) {
  EXPECT_THAT(error_of(R"("300": {"content": "[BOS]"}, "70000": {"content": "[PAD]"})"),
              AllOf(HasSubstr("70000"), HasSubstr("65835")));
}

TEST(SpecialTokens, KeyThatIsNoId) {
  for (const char* key : {"", "x", "-1", "300.0", "+300", "0300", "99999999999", "300 "}) {
    EXPECT_THAT(error_of(fmt::format(R"("{}": {{"content": "a"}})", key)),
                HasSubstr("is no token id"))
        << key;
  }
}

TEST(SpecialTokens, EntryWithoutString) {
  for (const char* entry : {"{}", "7", "\"[BOS]\"", R"({"content": 7})", R"({"content": null})"}) {
    EXPECT_THAT(error_of(R"("300": )" + std::string(entry)), HasSubstr("\"300\"")) << entry;
  }
  EXPECT_THAT(error_of(R"("300": {"content": ""})"), HasSubstr("empty"));
}

TEST(SpecialTokens, RepeatedIdOrString) {
  EXPECT_THAT(error_of(R"("300": {"content": "a"}, "300": {"content": "b"})"),
              AllOf(HasSubstr("\"300\""), HasSubstr("twice")));
  EXPECT_THAT(error_of(R"("300": {"content": "[E]"}, "301": {"content": "[E]"})"),
              AllOf(HasSubstr("300"), HasSubstr("301"), HasSubstr("[E]")));
  EXPECT_THAT(error_of(R"("300": {"content": "<|reserved_token_301|>"}, "302": {"content": "b"})"),
              HasSubstr("<|reserved_token_301|>"));
}

TEST(SpecialTokens, FileWithoutTheBlock) {
  EXPECT_THAT(error_of_file("{}"), HasSubstr("added_tokens_decoder"));
  EXPECT_THAT(error_of_file("[]"), HasSubstr("added_tokens_decoder"));
  EXPECT_THAT(error_of_file(R"({"added_tokens_decoder": []})"), HasSubstr("array"));
  EXPECT_THAT(error_of_file(R"({"added_tokens_decoder": {}})"), HasSubstr("added_tokens_decoder"));
  for (const char* text : {"", "{", "{]", "{} x", "{\"a\": \"\xFF\"}", "{\"a\": \"\\ud800\"}"}) {
    EXPECT_THAT(error_of_file(text), HasSubstr("not valid JSON")) << text;
  }
}

}  // namespace
}  // namespace baltoro
