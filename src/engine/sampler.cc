// The sampler: scan, mask, filter, draw.
#include "baltoro/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/rng.h"

namespace baltoro {
namespace {

// Separates the sampler's random numbers from other users of the same seed.
constexpr std::uint64_t kStream = 0x73616D706C65;  // "sample"

constexpr int kMaxLogprobs = 1000;

void check(const SamplingParams& p) {
  if (!(p.temperature >= 0) || !std::isfinite(p.temperature)) {
    fail(ErrorCode::kUsage, "temperature is {}; it must be finite and at least 0 (0 is greedy)",
         p.temperature);
  }
  if (p.top_k < 0)
    fail(ErrorCode::kUsage, "top_k is {}; it must be at least 0 (0 is off)", p.top_k);
  if (!(p.top_p > 0 && p.top_p <= 1)) {
    fail(ErrorCode::kUsage, "top_p is {}; it must be in (0, 1] (1 is off)", p.top_p);
  }
  if (!(p.min_p >= 0 && p.min_p <= 1)) {
    fail(ErrorCode::kUsage, "min_p is {}; it must be in [0, 1] (0 is off)", p.min_p);
  }
  if (p.num_logprobs < 0 || p.num_logprobs > kMaxLogprobs) {
    fail(ErrorCode::kUsage, "num_logprobs is {}; it must be in [0, {}]", p.num_logprobs,
         kMaxLogprobs);
  }
}

// 53 random bits in [0, 1): with fewer, rare tokens of a large vocabulary would never be drawn.
double uniform(std::uint64_t seed, std::uint64_t step) {
  const auto word = Philox(seed, kStream).block(step);
  const std::uint64_t bits = (std::uint64_t{word[0]} << 32 | word[1]) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

// Calls visit(token) for every token that is not banned; `banned` is sorted.
template <typename Visit>
void for_each_allowed(std::size_t vocab_size, std::span<const TokenId> banned, Visit&& visit) {
  auto next = banned.begin();
  for (std::size_t i = 0; i < vocab_size; ++i) {
    const auto token = static_cast<TokenId>(i);
    if (next != banned.end() && *next == token) {
      ++next;
      continue;
    }
    visit(token);
  }
}

struct Scan {
  TokenId best = -1;
  float max = -std::numeric_limits<float>::infinity();
};

// Finds the largest allowed logit; throws where there is nothing to choose from.
Scan scan(std::span<const float> logits, std::span<const TokenId> banned) {
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i])) {
      fail(ErrorCode::kNonFinite, "the logit of token {} of {} is NaN: no token can be chosen", i,
           logits.size());
    }
  }
  Scan result;
  for_each_allowed(logits.size(), banned, [&](TokenId token) {
    const float x = logits[static_cast<std::size_t>(token)];
    if (x > result.max) result = {token, x};
  });
  if (result.best < 0) {
    fail(ErrorCode::kNonFinite,
         "none of {} logits is above -infinity once {} tokens are banned: no token can be chosen",
         logits.size(), banned.size());
  }
  return result;
}

// Heap order: the most likely first, the lower id among equals.
struct LessLikely {
  std::span<const float> logits;
  bool operator()(TokenId a, TokenId b) const {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x < y || (x == y && a > b);
  }
};

// Moves the `count` most likely tokens to the front, in order.
void sort_most_likely(std::vector<TokenId>& order, std::size_t count,
                      std::span<const float> logits) {
  const LessLikely less{logits};
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                    [&](TokenId a, TokenId b) { return less(b, a); });
}

// Keeps the smallest set of the most likely candidates whose weight is at least `share` of the
// whole.
void keep_top_p(std::vector<TokenId>& order, std::span<const float> weights, double share,
                std::span<const float> logits) {
  double total = 0;
  for (TokenId token : order)
    total += static_cast<double>(weights[static_cast<std::size_t>(token)]);
  // A heap, since few of a large vocabulary are usually taken.
  const LessLikely less{logits};
  std::make_heap(order.begin(), order.end(), less);
  auto end = order.end();
  double taken = 0;
  while (end != order.begin() && taken < share * total) {
    taken += static_cast<double>(weights[static_cast<std::size_t>(order.front())]);
    std::pop_heap(order.begin(), end, less);
    --end;
  }
  order.erase(order.begin(), end);
}

