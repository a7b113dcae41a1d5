// Decides which weights stay in memory: everything; or the trunk (what every token reads) beside a
// cache of routed experts; or as many layers of the trunk as fit, the others read in every pass.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "baltoro/memory_plan.h"
#include "baltoro/types.h"
#include "io/checkpoint_files.h"
#include "model/config.h"

namespace baltoro {

// Bytes of the parts of a model as its files hold them.
struct WeightSizes {
  std::uint64_t embedding = 0;
  std::uint64_t head = 0;            // with the final norm and mix
  std::vector<std::uint64_t> trunk;  // [L] layers without their routed experts
  std::uint64_t experts = 0;         // all routed experts of all layers
  std::uint64_t largest_expert = 0;
  std::int64_t num_experts = 0;  // a layer
  std::int64_t experts_per_token = 0;

  std::uint64_t total() const;
};

// The text model's share of a rank: one of `partition_size` equal parts.
WeightSizes weight_sizes(const CheckpointFiles& files, const ModelConfig& config,
                         int partition_size = 1);

struct MemoryRequest {
  LoadMode mode = LoadMode::kAuto;
  std::uint64_t limit = 0;
  std::uint64_t working = 0;  // see MemoryPlan
};

// kCopy keeps everything in memory or throws; kMap copies nothing. Throws Error{kDoesNotFit} with
// the number of bytes needed; `where` names the model.
MemoryPlan plan_memory(const WeightSizes& sizes, const MemoryRequest& request,
                       const std::string& where);

// Tells of a tensor whether the plan leaves it in its file, or takes it from there to a device.
std::function<bool(const TensorInfo&)> stays_in_file(const MemoryPlan& plan,
                                                     const ModelConfig& config);

}  // namespace baltoro
