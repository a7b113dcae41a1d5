// Moves the weights of a model to a backend that does not use host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/buffer.h"
#include "io/weight_store.h"
#include "model/staged_copy.h"
#include "model/weights.h"
#include "ops/backend.h"

namespace baltoro {

enum class Contents : std::uint8_t {
  kCopied,
  kRandom,  // matrices get random values (RandomFill), whatever they held
};

struct PlaceOptions {
  Contents contents = Contents::kCopied;
  bool experts = true;  // false: routed experts stay where they are
  // Layers before it stay where they are, and so does the embedding where it is not 0.
  std::size_t first_layer = 0;
  LoadProgress progress = {};
  // What owns the weights: those that it maps are read from its files (StagedCopy).
  const WeightStore* store = nullptr;
  std::size_t chunk_bytes = StagedCopy::kChunk;
};

// Bytes that place_weights() will take of the backend, its alignment included.
std::uint64_t placed_bytes(ModelWeights& weights, const PlaceOptions& options);

struct PlacedWeights {
  std::vector<Buffer> memory;  // must outlive the weights
  CopyTimes times;             // of matrices that were copied
};

// Copies each matrix and vector once, layer by layer, and points the views to the copies; afterwards
// nothing that was placed refers to the memory that it came from. Matrices begin at multiples of 256
// bytes. Throws as StagedCopy does.
PlacedWeights place_weights(Backend& backend, ModelWeights& weights, const PlaceOptions& options);

}  // namespace baltoro