// log(sum exp(logits - max)) over the allowed tokens; max stays apart, so that huge logits keep
// their digits.
double log_sum_exp(std::span<const float> logits, std::span<const TokenId> banned, double max) {
  double sum = 0;
  for_each_allowed(logits.size(), banned, [&](TokenId token) {
    sum += std::exp(static_cast<double>(logits[static_cast<std::size_t>(token)]) - max);
  });
  return std::log(sum);
}

}  // namespace

Sampler::Sampler(const SamplingParams& params, std::span<const TokenId> banned)
    : params_(params), banned_(banned.begin(), banned.end()) {
  check(params_);
  std::sort(banned_.begin(), banned_.end());
  banned_.erase(std::unique(banned_.begin(), banned_.end()), banned_.end());
  if (!banned_.empty() && banned_.front() < 0) {
    fail(ErrorCode::kUsage, "banned token {} is negative", banned_.front());
  }
}

TokenId Sampler::draw(std::span<const float> logits, float max, std::uint64_t step) {
  probability_.resize(logits.size());
  order_.clear();
  order_.reserve(logits.size());
  for_each_allowed(logits.size(), banned_, [&](TokenId token) {
    const auto i = static_cast<std::size_t>(token);
    probability_[i] = std::exp((logits[i] - max) / params_.temperature);
    if (probability_[i] > 0) order_.push_back(token);
  });
  const auto top_k = static_cast<std::size_t>(params_.top_k);
  if (top_k > 0 && top_k < order_.size()) {
    sort_most_likely(order_, top_k, logits);
    order_.resize(top_k);
  }
  if (params_.top_p < 1)
    keep_top_p(order_, probability_, static_cast<double>(params_.top_p), logits);
  if (params_.min_p > 0) {
    // The largest weight is 1.
    std::erase_if(order_, [&](TokenId token) {
      return probability_[static_cast<std::size_t>(token)] < params_.min_p;
    });
  }
  double total = 0;
  for (TokenId token : order_)
    total += static_cast<double>(probability_[static_cast<std::size_t>(token)]);
  double left = uniform(params_.seed, step) * total;
  for (TokenId token : order_) {
    left -= static_cast<double>(probability_[static_cast<std::size_t>(token)]);
    if (left < 0) return token;
  }
  return order_.back();  // rounding of the sum
}

Choice Sampler::choose(std::span<const float> logits, std::uint64_t step) {
  const Scan top = scan(logits, banned_);
  Choice choice{.token = top.best, .logprob = 0, .top = {}};
  const bool certain = std::isinf(top.max);  // +infinity: probability 1, and 0 for the others
  if (params_.temperature > 0 && !certain) choice.token = draw(logits, top.max, step);
  const auto max = static_cast<double>(top.max);
  const double norm = certain ? 0 : log_sum_exp(logits, banned_, max);
  const auto logprob = [&](TokenId token) {
    if (certain) return token == top.best ? 0.0f : -top.max;
    return static_cast<float>(static_cast<double>(logits[static_cast<std::size_t>(token)]) - max -
                              norm);
  };
  choice.logprob = logprob(choice.token);
  if (params_.num_logprobs > 0) {
    order_.clear();
    for_each_allowed(logits.size(), banned_, [&](TokenId token) { order_.push_back(token); });
    const auto count = std::min(static_cast<std::size_t>(params_.num_logprobs), order_.size());
    sort_most_likely(order_, count, logits);
    for (std::size_t i = 0; i < count; ++i) choice.top.push_back({order_[i], logprob(order_[i])});
  }
  return choice;
}

}  // namespace baltoro
