#include "text/stop_matcher.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "baltoro/error.h"

namespace baltoro {
namespace {

// Feeds `text` cut at every place of `mask`'s bits.
std::string run(const std::vector<std::string>& stops, const std::string& text, unsigned mask,
                bool* matched) {
  StopMatcher matcher(stops);
  std::string out, piece;
  for (std::size_t i = 0; i < text.size(); ++i) {
    piece += text[i];
    if (mask >> i & 1u) {
      out += matcher.feed(piece);
      piece.clear();
    }
  }
  out += matcher.feed(piece);
  out += matcher.finish();
  *matched = matcher.matched();
  return out;
}

struct Case {
  std::vector<std::string> stops;
  std::string text;
  std::string kept;
  bool matched;
};

TEST(StopMatcher, EveryCutOfTheTextGivesTheSameResult) {
  const std::vector<Case> cases = {
      {{"END"}, "a ENEND b", "a EN", true},
      {{"aab"}, "aaaab", "aa", true},        // a failed start overlaps the real one
      {{"abc", "b"}, "zabc", "za", true},    // the one complete first
      {{"abcd", "cd"}, "xabcd", "x", true},  // complete together: the one that begins first
      {{"\n\n"}, "one\ntwo\n", "one\ntwo\n", false},
      {{"stop"}, "sto", "sto", false},
      {{}, "anything", "anything", false},
      {{"x"}, "x", "", true},
  };
  for (const Case& c : cases) {
    for (unsigned mask = 0; mask < 1u << c.text.size(); ++mask) {
      bool matched = false;
      EXPECT_EQ(run(c.stops, c.text, mask, &matched), c.kept) << c.text << " mask " << mask;
      EXPECT_EQ(matched, c.matched) << c.text << " mask " << mask;
    }
  }
}

TEST(StopMatcher, ReleasesTextAsSoonAsItIsSafe) {
  StopMatcher matcher({"END"});
  EXPECT_EQ(matcher.feed("hello"), "hello");
  EXPECT_EQ(matcher.feed(" E"), " ");
  EXPECT_EQ(matcher.feed("N"), "");
  EXPECT_EQ(matcher.feed("x"), "ENx");
}

TEST(StopMatcher, DropsWhatFollowsAMatch) {
  StopMatcher matcher({"."});
  EXPECT_EQ(matcher.feed("a.b"), "a");
  EXPECT_EQ(matcher.feed("c"), "");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, RefusesAnEmptyStop) {
  try {
    StopMatcher matcher({"a", ""});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kUsage);
  }
}

}  // namespace
}  // namespace baltoro
