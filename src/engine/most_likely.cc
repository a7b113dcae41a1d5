#include "engine/most_likely.h"

#include <algorithm>

namespace baltoro {
namespace {

// Heap order: the most likely first, the lower id among equals.
struct LessLikely {
  std::span<const float> logits;
  bool operator()(TokenId a, TokenId b) const {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x < y || (x == y && a > b);
  }
};

// Buckets of likelihood, the most likely first: a quarter of a power of e each, the last one open.
// Monotone in the logit, rounding included, so that no token is in a better bucket than a likelier
// one.
constexpr int kBuckets = 64;
class Buckets {
 public:
  explicit Buckets(const WeighedRow& row)
      : logits_(row.logits), max_(row.max), scale_(4 / row.temperature) {}
  int of(TokenId token) const {
    const float depth = (max_ - logits_[static_cast<std::size_t>(token)]) * scale_;
    return depth < kBuckets - 1 ? static_cast<int>(depth) : kBuckets - 1;
  }

 private:
  std::span<const float> logits_;
  float max_, scale_;
};

// The last bucket that is needed to come to `least`, up to rounding.
int last_bucket(const WeighedRow& row, const Buckets& buckets, double least,
                const std::vector<TokenId>& order) {
  double sums[kBuckets] = {};
  for (const TokenId token : order) {
    sums[buckets.of(token)] += static_cast<double>(row.weights[static_cast<std::size_t>(token)]);
  }
  int last = 0;
  double sum = sums[0];
  while (sum < least && last < kBuckets - 1) sum += sums[++last];
  return last;
}

// How many of a sorted list of tokens come to `least`; one more than there are where all do not.
std::size_t count_up_to(const WeighedRow& row, double least, std::span<const TokenId> sorted) {
  double sum = 0;
  std::size_t count = 0;
  while (sum < least) {
    if (count == sorted.size()) return count + 1;
    sum += static_cast<double>(row.weights[static_cast<std::size_t>(sorted[count++])]);
  }
  return count;
}

}  // namespace

void sort_most_likely(std::vector<TokenId>& order, std::size_t count,
                      std::span<const float> logits) {
  const LessLikely less{logits};
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                    [&](TokenId a, TokenId b) { return less(b, a); });
}

void list_above(const WeighedRow& row, float cutoff, std::vector<TokenId>& order) {
  constexpr std::size_t kBlock = 16;  // few of them hold such a token
  const std::span<const float> weights = row.weights;
  order.resize(weights.size() + 1);
  std::size_t count = 0;
  for (std::size_t begin = 0; begin < weights.size(); begin += kBlock) {
    const std::size_t end = std::min(begin + kBlock, weights.size());
    float most = 0;
    for (std::size_t i = begin; i < end; ++i) most = weights[i] > most ? weights[i] : most;
    if (!(most > cutoff)) continue;
    for (std::size_t i = begin; i < end; ++i) {  // without a branch
      order[count] = static_cast<TokenId>(i);
      count += weights[i] > cutoff ? 1 : 0;
    }
  }
  order.resize(count);
}

void keep_top_p(const WeighedRow& row, double least, std::vector<TokenId>& order) {
  const Buckets buckets(row);
  const LessLikely less{row.logits};
  for (int last = last_bucket(row, buckets, least, order);; last = kBuckets - 1) {
    const auto end = std::partition(order.begin(), order.end(),
                                    [&](TokenId token) { return buckets.of(token) <= last; });
    std::sort(order.begin(), end, [&](TokenId a, TokenId b) { return less(b, a); });
    const auto available = static_cast<std::size_t>(end - order.begin());
    const std::size_t count = count_up_to(row, least, std::span(order).first(available));
    if (count > available && available < order.size()) continue;  // the sums were rounded otherwise
    order.resize(std::min(count, available));
    std::ranges::reverse(order);
    return;
  }
}

}  // namespace baltoro
