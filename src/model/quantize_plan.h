// What `quantize` does with each tensor of a checkpoint: from headers and configuration alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/checkpoint_files.h"
#include "io/safetensors_writer.h"
#include "model/config.h"
#include "model/config_quantization.h"
#include "model/tensor_inventory.h"

namespace baltoro {

enum class QuantizeAction : std::uint8_t { kCopy, kMxfp4, kMxint8 };

// "kept", "MXFP4", "MXINT8"
const char* action_name(QuantizeAction action);

struct QuantizeTargets {
  bool mxfp4_experts = true;  // matrices of the routed experts
  bool mxint8_trunk = false;  // TensorRole::kTrunkMatrix
};

struct PlannedTensor {
  std::uint32_t tensor = 0;  // index into CheckpointFiles::tensors()
  QuantizeAction action = QuantizeAction::kCopy;
  std::string component;  // component_name(), or "other" for a tensor that the model has no use for
};

// One output file for each source file, of the same name, its tensors in the same order.
struct PlannedShard {
  std::string file;
  std::vector<PlannedTensor> tensors;
  std::uint64_t bytes_in = 0;  // of tensors
  std::uint64_t bytes_out = 0;
};

struct QuantizePlan {
  std::vector<PlannedShard> shards;
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
  std::int64_t num_quantized = 0;
  Quantization result;  // what the output will hold, tensors that were packed before included
};

// Tensors that are packed already, and all that no target names, are copied. Throws Error{kUsage}
// where nothing would be quantised, Error{kBadModel} for an expert whose columns are no multiple of
// 32 or whose type is not BF16, F16 or F32.
QuantizePlan plan_quantization(const ModelConfig& config, const CheckpointFiles& files,
                               const QuantizeTargets& targets);

// The tensors that `planned` becomes: itself, or NAME.weight_packed and NAME.weight_scale.
std::vector<TensorToWrite> output_tensors(const TensorInfo& tensor, QuantizeAction action);

}  // namespace baltoro
