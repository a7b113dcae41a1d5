// The most likely of a row's tokens, in order, without sorting the others.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "baltoro/types.h"

namespace baltoro {

// Moves the `count` most likely tokens of `order` to its front, the most likely first; the lower id
// first among equals.
void sort_most_likely(std::vector<TokenId>& order, std::size_t count,
                      std::span<const float> logits);

// A row of logits with what the sampler made of it.
struct WeighedRow {
  std::span<const float> logits;   // [V]
  std::span<const float> weights;  // [V], exp((logit - max) / temperature), 0: not to be chosen
  float max = 0;                   // finite
  float temperature = 1;           // above 0
};

// The tokens whose weight is above `cutoff`, into `order`, ascending.
void list_above(const WeighedRow& row, float cutoff, std::vector<TokenId>& order);

// Keeps the smallest set of the most likely tokens of `order` whose weights, added from the most
// likely on, come to `least`, or all where they do not; the least likely is then the first.
void keep_top_p(const WeighedRow& row, double least, std::vector<TokenId>& order);

}  // namespace baltoro
