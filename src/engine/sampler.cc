// The sampler: scan, adjust, mask, filter, draw.
#include "baltoro/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/rng.h"
#include "engine/most_likely.h"
#include "ops/draw.h"
#include "ops/logits.h"

namespace baltoro {
namespace {

// Separates the sampler's random numbers from other users of the same seed.
constexpr std::uint64_t kStream = 0x73616D706C65;  // "sample"

constexpr int kMaxLogprobs = 1000;

// Beside a count that no answer reaches.
constexpr std::uint32_t kInPrompt = 1u << 31;

constexpr float kNothing = -std::numeric_limits<float>::infinity();

void check_range(const char* name, float value, float low, float high, const char* off) {
  if (value >= low && value <= high) return;
  fail(ErrorCode::kUsage, "{} is {}; it must be in [{}, {}] ({} is off)", name, value, low, high,
       off);
}

void check_bias(const std::vector<TokenBias>& biases) {
  for (const TokenBias& entry : biases) {
    if (entry.token < 0) {
      fail(ErrorCode::kUsage, "logit_bias of token {}: a token is not negative", entry.token);
    }
    if (!(entry.bias >= -100 && entry.bias <= 100)) {
      fail(ErrorCode::kUsage, "logit_bias of token {} is {}; it must be in [-100, 100]",
           entry.token, entry.bias);
    }
  }
}

// Sorts the list, so that a token that stands in it twice is found.
void sort_bias(std::vector<TokenBias>& biases) {
  std::ranges::sort(biases, {}, &TokenBias::token);
  const auto twice = std::ranges::adjacent_find(biases, {}, &TokenBias::token);
  if (twice != biases.end()) {
    fail(ErrorCode::kUsage, "logit_bias names token {} twice", twice->token);
  }
}

void check(const SamplingParams& p) {
  check_range("repetition_penalty", p.repetition_penalty, 0.01f, 100, "1");
  check_range("presence_penalty", p.presence_penalty, -2, 2, "0");
  check_range("frequency_penalty", p.frequency_penalty, -2, 2, "0");
  check_bias(p.logit_bias);
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

// Calls visit(begin, end) for every stretch of tokens that are not banned; `banned` is sorted.
template <typename Visit>
void for_each_allowed(std::size_t vocab_size, std::span<const TokenId> banned, Visit&& visit) {
  std::size_t begin = 0;
  for (const TokenId token : banned) {
    const std::size_t end = std::min(vocab_size, static_cast<std::size_t>(token));
    if (begin < end) visit(begin, end);
    begin = end + 1;
  }
  if (begin < vocab_size) visit(begin, vocab_size);
}

struct Scan {
  TokenId best = -1;
  float max = -std::numeric_limits<float>::infinity();
};

// Finds the largest allowed logit.
Scan scan(std::span<const float> logits, std::span<const TokenId> banned) {
  Scan result;
  for_each_allowed(logits.size(), banned, [&](std::size_t begin, std::size_t end) {
    const std::span<const float> part = logits.subspan(begin, end - begin);
    const float max = largest(part);
    if (!(max > result.max)) return;
    const auto first = std::ranges::find(part, max) - part.begin();
    result = {static_cast<TokenId>(begin + static_cast<std::size_t>(first)), max};
  });
  return result;
}

// The same for what the model gave; throws where there is nothing to choose from.
Scan scan_row(std::span<const float> logits, std::span<const TokenId> banned) {
  if (has_nan(logits)) {
    const auto bad = std::ranges::find_if(logits, [](float x) { return std::isnan(x); });
    fail(ErrorCode::kNonFinite, "the logit of token {} of {} is NaN: no token can be chosen",
         bad - logits.begin(), logits.size());
  }
  const Scan result = scan(logits, banned);
  if (result.best < 0) {
    fail(ErrorCode::kNonFinite,
         "none of {} logits is above -infinity once {} tokens are banned: no token can be chosen",
         logits.size(), banned.size());
  }
  return result;
}

}  // namespace

Sampler::Sampler(const SamplingParams& params, std::span<const TokenId> banned,
                 std::shared_ptr<TokenConstraint> constraint)
    : params_(params), banned_(banned.begin(), banned.end()), constraint_(std::move(constraint)) {
  check(params_);
  sort_bias(params_.logit_bias);
  std::sort(banned_.begin(), banned_.end());
  banned_.erase(std::unique(banned_.begin(), banned_.end()), banned_.end());
  if (!banned_.empty() && banned_.front() < 0) {
    fail(ErrorCode::kUsage, "banned token {} is negative", banned_.front());
  }
}

bool Sampler::penalizes() const {
  return params_.repetition_penalty != 1 || params_.presence_penalty != 0 ||
         params_.frequency_penalty != 0;
}

void Sampler::read_prompt(std::span<const TokenId> tokens) {
  if (params_.repetition_penalty == 1) return;
  prompt_.insert(prompt_.end(), tokens.begin(), tokens.end());
  std::sort(prompt_.begin(), prompt_.end());
  prompt_.erase(std::unique(prompt_.begin(), prompt_.end()), prompt_.end());
}

void Sampler::count_prompt(std::size_t vocab_size) {
  seen_.resize(vocab_size);
  for (const TokenId token : prompt_) {
    if (token < 0 || static_cast<std::size_t>(token) >= vocab_size) {
      fail(ErrorCode::kUsage, "token {} of the prompt is not in a vocabulary of {}", token,
           vocab_size);
    }
    seen_[static_cast<std::size_t>(token)] |= kInPrompt;
  }
  prompt_ = {};
}

// The logits with penalties, bias and constraint, in memory of the sampler's own.
std::span<const float> Sampler::adjust(std::span<const float> logits) {
  adjusted_.assign(logits.begin(), logits.end());
  if (penalizes()) {
    if (seen_.size() != logits.size()) count_prompt(logits.size());
    for (std::size_t i = 0; i < seen_.size(); ++i) {
      if (seen_[i] == 0) continue;
      float& x = adjusted_[i];
      x = x > 0 ? x / params_.repetition_penalty : x * params_.repetition_penalty;
      const std::uint32_t times = seen_[i] & ~kInPrompt;
      if (times > 0) {
        x -= params_.presence_penalty + params_.frequency_penalty * static_cast<float>(times);
      }
    }
  }
  for (const TokenBias& entry : params_.logit_bias) {
    const auto i = static_cast<std::size_t>(entry.token);
    if (i >= adjusted_.size()) {
      fail(ErrorCode::kUsage, "logit_bias of token {}: the vocabulary has {} tokens", entry.token,
           adjusted_.size());
    }
    adjusted_[i] += entry.bias;
  }
  if (constraint_ != nullptr) apply_constraint();
  return adjusted_;
}

void Sampler::apply_constraint() {
  mask_.assign((adjusted_.size() + 63) / 64, 0);
  constraint_->allow(mask_);
  for (std::size_t i = 0; i < adjusted_.size(); ++i) {
    if ((mask_[i / 64] >> (i % 64) & 1) == 0) adjusted_[i] = kNothing;
  }
}

// weights_ = exp((logits - max) / temperature), 0 for banned tokens; returns the sum. `max` stays
// apart, so that huge logits keep their digits.
double Sampler::weigh(std::span<const float> logits, float max, float temperature) {
  weights_.assign(logits.size(), 0);
  double sum = 0;
  for_each_allowed(logits.size(), banned_, [&](std::size_t begin, std::size_t end) {
    const std::span<const float> part = logits.subspan(begin, end - begin);
    exp_below(part, max, temperature, weights_.data() + begin);
    sum += sum_of(std::span(weights_).subspan(begin, end - begin));
  });
  return sum;
}

// The tokens that top-k, top-p and min-p leave, into order_; `total` is the sum of all weights, `max`
// the largest logit.
void Sampler::filter(std::span<const float> logits, float max, double total) {
  const auto weight = [&](TokenId token) { return weights_[static_cast<std::size_t>(token)]; };
  const WeighedRow row{logits, weights_, max, params_.temperature};
  const auto top_k = static_cast<std::size_t>(params_.top_k);
  const auto top_p = static_cast<double>(params_.top_p);
  // What is less likely than this weighs, all taken together, half of what top-p leaves out.
  const bool top_p_alone = top_k == 0 && top_p < 1;
  const auto cutoff = static_cast<float>(
      top_p_alone ? (1 - top_p) * total / static_cast<double>(2 * logits.size()) : 0);
  list_above(row, cutoff, order_);
  if (top_k > 0 && top_k < order_.size()) {
    sort_most_likely(order_, top_k, logits);
    order_.resize(top_k);
    total = 0;
    for (const TokenId token : order_) total += static_cast<double>(weight(token));
  }
  if (top_p < 1) keep_top_p(row, top_p * total, order_);
  // The largest weight is 1.
  if (params_.min_p > 0) {
    std::erase_if(order_, [&](TokenId token) { return weight(token) < params_.min_p; });
  }
}

// `total` is the sum of weights_, `max` the largest logit.
TokenId Sampler::draw(std::span<const float> logits, float max, double total, std::uint64_t step) {
  const auto weight = [&](TokenId token) {
    return static_cast<double>(weights_[static_cast<std::size_t>(token)]);
  };
  const double part = random_part(step);
  if (params_.top_k == 0 && params_.top_p == 1 && params_.min_p == 0) {
    return draw_from_all(part * total);
  }
  filter(logits, max, total);
  total = 0;
  for (const TokenId token : order_) total += weight(token);
  double left = part * total;
  for (const TokenId token : order_) {
    left -= weight(token);
    if (left < 0) return token;
  }
  return order_.back();  // rounding of the sum
}

double Sampler::random_part(std::uint64_t step) const { return uniform(params_.seed, step); }

TokenId Sampler::draw_from_all(double left) const {
  std::size_t last = 0;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i] == 0) continue;
    last = i;
    left -= static_cast<double>(weights_[i]);
    if (left < 0) break;
  }
  return static_cast<TokenId>(last);
}

