// The reference's gated MLA and its steps (specification 4).
#pragma once

#include <cstdint>
#include <span>

#include "ops/mla.h"
#include "ops/reference/rounding.h"

namespace baltoro::reference {

// Rotates adjacent pairs (2i, 2i+1) by the angle position * theta^(-2i / size), in place.
void rotate(std::span<double> side, std::int64_t position, double theta);

// Keys and values of one head, position by position. Strides count elements.
struct HeadCache {
  const double* keys;
  std::int64_t key_stride;
  const double* values;
  std::int64_t value_stride;
};

// softmax over positions j < count of query . key_j * scale, then the weighted sum of the values.
void attend(std::span<const double> query, const HeadCache& cache, std::int64_t count, double scale,
            std::span<double> out);

// Serves the sequences of one origin: kPrompt in the expanded form, kGenerated in the absorbed one.
void mla(const MlaArgs& args, Origin origin, Rounding round);

}  // namespace baltoro::reference
