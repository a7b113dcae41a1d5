// Streaming: no half character is ever shown and no byte is lost, wherever tokens are cut.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "baltoro/error.h"
#include "baltoro/tokenizer.h"
#include "text/test_vocabulary.h"
#include "text/utf8.h"

namespace baltoro {
namespace {

const std::string kReplacement = "\xEF\xBF\xBD";

// Single bytes, two tokens that end or begin inside a character, and one special token.
const Tokenizer& byte_tokenizer() {
  static const Tokenizer tokenizer =
      make_tokenizer(byte_tokens_and({"a\xF0\x9F", "\x98\x80z"}), {"<|open|>"});
  return tokenizer;
}

bool is_valid_utf8(const std::string& text) { return valid_utf8_prefix(text) == text.size(); }

std::string stream(std::string_view bytes, InvalidUtf8 invalid) {
  StreamDecoder decoder(byte_tokenizer(), invalid);
  std::string out;
  for (const char c : bytes) {
    const std::string shown = decoder.feed(static_cast<unsigned char>(c));
    if (invalid == InvalidUtf8::kReplace) {
      EXPECT_TRUE(is_valid_utf8(shown));
    }
    out += shown;
  }
  return out + decoder.finish();
}

std::string random_bytes(std::mt19937& rng) {
  static constexpr std::string_view kPieces[] = {"a",
                                                 "\x7F",
                                                 "é",
                                                 "世",
                                                 "😀",
                                                 "\xED\x9F\xBF",
                                                 "\xF4\x8F\xBF\xBF",
                                                 "\xC3",
                                                 "\xE4\xB8",
                                                 "\xF0\x9F",
                                                 "\xF0\x9F\x98",
                                                 "\x80",
                                                 "\xC0",
                                                 "\xFF",
                                                 "\xED\xA0\x80",
                                                 "\xF4\x90",
                                                 "\xE0\x80"};
  std::string text;
  for (std::size_t i = rng() % 12; i > 0; --i) text += kPieces[rng() % std::size(kPieces)];
  return text;
}

TEST(StreamDecoder, CharacterAppearsWithItsLastByte) {
  StreamDecoder decoder(byte_tokenizer());
  EXPECT_EQ(decoder.feed(0xF0), "");
  EXPECT_EQ(decoder.feed(0x9F), "");
  EXPECT_EQ(decoder.feed(0x98), "");
  EXPECT_EQ(decoder.feed(0x80), "😀");
  EXPECT_EQ(decoder.feed('a'), "a");
  EXPECT_EQ(decoder.finish(), "");
}

TEST(StreamDecoder, TokensThatBeginAndEndInsideACharacter) {
  StreamDecoder decoder(byte_tokenizer());
  EXPECT_EQ(decoder.feed(256), "a");
  EXPECT_EQ(decoder.feed(257), "😀z");
  EXPECT_EQ(decoder.feed(258), "<|open|>");
}

TEST(StreamDecoder, FinishGivesWhatIsLeftAndStartsAnew) {
  for (const auto& [invalid, rest] : {std::pair{InvalidUtf8::kKeep, std::string("\xF0\x9F")},
                                      std::pair{InvalidUtf8::kReplace, kReplacement}}) {
    StreamDecoder decoder(byte_tokenizer(), invalid);
    EXPECT_EQ(decoder.feed(256), "a");
    EXPECT_EQ(decoder.finish(), rest);
    EXPECT_EQ(decoder.finish(), "");
    EXPECT_EQ(decoder.feed('b'), "b");
  }
}

// One U+FFFD for each maximal subpart, as in the table of the Unicode standard, section 3.9.
TEST(StreamDecoder, IllFormedPartsAreReplacedOneByOne) {
  const std::string r = kReplacement;
  EXPECT_EQ(stream("a\xF1\x80\x80\xE1\x80\xC2"
                   "b\x80"
                   "c\x80\xBF"
                   "d",
                   InvalidUtf8::kReplace),
            "a" + r + r + r + "b" + r + "c" + r + r + "d");
  EXPECT_EQ(stream("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82"
                   "A",
                   InvalidUtf8::kReplace),
            r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(stream("\xED\xA0\x80\xED\xBF\xBF\xED\xAF"
                   "A",
                   InvalidUtf8::kReplace),
            r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(stream("\xF4\x91\x92\x93\xFF"
                   "A\x80\xBF"
                   "B",
                   InvalidUtf8::kReplace),
            r + r + r + r + r + "A" + r + r + "B");
  EXPECT_EQ(stream("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF"
                   "A",
                   InvalidUtf8::kReplace),
            r + r + r + r + "A");
}

TEST(StreamDecoder, KeepsEveryByteInRawMode) {
  std::mt19937 rng(3);
  for (int i = 0; i < 3'000; ++i) {
    const std::string bytes = random_bytes(rng);
    ASSERT_EQ(stream(bytes, InvalidUtf8::kKeep), bytes);
  }
}

// The output does not depend on where the bytes are cut into tokens.
TEST(StreamDecoder, ReplacementDoesNotDependOnTheCuts) {
  std::mt19937 rng(4);
  for (int i = 0; i < 3'000; ++i) {
    const std::string bytes = random_bytes(rng);
    std::string pending = bytes;
    std::string at_once = take_complete_utf8(pending, InvalidUtf8::kReplace);
    if (!pending.empty()) at_once += kReplacement;
    ASSERT_EQ(stream(bytes, InvalidUtf8::kReplace), at_once);
  }
}

// Valid text passes unchanged in both modes, and at most three bytes wait.
TEST(StreamDecoder, ValidTextIsUnchangedAndHardlyDelayed) {
  const std::string text = "a\u00E9\u4E16\U0001F600\u07FF\uFFFD\U0010FFFFz";
  for (const InvalidUtf8 invalid : {InvalidUtf8::kReplace, InvalidUtf8::kKeep}) {
    StreamDecoder decoder(byte_tokenizer(), invalid);
    std::string shown;
    for (std::size_t i = 0; i < text.size(); ++i) {
      shown += decoder.feed(static_cast<unsigned char>(text[i]));
      ASSERT_TRUE(is_valid_utf8(shown));
      ASSERT_LE(i + 1 - shown.size(), 3u);
    }
    EXPECT_EQ(shown, text);
  }
}

TEST(StreamDecoder, ForeignIdIsAnErrorAndChangesNothing) {
  StreamDecoder decoder(byte_tokenizer());
  EXPECT_EQ(decoder.feed(0xC3), "");
  EXPECT_THROW(decoder.feed(259), Error);
  EXPECT_THROW(decoder.feed(-1), Error);
  EXPECT_EQ(decoder.feed(0xA9), "é");
}

}  // namespace
}  // namespace baltoro
