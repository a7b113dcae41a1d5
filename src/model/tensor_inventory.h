// Every tensor that a checkpoint of a configuration has: name, dtype, shape, as released
// (specification 2.2, 2.5, 9). From the configuration alone; the loader checks files on its own.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/tensor_view.h"
#include "model/config.h"

namespace baltoro {

enum class Component : std::uint8_t {
  kEmbedding,
  kKda,
  kMla,
  kNorms,  // norms of the layers and of the end, AttnRes vectors
  kDenseFfn,
  kMoeFixed,  // router, latent pair and norm, shared experts
  kExperts,
  kHead,
  kVisionTower,
  kProjector,
};
constexpr int kNumComponents = 10;

const char* component_name(Component component);

// What the values stand for: how a random checkpoint draws them and how parameters are counted.
enum class TensorRole : std::uint8_t {
  kMatrix,
  kTrunkMatrix,  // one that an int8 trunk holds as MXINT8: of whole groups, read once a token
  kNorm,
  kResidualProj,  // [1, D] score vector of an AttnRes mix
  kConv,
  kALog,
  kDtBias,
  kRouterBias,
  kPackedCodes,   // MXFP4, two parameters a byte
  kPackedScales,  // no parameters
  kInt8Codes,     // MXINT8
  kInt8Scales,    // no parameters
};

struct TensorSpec {
  std::string name;
  DType dtype = DType::kBf16;
  Shape shape;
  Component component = Component::kEmbedding;
  TensorRole role = TensorRole::kMatrix;

  std::int64_t bytes() const {
    return shape.count() * static_cast<std::int64_t>(dtype_bytes(dtype));
  }
  std::int64_t parameters() const;
};

// The parts in file order: embedding, layers, end (final mix, norm and head), vision (empty
// without a VisionConfig). A layer's list ends with its experts [first_expert, end_expert).
std::vector<TensorSpec> embedding_tensors(const ModelConfig& config);
std::vector<TensorSpec> layer_tensors(const ModelConfig& config, std::int64_t layer_idx,
                                      std::int64_t first_expert, std::int64_t end_expert);
std::vector<TensorSpec> end_tensors(const ModelConfig& config);
std::vector<TensorSpec> vision_tensors(const ModelConfig& config);

// All of them, one layer in memory at a time.
void for_each_tensor(const ModelConfig& config,
                     const std::function<void(const TensorSpec&)>& visit);

}  // namespace baltoro
