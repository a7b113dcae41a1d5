// The cache of routed experts: never beyond its limit, every expert present when it is used, and
// hits where least-recently-used has none.
#include "model/expert_cache.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <set>

#include "core/error.h"

namespace baltoro {
namespace {

constexpr std::uint64_t kBytes = 100;

// Follows the steps as MappedWeights does and checks them.
class Follower {
 public:
  Follower(int layers, int experts, std::uint64_t limit)
      : limit_(limit), cache_(table(layers, experts)) {
    cache_.set_limit(limit);
  }

  void use(int layer, std::vector<std::int32_t> ids) {
    std::span<const std::int32_t> left(ids);
    while (!left.empty()) {
      const ExpertCache::Step& step = cache_.acquire(layer, left);
      for (std::size_t number : step.drops) EXPECT_EQ(in_memory_.erase(number), 1u);
      for (std::size_t number : step.reads) EXPECT_TRUE(in_memory_.insert(number).second);
      reads += step.reads.size();
      EXPECT_EQ(in_memory_.size() * kBytes, cache_.bytes_in_memory());
      EXPECT_LE(cache_.bytes_in_memory(), limit_);
      ASSERT_GE(step.ready, 1u);
      ASSERT_LE(step.ready, left.size());
      for (std::int32_t id : left.first(step.ready)) {
        EXPECT_EQ(in_memory_.count(cache_.number(layer, id)), 1u) << layer << ", " << id;
      }
      left = left.subspan(step.ready);
    }
  }

  void set_limit(std::uint64_t limit) {
    limit_ = limit;
    cache_.set_limit(limit);
  }
  void begin_pass() { cache_.begin_pass(); }

  std::size_t reads = 0;

 private:
  static std::vector<std::vector<std::uint64_t>> table(int layers, int experts) {
    std::vector<std::vector<std::uint64_t>> bytes(
        static_cast<std::size_t>(layers),
        std::vector<std::uint64_t>(static_cast<std::size_t>(experts), kBytes));
    bytes.front().clear();  // a dense layer
    return bytes;
  }

  std::uint64_t limit_;
  ExpertCache cache_;
  std::set<std::size_t> in_memory_;
};

std::vector<std::int32_t> all(int experts) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(experts));
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

TEST(ExpertCache, RandomUseUnderEveryLimit) {
  std::mt19937 random(7);
  for (std::uint64_t limit : {1u, 2u, 3u, 5u, 8u, 20u, 1000u}) {
    Follower follower(4, 16, limit * kBytes);
    for (int pass = 0; pass < 40; ++pass) {
      follower.begin_pass();
      for (int layer = 1; layer < 4; ++layer) {
        std::vector<std::int32_t> ids;
        for (std::int32_t id = 0; id < 16; ++id) {
          if (random() % 4 == 0) ids.push_back(id);
        }
        if (!ids.empty()) follower.use(layer, ids);
      }
    }
    if (limit == 1000) {
      EXPECT_LE(follower.reads, 3u * 16u);
    }
  }
}

// A prompt of many passes uses all experts of all layers in turn. Room for half of them must save
// about half of the reads; to give up the least recently used would save none.
TEST(ExpertCache, PromptsHitInTurn) {
  constexpr int kLayers = 9, kExperts = 16, kPasses = 10;
  Follower follower(kLayers, kExperts, (kLayers - 1) * kExperts / 2 * kBytes);
  for (int pass = 0; pass < kPasses; ++pass) {
    follower.begin_pass();
    for (int layer = 1; layer < kLayers; ++layer) follower.use(layer, all(kExperts));
  }
  EXPECT_LT(follower.reads, 0.62 * (kLayers - 1) * kExperts * kPasses);
}

// Favourites that most tokens choose stay, though others pass through.
TEST(ExpertCache, DecodingKeepsFavourites) {
  Follower follower(3, 64, 24 * kBytes);
  std::mt19937 random(3);
  std::size_t before = 0;
  for (int pass = 0; pass < 400; ++pass) {
    if (pass == 100) before = follower.reads;
    follower.begin_pass();
    for (int layer = 1; layer < 3; ++layer) {
      follower.use(layer, {0, 1, static_cast<std::int32_t>(2 + random() % 62)});
    }
  }
  // At most the third of each is read.
  EXPECT_LE(follower.reads - before, 300u * 2u);
}

TEST(ExpertCache, ASmallerLimitTakesEffect) {
  Follower follower(2, 16, 16 * kBytes);
  follower.begin_pass();
  follower.use(1, all(16));
  follower.set_limit(4 * kBytes);
  follower.use(1, {15});
  follower.use(1, {14, 15});
}

TEST(ExpertCache, NoExpertsAreABrokenContract) {
  const std::vector<std::vector<std::uint64_t>> one_expert = {{kBytes}};
  ExpertCache cache(one_expert);
  EXPECT_THROW(cache.acquire(0, {}), Error);
}

}  // namespace
}  // namespace baltoro
