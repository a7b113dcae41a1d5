#include "model/quantize_plan.h"

#include <string_view>
#include <unordered_map>

#include "core/e8m0.h"
#include "core/error.h"
#include "model/tensor_names.h"

namespace baltoro {
namespace {

constexpr std::string_view kWeight = ".weight";
constexpr std::string_view kPacked = ".weight_packed";

std::string_view without_prefix(std::string_view name) {
  if (name.starts_with(kTextPrefix)) name.remove_prefix(kTextPrefix.size());
  return name;
}

// "model.layers.3.self_attn.q_proj" of its weight, its codes or its scales; other names as they are.
std::string_view module_of(std::string_view name) {
  for (const std::string_view suffix : {std::string_view(".weight_scale"), kPacked, kWeight}) {
    if (name.ends_with(suffix)) return name.substr(0, name.size() - suffix.size());
  }
  return name;
}

struct Module {
  Component component;
  TensorRole role;
};

class Planner {
 public:
  Planner(const ModelConfig& config, const CheckpointFiles& files, const QuantizeTargets& targets)
      : files_(files), targets_(targets) {
    for_each_tensor(config, [this](const TensorSpec& spec) {
      modules_.try_emplace(std::string(module_of(without_prefix(spec.name))),
                           Module{spec.component, spec.role});
    });
  }

  QuantizePlan plan() {
    QuantizePlan plan;
    for (const FileReader& file : files_.files()) {
      plan.shards.push_back({file.path().filename().string(), {}, 0, 0});
    }
    const std::vector<TensorInfo>& tensors = files_.tensors();
    for (std::uint32_t i = 0; i < tensors.size(); ++i) {
      PlannedShard& shard = plan.shards[tensors[i].file];
      shard.tensors.push_back(planned(tensors[i], i));
      const QuantizeAction action = shard.tensors.back().action;
      shard.bytes_in += tensors[i].bytes;
      for (const TensorToWrite& out : output_tensors(tensors[i], action)) {
        shard.bytes_out += out.bytes();
      }
      plan.num_quantized += action != QuantizeAction::kCopy;
      note(tensors[i], action, plan.result);
    }
    for (const PlannedShard& shard : plan.shards) {
      plan.bytes_in += shard.bytes_in;
      plan.bytes_out += shard.bytes_out;
    }
    return plan;
  }

 private:
  PlannedTensor planned(const TensorInfo& tensor, std::uint32_t index) const {
    PlannedTensor out{index, QuantizeAction::kCopy, "other"};
    const auto found = modules_.find(std::string(module_of(without_prefix(tensor.name))));
    if (found == modules_.end()) return out;
    const Module module = found->second;
    out.component = component_name(module.component);
    if (!tensor.name.ends_with(kWeight)) return out;
    if (module.component == Component::kExperts && targets_.mxfp4_experts) {
      check_expert(tensor);
      out.action = QuantizeAction::kMxfp4;
    } else if (module.role == TensorRole::kTrunkMatrix && targets_.mxint8_trunk &&
               why_not(tensor).empty()) {
      out.action = QuantizeAction::kMxint8;
    }
    return out;
  }

  // Why a matrix cannot be quantised; empty where it can.
  static std::string why_not(const TensorInfo& tensor) {
    if (tensor.dtype != DType::kBf16 && tensor.dtype != DType::kF16 &&
        tensor.dtype != DType::kF32) {
      return fmt::format("it is {}; BF16, F16 or F32 is needed", dtype_name(tensor.dtype));
    }
    if (tensor.shape.rank != 2) return "it is no matrix";
    if (tensor.shape[1] % kMxGroup == 0) return {};
    return fmt::format("{} columns are no multiple of the group of {}", tensor.shape[1], kMxGroup);
  }

  void check_expert(const TensorInfo& tensor) const {
    const std::string reason = why_not(tensor);
    if (reason.empty()) return;
    fail(ErrorCode::kBadModel, "{}: {} cannot become MXFP4: {}; use --experts keep",
         files_.path().string(), tensor.name, reason);
  }

  static void note(const TensorInfo& tensor, QuantizeAction action, Quantization& result) {
    const bool packed = tensor.name.ends_with(kPacked);
    if (action == QuantizeAction::kMxfp4 || (packed && tensor.dtype == DType::kU8)) {
      result.mxfp4_experts = true;
    }
    if (action == QuantizeAction::kMxint8 || (packed && tensor.dtype == DType::kI8)) {
      result.mxint8_trunk = true;
    }
  }

  const CheckpointFiles& files_;
  const QuantizeTargets& targets_;
  std::unordered_map<std::string, Module> modules_;
};

}  // namespace

const char* action_name(QuantizeAction action) {
  switch (action) {
    case QuantizeAction::kCopy:
      return "kept";
    case QuantizeAction::kMxfp4:
      return "MXFP4";
    case QuantizeAction::kMxint8:
      return "MXINT8";
  }
  return "?";
}

QuantizePlan plan_quantization(const ModelConfig& config, const CheckpointFiles& files,
                               const QuantizeTargets& targets) {
  QuantizePlan plan = Planner(config, files, targets).plan();
  if (plan.num_quantized == 0) {
    fail(ErrorCode::kUsage,
         "{}: nothing to quantise: {}; baltoro inspect shows the formats that it holds",
         files.path().string(),
         targets.mxint8_trunk ? "no matrix that the options name is BF16, F16 or F32"
                              : "no routed expert is BF16, F16 or F32 (--trunk int8 takes the "
                                "other large matrices)");
  }
  return plan;
}

std::vector<TensorToWrite> output_tensors(const TensorInfo& tensor, QuantizeAction action) {
  if (action == QuantizeAction::kCopy) return {{tensor.name, tensor.dtype, tensor.shape}};
  const std::string_view stem = module_of(tensor.name);
  const std::int64_t rows = tensor.shape[0];
  const std::int64_t cols = tensor.shape[1];
  const bool is_int8 = action == QuantizeAction::kMxint8;
  return {{fmt::format("{}{}", stem, kPacked),
           is_int8 ? DType::kI8 : DType::kU8,
           {rows, is_int8 ? cols : cols / 2}},
          {fmt::format("{}.weight_scale", stem), DType::kU8, {rows, cols / kMxGroup}}};
}

}  // namespace baltoro
