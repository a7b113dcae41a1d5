// From a checkpoint directory to the weights of the forward pass: finds each tensor by its released
// name, checks dtype and shape, and takes the part that the rank holds.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "baltoro/memory_plan.h"
#include "io/weight_store.h"
#include "model/config.h"
#include "model/memory_plan.h"
#include "model/weights.h"

namespace baltoro {

struct BindReport {
  std::vector<std::string> unused;  // tensors outside of the model's modules, such as draft layers
  std::int64_t num_vision = 0;      // vision tensors, known and skipped
};

struct BoundWeights {
  ModelWeights weights;
  BindReport report;
};

// Binds every tensor of `config`. Matrices are placed in the store: their bytes are there after
// store.load(). Vectors are read at once. The format of a matrix is decided by the tensors
// present: `weight`, or `weight_packed` (U8: MXFP4, I8: MXINT8) and `weight_scale`; conv weights may be [C, 1, W] or [C, W]; A_log
// [H], [1, 1, H, 1] or padded to [head_dim], its padding never read.
// With a partition: heads, FFN columns, routed experts and rows of lm_head are this rank's; router,
// latent pair, norms, embedding and the low-rank inputs are whole.
// Throws Error{kBadModel} that lists missing tensors (first 20 and the count) and tensors whose
// dtype or shape is not the expected one; Error{kUsage} where the partition does not divide the
// model.
BoundWeights bind(const ModelConfig& config, WeightStore& store, const Partition& partition = {});

struct LoadOptions {
  ConfigOptions config;
  LoadMode mode = LoadMode::kAuto;
  // All that the process may take; absent: default_memory_limit().
  std::optional<std::uint64_t> memory_limit = std::nullopt;
  // Of it, what the caller needs beside weights and the memory that the process already has.
  std::uint64_t working_bytes = 0;
  Partition partition;
  // From this layer on all but the routed experts goes to a device from the mapped files, with the
  // head, and from layer 0 on with the embedding: the plan is about the rest. Absent: nothing.
  std::optional<std::int64_t> first_device_layer = std::nullopt;
  LoadProgress progress;
};

struct LoadedModel {
  ModelConfig config;
  std::unique_ptr<WeightStore> store;  // owns what `weights` views
  ModelWeights weights;
  BindReport report;
  MemoryPlan plan;  // with parts left in the files, the weights want a MappedWeights
};

// The plan that load_model() would follow now.
MemoryPlan plan_memory(const CheckpointFiles& files, const ModelConfig& config,
                       const LoadOptions& options);

// The same with a configuration that was read before.
LoadedModel load_model(const std::filesystem::path& dir, ModelConfig config,
                       const LoadOptions& options);

// config.json and weights of a directory. Throws as load_config, plan_memory, WeightStore and bind
// do.
LoadedModel load_model(const std::filesystem::path& dir, const LoadOptions& options = {});

}  // namespace baltoro
