// The selection of likely tokens against a sort of all of them.
#include "engine/most_likely.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "ops/logits.h"

namespace baltoro {
namespace {

struct Case {
  std::vector<float> logits, weights;
  WeighedRow row;
  double total = 0;
};

Case make_case(std::mt19937& random, std::size_t size, float spread, float temperature) {
  Case made;
  std::normal_distribution<float> normal(0, spread);
  // Some rows have few different logits: ties.
  const float step = random() % 3 == 0 ? 0.5f : 0;
  for (std::size_t i = 0; i < size; ++i) {
    const float x = normal(random);
    made.logits.push_back(step > 0 ? std::round(x / step) * step : x);
  }
  if (size > 2 && random() % 4 == 0) made.logits[1] = -INFINITY;
  const float max = *std::ranges::max_element(made.logits);
  made.weights.resize(size);
  exp_below(made.logits, max, temperature, made.weights.data());
  made.row = {made.logits, made.weights, max, temperature};
  for (const float weight : made.weights) made.total += static_cast<double>(weight);
  return made;
}

std::vector<TokenId> all_above(const Case& one, float cutoff) {
  std::vector<TokenId> ids;
  for (std::size_t i = 0; i < one.weights.size(); ++i) {
    if (one.weights[i] > cutoff) ids.push_back(static_cast<TokenId>(i));
  }
  return ids;
}

std::vector<TokenId> plain_top_p(const Case& one, double least, std::vector<TokenId> ids) {
  const auto logit = [&](TokenId id) { return one.logits[static_cast<std::size_t>(id)]; };
  std::ranges::stable_sort(ids, [&](TokenId a, TokenId b) { return logit(a) > logit(b); });
  double taken = 0;
  std::size_t count = 0;
  while (count < ids.size() && taken < least) {
    taken += static_cast<double>(one.weights[static_cast<std::size_t>(ids[count++])]);
  }
  ids.resize(count);
  std::ranges::reverse(ids);
  return ids;
}

TEST(MostLikely, EqualsASortOfAll) {
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    const std::size_t size = 1 + random() % (i % 20 == 0 ? 5000 : 200);
    const float temperature = std::exp2(static_cast<float>(random() % 9) - 5);
    const Case one = make_case(random, size, 0.5f + static_cast<float>(random() % 8), temperature);
    const float cutoff = random() % 2 == 0 ? 0 : static_cast<float>(random() % 1000) * 1e-5f;
    std::vector<TokenId> ids;
    list_above(one.row, cutoff, ids);
    ASSERT_EQ(ids, all_above(one, cutoff)) << i;
    // Shares next to 1 meet sums that are rounded in other orders.
    const double shares[] = {0.01, 0.5, 0.9, 0.999, 1 - 1e-7, 1 - 1e-16, 1, 1 + 1e-15, 2};
    for (const double share : shares) {
      std::vector<TokenId> kept = ids;
      std::ranges::shuffle(kept, random);
      keep_top_p(one.row, share * one.total, kept);
      ASSERT_EQ(kept, plain_top_p(one, share * one.total, ids)) << i << " share " << share;
    }
  }
}

TEST(MostLikely, TinyTemperaturesLeaveTheLargest) {
  const std::vector<float> logits = {1, 3, 2, 3, -INFINITY};
  const std::vector<float> weights = {0, 1, 0, 1, 0};
  const WeighedRow row{logits, weights, 3, 1e-38f};
  std::vector<TokenId> ids;
  list_above(row, 0, ids);
  EXPECT_EQ(ids, (std::vector<TokenId>{1, 3}));
  keep_top_p(row, 0.9, ids);
  EXPECT_EQ(ids, (std::vector<TokenId>{1}));
}

TEST(MostLikely, SortsTheFirstAndLeavesTheOthers) {
  const std::vector<float> logits = {1, 4, 2, 4, 0};
  std::vector<TokenId> order = {0, 1, 2, 3, 4};
  sort_most_likely(order, 3, logits);
  EXPECT_EQ(order[0], 1);
  EXPECT_EQ(order[1], 3);
  EXPECT_EQ(order[2], 2);
}

}  // namespace
}  // namespace baltoro