// Fills in the log probabilities, from what the model gave; `max` and `best` are those of the row,
// `norm` the logarithm of the sum of its weights.
void Sampler::report(std::span<const float> logits, float max, double norm, TokenId best,
                     Choice& choice) {
  const bool certain = std::isinf(max);
  const auto logprob = [&](TokenId token) {
    if (certain) return token == best ? 0.0f : kNothing;
    const auto x = static_cast<double>(logits[static_cast<std::size_t>(token)]);
    return static_cast<float>(x - static_cast<double>(max) - norm);
  };
  choice.logprob = logprob(choice.token);
  if (params_.num_logprobs == 0) return;
  order_.clear();
  for_each_allowed(logits.size(), banned_, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) order_.push_back(static_cast<TokenId>(i));
  });
  const auto count = std::min(static_cast<std::size_t>(params_.num_logprobs), order_.size());
  sort_most_likely(order_, count, logits);
  for (std::size_t i = 0; i < count; ++i) choice.top.push_back({order_[i], logprob(order_[i])});
}

std::optional<DrawRequest> Sampler::draw_request(std::uint64_t step) const {
  if (constraint_ != nullptr || penalizes() || !params_.logit_bias.empty()) return std::nullopt;
  if (params_.num_logprobs > 0) return std::nullopt;
  const bool greedy = params_.temperature == 0;  // filters change nothing
  if (!greedy && static_cast<std::size_t>(params_.top_k) > kDrawDepth) return std::nullopt;
  return DrawRequest{.temperature = params_.temperature,
                     .top_k = greedy ? 0 : params_.top_k,
                     .top_p = params_.top_p,
                     .min_p = params_.min_p,
                     .part = random_part(step),
                     .banned = banned_};
}

