// A draw in the order of baltoro/sampler.h, on a sorted list of all tokens.
#include "ops/draw.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "ops/logits.h"

namespace baltoro {
namespace {

// Sums of a row's weights in another order may be apart by this much of the sum.
constexpr double kSumError = 1e-9;

struct Candidate {
  std::int32_t id;
  float logit;
  float weight;  // exp((logit - largest) / temperature)
};

std::vector<Candidate> by_likelihood(std::span<const float> logits, const std::uint8_t* banned) {
  std::vector<Candidate> list;
  list.reserve(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (banned == nullptr || banned[i] == 0) {
      list.push_back({static_cast<std::int32_t>(i), logits[i], 0});
    }
  }
  std::ranges::sort(list, [](const Candidate& a, const Candidate& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
  });
  return list;
}

double weigh(std::vector<Candidate>& list, float temperature) {
  double total = 0;
  for (Candidate& c : list) {
    exp_below({&c.logit, 1}, list.front().logit, temperature, &c.weight);
    total += static_cast<double>(c.weight);
  }
  return total;
}

double sum(const std::vector<Candidate>& list) {
  double total = 0;
  for (const Candidate& c : list) total += static_cast<double>(c.weight);
  return total;
}

// How many from the front on come to `least`; nothing where that is within `error`.
std::optional<std::size_t> count_up_to(const std::vector<Candidate>& list, double least,
                                       double error) {
  double taken = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    taken += static_cast<double>(list[i].weight);
    if (std::fabs(taken - least) <= error) return std::nullopt;
    if (taken > least) return i + 1;
  }
  return std::nullopt;
}

// The tokens that may be drawn, in the order in which the random number goes through them.
bool filter(std::vector<Candidate>& list, const Draw& draw, double total) {
  std::erase_if(list, [](const Candidate& c) { return !(c.weight > 0); });
  bool sorted = false;
  if (draw.top_k > 0 && static_cast<std::size_t>(draw.top_k) < list.size()) {
    list.resize(static_cast<std::size_t>(draw.top_k));
    total = sum(list);
    sorted = true;
  }
  if (draw.top_p < 1) {
    const auto count =
        count_up_to(list, static_cast<double>(draw.top_p) * total, kSumError * total);
    if (!count) return false;
    list.resize(*count);
    std::ranges::reverse(list);
  } else if (!sorted) {
    std::ranges::sort(list, {}, &Candidate::id);
  }
  std::erase_if(list, [&](const Candidate& c) { return c.weight < draw.min_p; });
  return true;
}

}  // namespace

Drawn draw_token(std::span<const float> logits, const Draw& draw) {
  if (std::ranges::any_of(logits, [](float x) { return !std::isfinite(x); })) return {.bad = 1};
  Drawn drawn;
  std::vector<Candidate> list = by_likelihood(logits, draw.banned);
  if (list.empty()) return drawn;
  const Candidate best = list.front();
  const double norm = static_cast<double>(best.logit) + std::log(weigh(list, 1));
  const auto choose = [&](const Candidate& c) {
    drawn.token = c.id;
    drawn.logprob = static_cast<float>(static_cast<double>(c.logit) - norm);
  };
  if (draw.temperature == 0) {
    choose(best);
    return drawn;
  }
  if (!filter(list, draw, weigh(list, draw.temperature))) return drawn;
  const double total = sum(list), wanted = draw.part * total, error = kSumError * total;
  double before = 0;
  for (const Candidate& c : list) {
    const double after = before + static_cast<double>(c.weight);
    if (after > wanted) {
      if (wanted - before > error && after - wanted > error) choose(c);
      return drawn;
    }
    before = after;
  }
  return drawn;
}

}  // namespace baltoro
