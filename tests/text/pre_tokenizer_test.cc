// Pieces of the Kimi pattern, each case a rule that some engine got wrong.
#include "text/pre_tokenizer.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "baltoro/error.h"
#include "text/pieces.h"

namespace baltoro {
namespace {

using Pieces = std::vector<std::string>;

const PreTokenizer& kimi() {
  static const PreTokenizer pre_tokenizer(kKimiPattern);
  return pre_tokenizer;
}

Pieces pieces(std::string_view text) { return split_pieces(kimi(), text); }

// Pieces of a text and of the expectation written in code points.
void expect_pieces(const std::vector<std::u32string>& expected) {
  std::string text;
  Pieces parts;
  for (const std::u32string& part : expected) {
    parts.push_back(to_utf8(part));
    text += parts.back();
  }
  EXPECT_EQ(pieces(text), parts) << text;
}

TEST(KimiPieces, HanStandsApartFromOtherLetters) {
  expect_pieces({U"世界", U"abc"});
  expect_pieces({U"abc", U"世"});
  expect_pieces({U"日本語", U"カタカナ"});
  expect_pieces({U"漢字", U"テスト"});
  expect_pieces({U"한국어"});
}

TEST(KimiPieces, SpaceIsNotAttachedToHan) {
  expect_pieces({U" ", U"世界"});
  expect_pieces({U" ", U"〇"});
  expect_pieces({U" ", U" ", U"世"});
  expect_pieces({U"!", U"世"});
}

TEST(KimiPieces, HanSymbolsAndMarksAreSwallowedByPunctuation) {
  expect_pieces({U"\u2E80\u2FD5世"});
  expect_pieces({U" \u2E80"});
  expect_pieces({U"!\u2E80"});
  expect_pieces({U"!\U00016FE2"});
  expect_pieces({U" \U00016FF0"});
  expect_pieces({U"\U00016FF1世"});
}

TEST(KimiPieces, HanNumbersFollowDigits) {
  expect_pieces({U"1〇"});
  expect_pieces({U"〇", U"1"});
  expect_pieces({U"1〇\u3021", U"\u3022"});
  expect_pieces({U"12\u3038", U"\u303A"});
}

// U+3001-3003 and U+30FC carry Han in Script_Extensions only.
TEST(KimiPieces, HanIsTheScriptNotItsExtensions) {
  expect_pieces({U"世", U"、"});
  expect_pieces({U"世", U"。", U"界"});
  expect_pieces({U"世", U"ー"});
  expect_pieces({U"カー"});
}

TEST(KimiPieces, DigitsComeInThrees) {
  expect_pieces({U"123", U"45"});
  expect_pieces({U"١٢٣", U"٤"});
  expect_pieces({U" ", U"123"});
  expect_pieces({U"½", U"a"});
  expect_pieces({U"Ⅻ²3", U"4"});
}

TEST(KimiPieces, PunctuationTakesOneSpaceAndNewlinesBehind) {
  expect_pieces({U"。\n\n"});
  expect_pieces({U"}\n", U"///"});
  expect_pieces({U" !?\r\n\r\n", U"a"});
  expect_pieces({U" ", U" !"});
  expect_pieces({U"\t", U"!"});
  expect_pieces({U"\u00A0", U"!"});
  expect_pieces({U"\u3000", U"!"});
}

TEST(KimiPieces, WhitespaceRuns) {
  expect_pieces({U"a", U"  \n", U" b"});
  expect_pieces({U"\t", U"\tfoo"});
  expect_pieces({U"a", U"   "});
  expect_pieces({U"a", U"  ", U" b"});
  expect_pieces({U" \n \n", U"  ", U" b"});
  expect_pieces({U"\r\n\r\n", U"  "});
  expect_pieces({U" \u2028\x85\x0B", U"\u3000a"});
  expect_pieces({U"  ", U" ", U"世"});
}

TEST(KimiPieces, SeparatorsThatAreNoWhitespaceActAsPunctuation) {
  for (const char32_t c : std::u32string(U"\x1C\x1F\u180E\u200B\u200D\u2060\uFEFF")) {
    const std::u32string one(1, c);
    expect_pieces({U" " + one});
    expect_pieces({one + U"a"});
    expect_pieces({one + one + U"\n", U"a"});
    expect_pieces({U" ", U" " + one});
  }
}

TEST(KimiPieces, PrivateUnassignedAndControlCharactersActAsPunctuation) {
  for (const char32_t c : {U'\uE000', U'\u0378', U'\x01', U'\x7F', U'\U0010FFFF'}) {
    const std::u32string one(1, c);
    expect_pieces({U" " + one + one});
    expect_pieces({one + U"a"});
  }
  EXPECT_EQ(pieces(std::string_view("\0\0a", 3)), (Pieces{std::string(2, '\0'), "a"}));
}

TEST(KimiPieces, Contractions) {
  expect_pieces({U"it's", U" IT'S"});
  expect_pieces({U"it's", U"x"});
  expect_pieces({U"we'll", U" THEY'RE", U" I'd", U" he'D", U" you'Ve", U" i'M", U" don't"});
  expect_pieces({U"don", U"’t"});
  expect_pieces({U"don\u02BCt"});
  expect_pieces({U"it'\u017F", U"x"});
  expect_pieces({U"it", U"'\u00DF"});
  expect_pieces({U"it", U"'\uFB06"});
  expect_pieces({U"1", U"'s"});
  expect_pieces({U"世", U"'s"});
  expect_pieces({U"!'", U"s"});
}

TEST(KimiPieces, CaseBorders) {
  expect_pieces({U"Hello", U"World"});
  expect_pieces({U"HTMLParser"});
  expect_pieces({U"parse", U"HTML"});
  expect_pieces({U"ABC", U"世"});
  expect_pieces({U"ǅǅa"});
  expect_pieces({U"aa", U"ǅ"});
}

TEST(KimiPieces, PrefixIsAnyOneCharacterButNewlineLetterNumber) {
  for (const char32_t c : std::u32string(U"\t\u00A0\u200B'!_\U0001F600")) {
    expect_pieces({std::u32string(1, c) + U"abc"});
  }
  expect_pieces({U"\n", U"abc"});
  expect_pieces({U"\r", U"abc"});
  expect_pieces({U"😀😀", U"a"});
}

TEST(KimiPieces, CombiningMarks) {
  expect_pieces({U"e\u0301a"});
  expect_pieces({U"!\u0301"});
  expect_pieces({U"!!\u0301"});
  expect_pieces({U"\u0301", U"A"});  // rule 2 succeeds once the prefix is given up
  expect_pieces({U"\u0301\u0301"});
  expect_pieces({U"1", U"\u0301"});
}

TEST(KimiPieces, UppercaseRunStepsBackToTheLastCharacterThatIsInBothSets) {
  expect_pieces({U"Aª", U"B"});
  expect_pieces({U"א", U"A"});
  expect_pieces({U"Aאb"});
  expect_pieces({U"AB\u0301", U"CD"});
}

// Bytes that are no UTF-8 are pieces of their own and change nothing but their neighbours' borders.
TEST(KimiPieces, IllFormedBytesAreKeptApart) {
  EXPECT_EQ(pieces("ab\xFF\xFE"
                   "cd"),
            (Pieces{"ab", "\xFF\xFE", "cd"}));
  EXPECT_EQ(pieces("\xE4\xB8"), (Pieces{"\xE4\xB8"}));
  EXPECT_EQ(pieces("\xE4\xB8\xE4\xB8\x96"), (Pieces{"\xE4\xB8", "\xE4\xB8\x96"}));
  EXPECT_EQ(pieces("a  \xC0\xAF"), (Pieces{"a", "  ", "\xC0\xAF"}));
  EXPECT_EQ(pieces("\xED\xA0\x80!"), (Pieces{"\xED\xA0\x80", "!"}));
  EXPECT_EQ(pieces("\xF4\x90\x80\x80"), (Pieces{"\xF4\x90\x80\x80"}));
}

// A matcher that keeps one frame a character runs out of stack here, or of patience.
TEST(KimiPieces, LongRunsOfEachClass) {
  for (const std::u32string unit :
       {U"a", U"A", U"世", U"1", U" ", U"\n", U"!", U"א", U"\u0301", U"Aא", U" \n", U"!\u0301"}) {
    std::u32string text;
    while (text.size() < 25'000) text += unit;
    const std::string bytes = to_utf8(text);
    std::vector<std::size_t> ends;
    kimi().split(bytes, ends);
    ASSERT_FALSE(ends.empty());
    EXPECT_EQ(ends.back(), bytes.size());
  }
}

TEST(KimiPieces, OneMatcherServesManyThreads) {
  std::vector<Pieces> results(4);
  std::vector<std::thread> threads;
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "It's 世界 12345  \n\n";
  for (Pieces& result : results) threads.emplace_back([&] { result = pieces(text); });
  for (std::thread& thread : threads) thread.join();
  for (const Pieces& result : results) EXPECT_EQ(result, results[0]);
  EXPECT_EQ(std::accumulate(results[0].begin(), results[0].end(), std::string()), text);
}

// PCRE2 compiles a class intersection in silence and matches something else.
TEST(PreTokenizer, RefusesPatternsThatPcre2WouldMisread) {
  EXPECT_THROW(PreTokenizer(R"([\p{L}&&[^\p{Han}]]+)"), Error);
  EXPECT_THROW(PreTokenizer("(unclosed"), Error);
}

TEST(PreTokenizer, TextThatThePatternDoesNotCoverIsAnError) {
  const PreTokenizer letters("a+");
  std::vector<std::size_t> ends;
  EXPECT_NO_THROW(letters.split("aaa", ends));
  EXPECT_THROW(letters.split("aab", ends), Error);
  EXPECT_THROW(PreTokenizer("a*").split("b", ends), Error);
}

}  // namespace
}  // namespace baltoro
