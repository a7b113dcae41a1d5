// Merging against the naive rule, and its time on input that makes a quadratic merge hang.
#include "text/bpe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "text/test_vocabulary.h"

namespace baltoro {
namespace {

using Ids = std::vector<TokenId>;

Ids encode(const Vocabulary& vocabulary, std::string_view piece) {
  BpeScratch scratch;
  Ids ids;
  encode_piece(vocabulary, piece, scratch, ids);
  return ids;
}

// The rule as it is written: search all pairs for the lowest rank, merge the leftmost, repeat.
Ids encode_naively(const std::vector<std::string>& tokens, std::string_view piece) {
  const auto rank_of = [&](std::string_view bytes) {
    return static_cast<TokenId>(std::find(tokens.begin(), tokens.end(), bytes) - tokens.begin());
  };
  const auto none = static_cast<TokenId>(tokens.size());
  if (const TokenId whole = rank_of(piece); whole != none) return {whole};
  std::vector<std::string> parts;
  for (const char c : piece) parts.emplace_back(1, c);
  while (true) {
    TokenId best = none;
    std::size_t where = 0;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      const TokenId rank = rank_of(parts[i] + parts[i + 1]);
      if (rank < best) {
        best = rank;
        where = i;
      }
    }
    if (best == none) break;
    parts[where] += parts[where + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(where) + 1);
  }
  Ids ids;
  for (const std::string& part : parts) ids.push_back(rank_of(part));
  return ids;
}

// Single bytes and random strings over "abc": some can be reached by merges, some only as a whole.
std::vector<std::string> random_tokens(std::mt19937& rng) {
  std::set<std::string> distinct;
  while (distinct.size() < 40) {
    std::string token;
    const std::size_t length = 2 + rng() % 4;
    while (token.size() < length) token += static_cast<char>('a' + rng() % 3);
    distinct.insert(token);
  }
  std::vector<std::string> merged(distinct.begin(), distinct.end());
  std::shuffle(merged.begin(), merged.end(), rng);
  merged.resize(3 + rng() % 37);
  return byte_tokens_and(merged);
}

TEST(Bpe, EqualsTheNaiveRule) {
  std::mt19937 rng(11);
  for (int vocabulary_idx = 0; vocabulary_idx < 60; ++vocabulary_idx) {
    const std::vector<std::string> tokens = random_tokens(rng);
    const Vocabulary vocabulary = make_vocabulary(tokens);
    for (int i = 0; i < 100; ++i) {
      std::string piece;
      const std::size_t length = 1 + rng() % 30;
      while (piece.size() < length) piece += static_cast<char>('a' + rng() % 3);
      ASSERT_EQ(encode(vocabulary, piece), encode_naively(tokens, piece)) << piece;
    }
  }
}

TEST(Bpe, LowestRankFirstThenLeftmost) {
  const Vocabulary vocabulary = make_vocabulary(byte_tokens_and({"bc", "ab", "aa"}));
  EXPECT_EQ(encode(vocabulary, "abcd"), (Ids{'a', 256, 'd'}));
  EXPECT_EQ(encode(vocabulary, "aaaaa"), (Ids{258, 258, 'a'}));
}

TEST(Bpe, WholePieceIsTakenEvenIfNoMergeReachesIt) {
  const Vocabulary vocabulary = make_vocabulary(byte_tokens_and({"abcd"}));
  EXPECT_EQ(encode(vocabulary, "abcd"), (Ids{256}));
  EXPECT_EQ(encode(vocabulary, "abcde"), (Ids{'a', 'b', 'c', 'd', 'e'}));
}

// A list of merges would know one way to build "abc"; by ranks each way counts.
TEST(Bpe, TokenIsReachedByAnySplit) {
  const Vocabulary vocabulary = make_vocabulary(byte_tokens_and({"bc", "abc", "ab", "xab"}));
  EXPECT_EQ(encode(vocabulary, "abcz"), (Ids{257, 'z'}));
  const Vocabulary other = make_vocabulary(byte_tokens_and({"ab", "abc", "bc"}));
  EXPECT_EQ(encode(other, "abcz"), (Ids{257, 'z'}));
}

TEST(Bpe, BytesAboveAsciiAndZero) {
  const Vocabulary vocabulary =
      make_vocabulary(byte_tokens_and({std::string("\0\0", 2), "\xFF\xFE"}));
  EXPECT_EQ(encode(vocabulary, std::string_view("\0\0\0\xFF\xFE", 5)), (Ids{256, 0, 257}));
}

// A merge that searches all pairs again needs many minutes for these.
TEST(Bpe, LongPiecesTakeLinearithmicTime) {
  std::vector<std::string> powers;
  for (std::size_t length = 2; length <= 128; length *= 2) powers.emplace_back(length, 'a');
  const Vocabulary vocabulary = make_vocabulary(byte_tokens_and(powers));
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(encode(vocabulary, std::string(1 << 18, 'a')), Ids(2048, 262));
  std::string mixed(1 << 18, 'a');
  for (std::size_t i = 100; i < mixed.size(); i += 101) mixed[i] = 'b';
  const Ids ids = encode(vocabulary, mixed);
  EXPECT_EQ(Ids(ids.begin(), ids.begin() + 4), (Ids{261, 260, 257, 'b'}));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

TEST(Vocabulary, FindsEachTokenAndNothingElse) {
  std::mt19937 rng(5);
  std::set<std::string> distinct;
  while (distinct.size() < 20'000) {
    std::string token;
    const std::size_t length = 2 + rng() % 20;
    while (token.size() < length) token += static_cast<char>(rng());
    distinct.insert(token);
  }
  const auto tokens = byte_tokens_and({distinct.begin(), distinct.end()});
  const Vocabulary vocabulary = make_vocabulary(tokens);
  ASSERT_EQ(vocabulary.size(), tokens.size());
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    ASSERT_EQ(vocabulary.find(tokens[id]), static_cast<TokenId>(id));
    ASSERT_EQ(vocabulary.token(static_cast<TokenId>(id)), tokens[id]);
    const std::string longer = tokens[id] + "x";
    ASSERT_EQ(vocabulary.find(longer) != Vocabulary::kAbsent, distinct.contains(longer));
  }
  EXPECT_EQ(vocabulary.find(""), Vocabulary::kAbsent);
}

}  // namespace
}  // namespace baltoro
