// Loops over a row of logits, written so that a compiler makes vector code of them: with a
// vocabulary of 160,000 they are the sampler's time.
#pragma once

#include <span>

namespace baltoro {

bool has_nan(std::span<const float> row) noexcept;

// The largest of a row without NaN; -infinity of none.
float largest(std::span<const float> row) noexcept;

// weights[i] = exp((row[i] - max) / temperature) for row[i] <= max and finite max, with a relative
// error below 3e-7 down to exp(-70); from there it falls to 0 at exp(-87).
void exp_below(std::span<const float> row, float max, float temperature, float* weights) noexcept;

// In double, in eight interleaved parts.
double sum_of(std::span<const float> row) noexcept;

}  // namespace baltoro
