// The pieces against ICU, which takes the released pattern verbatim, class intersection included.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unicode/regex.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>
#include <unicode/utypes.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "text/kimi_texts.h"
#include "text/pieces.h"
#include "text/pre_tokenizer.h"

namespace baltoro {
namespace {

class IcuPieces {
 public:
  IcuPieces() {
    UErrorCode status = U_ZERO_ERROR;
    matcher_ = std::make_unique<icu::RegexMatcher>(icu::UnicodeString::fromUTF8(kReleasedPattern),
                                                   0, status);
    EXPECT_TRUE(U_SUCCESS(status)) << u_errorName(status);
  }

  std::vector<std::string> split(const std::u32string& text) {
    const icu::UnicodeString units = icu::UnicodeString::fromUTF32(
        reinterpret_cast<const UChar32*>(text.data()), static_cast<std::int32_t>(text.size()));
    matcher_->reset(units);
    UErrorCode status = U_ZERO_ERROR;
    std::vector<std::string> pieces;
    while (matcher_->find(status)) matcher_->group(status).toUTF8String(pieces.emplace_back());
    EXPECT_TRUE(U_SUCCESS(status)) << u_errorName(status);
    return pieces;
  }

 private:
  std::unique_ptr<icu::RegexMatcher> matcher_;
};

int major_version(const std::string& version) {
  int major = 0;
  std::from_chars(version.data(), version.data() + version.size(), major);
  return major;
}

// Whether both libraries know the same about `c`: characters younger than the older of their
// Unicode versions are letters to one and unassigned to the other.
bool is_known_to_both(char32_t c) {
  if (c >= 0xD800 && c <= 0xDFFF) return false;
  static const int pcre2 = major_version(unicode_version());
  static const int icu = major_version(U_UNICODE_VERSION);
  UVersionInfo age;
  u_charAge(static_cast<UChar32>(c), age);
  if (age[0] == 0) return pcre2 <= icu;
  return age[0] <= std::min(pcre2, icu);
}

std::string show(const std::u32string& text) {
  std::string out;
  for (const char32_t c : text) out += fmt::format("U+{:04X} ", static_cast<std::uint32_t>(c));
  return out;
}

TEST(PiecesAgainstIcu, RandomTextsOfMixedScripts) {
  const PreTokenizer ours(kKimiPattern);
  IcuPieces icu;
  std::mt19937 rng(20260101);
  for (int i = 0; i < 40'000; ++i) {
    const std::u32string text = random_text(rng);
    ASSERT_EQ(split_pieces(ours, to_utf8(text)), icu.split(text)) << show(text);
  }
}

// Each character as prefix, in a run, and behind a letter, digit, space, punctuation and Han.
TEST(PiecesAgainstIcu, EveryCharacterInEveryContext) {
  const PreTokenizer ours(kKimiPattern);
  IcuPieces icu;
  int num_checked = 0;
  for (char32_t c = 1; c < 0x110000; ++c) {
    // Above the supplementary ideographs only tags, variation selectors and private use are
    // assigned.
    if (c == 0x32400) c = 0xDFF00;
    if (c == 0xE0200) c = 0x10FFF0;
    if (!is_known_to_both(c)) continue;
    const std::u32string text = {c,    c,    U'b', c,     U'B', c,     U' ', c, U'9',  c,
                                 U'!', U'!', c,    U'世', c,    U'\'', U's', c, U'\n', c};
    ASSERT_EQ(split_pieces(ours, to_utf8(text)), icu.split(text)) << show({c});
    ++num_checked;
  }
  EXPECT_GT(num_checked, 140'000);
}

}  // namespace
}  // namespace baltoro
