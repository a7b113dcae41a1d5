// The cut of very long texts, which changes ids and is easily one character off.
#include "text/text_slices.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "text/pieces.h"
#include "text/utf8.h"

namespace baltoro {
namespace {

using Sizes = std::vector<std::size_t>;

Sizes slice_sizes(std::string_view text, const SliceLimits& limits = {}) {
  Sizes sizes;
  for (const std::string_view slice : cut_slices(text, limits)) sizes.push_back(slice.size());
  return sizes;
}

// The rule in two independent passes over code points: blocks first, then runs inside each.
std::vector<std::string> slices_by_the_book(const std::u32string& text, const SliceLimits& limits) {
  std::vector<std::string> slices;
  for (std::size_t block = 0; block < text.size(); block += limits.block_chars) {
    const std::u32string chars = text.substr(block, limits.block_chars);
    std::u32string slice;
    std::size_t run = 0;
    for (std::size_t i = 0; i < chars.size(); ++i) {
      const bool same = i > 0 && is_python_space(chars[i]) == is_python_space(chars[i - 1]);
      run = same ? run + 1 : 1;
      if (run > limits.run_chars) {
        slices.push_back(to_utf8(slice));
        slice.clear();
        run = 1;
      }
      slice += chars[i];
    }
    slices.push_back(to_utf8(slice));
  }
  return slices;
}

TEST(TextSlices, EmptyTextHasNone) { EXPECT_TRUE(cut_slices("").empty()); }

TEST(TextSlices, RunIsCutBeforeCharacterNumber25001) {
  EXPECT_EQ(slice_sizes(std::string(25'000, 'a')), (Sizes{25'000}));
  EXPECT_EQ(slice_sizes(std::string(25'001, 'a')), (Sizes{25'000, 1}));
  EXPECT_EQ(slice_sizes(std::string(100'000, ' ')), (Sizes{25'000, 25'000, 25'000, 25'000}));
}

TEST(TextSlices, CountsCharactersNotBytes) {
  std::string text;
  for (int i = 0; i < 25'001; ++i) text += "世";
  EXPECT_EQ(slice_sizes(text), (Sizes{75'000, 3}));
}

TEST(TextSlices, CountBeginsAnewWhenTheKindChanges) {
  const std::string run(25'000, 'a');
  EXPECT_EQ(slice_sizes(run + " " + run), (Sizes{50'001}));
  EXPECT_EQ(slice_sizes(run + " " + run + "a"), (Sizes{50'001, 1}));
  EXPECT_EQ(slice_sizes(run + std::string(25'001, ' ') + "b"), (Sizes{50'000, 2}));
}

TEST(TextSlices, BlocksOf400000CharactersCutAnywhere) {
  std::string text;
  for (int i = 0; i < 250'000; ++i) text += "a ";
  EXPECT_EQ(slice_sizes(text), (Sizes{400'000, 100'000}));
  // 399,999 + 10 letters: the block border falls into a run and the count starts anew behind it.
  const std::string words = text.substr(0, 399'990) + std::string(25'010, 'b');
  EXPECT_EQ(slice_sizes(words), (Sizes{400'000, 25'000}));
}

TEST(TextSlices, InformationSeparatorsAreWhitespaceHereOnly) {
  for (const char separator : {'\x1C', '\x1D', '\x1E', '\x1F'}) {
    const std::string text = std::string(20'000, ' ') + std::string(20'000, separator);
    EXPECT_EQ(slice_sizes(text), (Sizes{25'000, 15'000}));
  }
  std::string text;
  for (int i = 0; i < 13'000; ++i) text += "a\xE2\x80\x8B";  // U+200B is not white space
  EXPECT_EQ(slice_sizes(text).size(), 2u);
}

TEST(TextSlices, IllFormedBytesCountOneEach) {
  EXPECT_EQ(slice_sizes(std::string(25'001, '\xFF')), (Sizes{25'000, 1}));
  EXPECT_EQ(slice_sizes("\xE4\xB8\xE4\xB8\x96x", {.block_chars = 3, .run_chars = 9}),
            (Sizes{5, 1}));
}

TEST(TextSlices, EqualsTheRuleOnRandomTexts) {
  const SliceLimits limits{.block_chars = 16, .run_chars = 3};
  const std::u32string alphabet = U"ab世\U0001F600 \n\x1F\u3000";
  std::mt19937 rng(7);
  for (int i = 0; i < 5'000; ++i) {
    std::u32string text;
    const std::size_t length = 1 + rng() % 60;
    while (text.size() < length) text.append(1 + rng() % 5, alphabet[rng() % alphabet.size()]);
    const std::string bytes = to_utf8(text);
    std::vector<std::string> slices;
    for (const std::string_view slice : cut_slices(bytes, limits)) slices.emplace_back(slice);
    ASSERT_EQ(slices, slices_by_the_book(text, limits)) << bytes;
  }
}

}  // namespace
}  // namespace baltoro
