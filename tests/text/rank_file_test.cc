// Malformed rank files: each names file, place, value and remedy before anything is encoded.
#include "text/rank_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "baltoro/error.h"
#include "text/test_vocabulary.h"

namespace baltoro {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string error_of(const std::string& text) {
  try {
    parse_rank_file(text, "dir/tiktoken.model");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadModel);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("dir/tiktoken.model"), HasSubstr("fetch")));
    return error.what();
  }
  return "no error";
}

std::string good() { return rank_file_text(byte_tokens_and({"ab", "abc"})); }

// Line numbers are 1-based, so rank 256 ("ab") stands on line 257.
std::string with_line(std::size_t number, const std::string& line) {
  std::string text;
  std::size_t current = 1;
  for (const char c : good()) {
    if (current != number) text += c;
    if (c != '\n') continue;
    if (current++ == number) text += line;
  }
  return text;
}

TEST(RankFile, ReadsTokensInAnyOrderWithEitherLineEnd) {
  const Vocabulary plain = parse_rank_file(good(), "f");
  ASSERT_EQ(plain.size(), 258u);
  EXPECT_EQ(plain.token(257), "abc");
  EXPECT_EQ(plain.max_token_bytes(), 3u);
  const std::string moved = "\r\n" + to_base64("abc") + " 257\r\n" + with_line(258, "");
  EXPECT_EQ(parse_rank_file(moved, "f").token(257), "abc");
  std::string unterminated = good();
  unterminated.pop_back();
  EXPECT_EQ(parse_rank_file(unterminated, "f").size(), 258u);
}

TEST(RankFile, LineThatIsNoTokenAndRank) {
  for (const char* line : {"YWI=\n", "YWI= \n", "YWI=  256\n", "YWI= 256 7\n", "YWI=\t256\n",
                           " 256\n", "YWI= +256\n", "YWI= -1\n", "YWI= 0x100\n", "YWI= 256.0\n",
                           "YWI= 99999999999999999999\n", "YWI= 16777216\n", "{\n", "   \n"}) {
    EXPECT_THAT(error_of(with_line(257, line)), HasSubstr("dir/tiktoken.model:257: ")) << line;
  }
}

TEST(RankFile, BadBase64) {
  for (const char* token :
       {"YWI", "YW*=", "YWI==", "====", "Y===", "YW=I", "YWJ=", "YWI=YWI=", "YW I="}) {
    EXPECT_THAT(error_of(with_line(257, std::string(token) + " 256\n")),
                HasSubstr("dir/tiktoken.model:257: "))
        << token;
  }
}

TEST(RankFile, RepeatedRank) {
  EXPECT_THAT(error_of(with_line(258, "YWJj 256\n")),
              AllOf(HasSubstr(":258: "), HasSubstr("rank 256"), HasSubstr("line 257")));
}

TEST(RankFile, RepeatedToken) {
  EXPECT_THAT(error_of(with_line(258, "YWI= 257\n")),
              AllOf(HasSubstr(":258: "), HasSubstr("rank 257"), HasSubstr("rank 256")));
}

TEST(RankFile, GapInTheRanks) {
  EXPECT_THAT(error_of(with_line(257, "")), HasSubstr("rank 256 is missing"));
  EXPECT_THAT(error_of(with_line(258, "YWJj 9000000\n")),
              AllOf(HasSubstr("rank 257 is missing"), HasSubstr("9000000")));
  EXPECT_THAT(error_of(with_line(1, "")), HasSubstr("rank 0 is missing"));
}

TEST(RankFile, MissingSingleByte) {
  EXPECT_THAT(error_of(with_line(200, "eHh4 199\n")), HasSubstr("single byte 0xC7"));
}

TEST(RankFile, NoTokenAtAll) {
  EXPECT_THAT(error_of(""), HasSubstr("no token"));
  EXPECT_THAT(error_of("\n\r\n"), HasSubstr("no token"));
}

// What a Git LFS pointer in place of the file looks like.
TEST(RankFile, OtherFilesShowWhatWasFound) {
  EXPECT_THAT(error_of("version https://git-lfs.github.com/spec/v1\noid sha256:00\n"),
              AllOf(HasSubstr(":1: "), HasSubstr("version https://")));
  EXPECT_THAT(error_of(std::string("\x1F\x8B\0\0binary", 10)), HasSubstr("\"????binary\""));
}

}  // namespace
}  // namespace baltoro