Choice Sampler::choose(std::span<const float> logits, std::uint64_t step) {
  const Scan own = scan_row(logits, banned_);  // what the model says by itself
  const bool adjusts = constraint_ != nullptr || penalizes() || !params_.logit_bias.empty();
  const std::span<const float> weights = adjusts ? adjust(logits) : logits;
  const Scan top = adjusts ? scan(weights, banned_) : own;
  const double own_total = std::isinf(own.max) ? 1 : weigh(logits, own.max, 1);
  if (top.best < 0) {
    fail(ErrorCode::kNonFinite,
         "none of the tokens that penalties and constraint leave of {} has a logit above "
         "-infinity: no token can be chosen",
         logits.size());
  }
  Choice choice{.token = top.best, .logprob = 0, .top = {}};
  // +infinity: probability 1, and 0 for the others
  if (params_.temperature > 0 && !std::isinf(top.max)) {
    const bool same = !adjusts && params_.temperature == 1;
    const double total = same ? own_total : weigh(weights, top.max, params_.temperature);
    choice.token = draw(weights, top.max, total, step);
  }
  report(logits, own.max, std::log(own_total), own.best, choice);
  if (penalizes()) ++seen_[static_cast<std::size_t>(choice.token)];
  if (constraint_ != nullptr) constraint_->accept(choice.token);
  return choice;
}

}  // namespace baltoro
