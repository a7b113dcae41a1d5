// Moves the weights of a model to a backend that does not use host memory.
#pragma once

#include <cstdint>
#include <vector>

#include "core/buffer.h"
#include "io/weight_store.h"
#include "model/weights.h"
#include "ops/backend.h"

namespace baltoro {

// Bytes that place_weights() will take of the backend, its alignment included.
std::uint64_t placed_bytes(ModelWeights& weights);

// Copies each matrix and vector once, layer by layer, and points the views to the copies (kRandom:
// matrices to random values, RandomFill, whatever they held); afterwards
// nothing refers to the memory that they came from. Matrices begin at multiples of 256 bytes.
// Returns the memory, which must outlive the weights. `progress` counts bytes of matrices.
enum class Contents : std::uint8_t { kCopied, kRandom };
std::vector<Buffer> place_weights(Backend& backend, ModelWeights& weights, Contents contents,
                                  const LoadProgress& progress);

}  // namespace baltoro
