// Choosing from the most likely tokens alone: the arithmetic of sampler.cc on the part of a row that it
// depends on. What sums over the whole row decide is taken for decided only where their last digits,
// which a device may have otherwise, cannot matter.
#include <algorithm>
#include <cmath>

#include "baltoro/sampler.h"
#include "engine/logits.h"

namespace baltoro {
namespace {

// How far sums over a row may be apart, of a device and of sampler.cc, over the sum.
constexpr double kSumError = 4e-6;

// exp_below() is 0 from here on, for every smaller logit too.
constexpr float kNoWeight = -87;

}  // namespace

bool Sampler::decides_by_top() const {
  if (constraint_ != nullptr || penalizes() || !params_.logit_bias.empty()) return false;
  if (params_.num_logprobs > 0) return false;
  if (params_.temperature == 0) return true;
  if (params_.top_k > 0) return static_cast<std::size_t>(params_.top_k) <= kTopLogits;
  return params_.top_p < 1 || params_.min_p > 0;
}

std::optional<Choice> Sampler::choose(const TopLogits& top, std::uint64_t step) {
  if (top.ids.empty() || !std::isfinite(top.logits.front())) return std::nullopt;
  Choice choice{
      .token = top.ids.front(), .logprob = static_cast<float>(-std::log(top.total)), .top = {}};
  if (params_.temperature == 0) return choice;
  const float max = top.logits.front();
  weights_.assign(top.logits.size(), 0);
  exp_below(top.logits, max, params_.temperature, weights_.data());
  if (!filter_top(top)) return std::nullopt;
  // order_: places in the list.
  const auto weight = [&](TokenId place) {
    return static_cast<double>(weights_[static_cast<std::size_t>(place)]);
  };
  double total = 0;
  for (const TokenId place : order_) total += weight(place);
  double left = random_part(step) * total;
  TokenId chosen = order_.back();
  for (const TokenId place : order_) {
    left -= weight(place);
    if (left < 0) {
      chosen = place;
      break;
    }
  }
  const auto at = static_cast<std::size_t>(chosen);
  choice.token = top.ids[at];
  choice.logprob = static_cast<float>(static_cast<double>(top.logits[at]) -
                                      static_cast<double>(max) - std::log(top.total));
  return choice;
}

// As filter(), in the same order. False where it depends on more than is listed.
bool Sampler::filter_top(const TopLogits& top) {
  const auto weight = [&](TokenId place) { return weights_[static_cast<std::size_t>(place)]; };
  order_.clear();
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i] > 0) order_.push_back(static_cast<TokenId>(i));
  }
  const std::size_t positive = order_.size();
  // All tokens that have a weight are listed.
  const float last = (top.logits.back() - top.logits.front()) / params_.temperature;
  const bool all = top.whole || last <= kNoWeight;
  if (!all && positive < top.ids.size()) return false;
  const auto by_id = [&](TokenId a, TokenId b) {
    return top.ids[static_cast<std::size_t>(a)] < top.ids[static_cast<std::size_t>(b)];
  };
  const auto top_k = static_cast<std::size_t>(params_.top_k);
  double total = top.tempered_total;
  double error = kSumError;
  bool sorted = false;
  if (top_k > 0 && top_k < positive) {
    order_.resize(top_k);
    total = error = 0;
    for (const TokenId place : order_) total += static_cast<double>(weight(place));
    sorted = true;
  } else if (top_k > 0 && !all) {
    return false;
  }
  if (params_.top_p < 1) {
    const double least = static_cast<double>(params_.top_p) * total;
    double taken = 0;
    std::size_t count = 0;
    while (count < order_.size() && taken < least) {
      taken += static_cast<double>(weight(order_[count++]));
      if (error > 0 && std::fabs(taken - least) <= error * total) return false;
    }
    // Taken by all that have a weight, or to be taken of tokens that are not listed.
    if (taken < least && error > 0 && !all) return false;
    order_.resize(count);
    // keep_top_p() leaves the least likely first.
    std::reverse(order_.begin(), order_.end());
  } else if (!sorted) {
    const float least = params_.min_p * (1 - 1e-5f);
    if (!all && !(weights_.back() < least)) return false;
    std::sort(order_.begin(), order_.end(), by_id);
  }
  if (params_.min_p > 0) {
    std::erase_if(order_, [&](TokenId place) { return weight(place) < params_.min_p; });
  }
  return true;
}

}  // namespace baltoro
