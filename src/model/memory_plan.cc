#include "model/memory_plan.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "core/error.h"
#include "model/tensor_names.h"

namespace baltoro {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

std::uint64_t sum(const std::vector<std::uint64_t>& values) {
  return std::accumulate(values.begin(), values.end(), std::uint64_t{0});
}

// Routed experts that must have room at the same time: those of one token at work, as many read
// ahead.
std::uint64_t expert_window(const WeightSizes& sizes) {
  const auto at_once = static_cast<std::uint64_t>(2 * sizes.experts_per_token);
  return std::min(sizes.experts, at_once * sizes.largest_expert);
}

// The trunk in memory at a time beside its first `resident` layers: the part at work and the next.
std::uint64_t stream_window(const WeightSizes& sizes, std::size_t resident, bool head_streamed) {
  const auto first = sizes.trunk.begin() + static_cast<std::ptrdiff_t>(resident);
  const std::uint64_t layer =
      first == sizes.trunk.end() ? 0 : *std::max_element(first, sizes.trunk.end());
  return layer + std::max(layer, head_streamed ? sizes.head : 0);
}

double expected_disk_bytes(const WeightSizes& sizes, const MemoryPlan& plan) {
  auto bytes = static_cast<double>(plan.streamed);
  if (plan.experts == 0) return bytes;
  const double chosen = static_cast<double>(plan.experts) *
                        static_cast<double>(sizes.experts_per_token) /
                        static_cast<double>(sizes.num_experts);
  const double cached = static_cast<double>(plan.expert_cache) / static_cast<double>(plan.experts);
  return bytes + chosen * (1 - cached);
}

[[noreturn]] void refuse(const std::string& where, std::uint64_t needed, std::uint64_t limit,
                         const std::string& remedy) {
  fail(ErrorCode::kDoesNotFit, "{}: {} bytes of memory are needed, the limit is {}; {}", where,
       needed, limit, remedy);
}

// Everything in the files but what `room` holds: the head first, which is the largest part, then
// layers from the first on.
void stream_trunk(const WeightSizes& sizes, std::uint64_t room, MemoryPlan& plan) {
  const std::uint64_t trunk = sum(sizes.trunk);
  for (const bool head_streamed : {false, true}) {
    std::uint64_t layers = trunk;
    for (std::size_t resident = sizes.trunk.size(); resident-- > 0;) {
      layers -= sizes.trunk[resident];
      const std::uint64_t kept = layers + (head_streamed ? 0 : sizes.head);
      const std::uint64_t window = stream_window(sizes, resident, head_streamed);
      if (kept + window > room) continue;
      plan.resident = kept;
      plan.streamed = trunk + sizes.head - kept;
      plan.stream_window = window;
      plan.streamed_layers = static_cast<std::int64_t>(sizes.trunk.size() - resident);
      plan.head_streamed = head_streamed;
      return;
    }
  }
  BALTORO_CHECK(false, "a trunk of {} bytes has no plan in {}", trunk, room);
}

// The layer of "….layers.7.…"; nothing for the tensors around the layers.
std::optional<std::size_t> layer_of(std::string_view name) {
  const std::size_t at = name.find("layers.");
  if (at == std::string_view::npos) return std::nullopt;
  std::size_t layer = 0;
  for (const char c : name.substr(at + std::string_view("layers.").size())) {
    if (c < '0' || c > '9') break;
    layer = 10 * layer + static_cast<std::size_t>(c - '0');
  }
  return layer;
}

bool is_embedding(std::string_view name) { return name.find("embed_tokens") != name.npos; }

}  // namespace

std::uint64_t WeightSizes::total() const { return embedding + head + sum(trunk) + experts; }

WeightSizes weight_sizes(const CheckpointFiles& files, const ModelConfig& config,
                         int partition_size) {
  WeightSizes sizes;
  sizes.trunk.resize(static_cast<std::size_t>(config.num_layers));
  sizes.num_experts = config.moe.num_experts;
  sizes.experts_per_token = config.moe.experts_per_token;
  // The binder refuses what is below 1.
  const auto share = static_cast<std::uint64_t>(std::max(1, partition_size));
  for (const TensorInfo& tensor : files.tensors()) {
    if (is_vision_tensor(tensor.name)) continue;
    const std::optional<std::size_t> layer = layer_of(tensor.name);
    if (layer && *layer >= sizes.trunk.size()) continue;  // draft layers are not run
    const std::uint64_t bytes = tensor.bytes / share;
    if (is_expert_tensor(tensor.name)) {
      sizes.experts += bytes;
    } else if (layer) {
      sizes.trunk[*layer] += bytes;
    } else if (is_embedding(tensor.name) && !config.tie_word_embeddings) {
      sizes.embedding += bytes;
    } else if (!config.tie_word_embeddings || !tensor.name.ends_with("lm_head.weight")) {
      // A tied head is the embedding; a copy of it beside is not used.
      sizes.head += bytes;
    }
  }
  const std::int64_t experts = config.num_layers_of(FfnKind::kMoe) * config.moe.num_experts;
  if (experts > 0)
    sizes.largest_expert = sizes.experts * share / static_cast<std::uint64_t>(experts);
  return sizes;
}

MemoryPlan plan_memory(const WeightSizes& sizes, const MemoryRequest& request,
                       const std::string& where) {
  MemoryPlan plan;
  plan.limit = request.limit;
  plan.working = request.working;
  plan.copies = request.mode != LoadMode::kMap;
  const std::uint64_t total = sizes.total();
  const std::uint64_t trunk = sizes.total() - sizes.experts;
  const std::uint64_t window = expert_window(sizes);
  plan.minimum = request.working + window + std::min(trunk, stream_window(sizes, 0, true));

  if (request.working + total <= request.limit) {
    plan.resident = total;
    return plan;
  }
  if (request.mode == LoadMode::kCopy) {
    refuse(where, request.working + total, request.limit,
           "use --load auto, which leaves in the files what does not fit");
  }
  if (plan.minimum > request.limit) {
    refuse(where, plan.minimum, request.limit,
           fmt::format("use --memory {}MiB or more", (plan.minimum + kMiB - 1) / kMiB));
  }
  const std::uint64_t room = request.limit - request.working;
  plan.experts = sizes.experts;
  plan.resident = trunk;
  if (trunk + window > room) stream_trunk(sizes, room - window, plan);
  plan.expert_cache = std::min(sizes.experts, room - plan.resident - plan.stream_window);
  plan.disk_bytes_per_token = expected_disk_bytes(sizes, plan);
  return plan;
}

std::function<bool(const TensorInfo&)> stays_in_file(const MemoryPlan& plan,
                                                     const ModelConfig& config) {
  const std::int64_t host_layers = config.num_layers - plan.device_layers;
  const auto first_mapped = static_cast<std::size_t>(host_layers - plan.streamed_layers);
  const bool on_device = plan.device_layers > 0;
  const bool embedding_mapped = plan.streamed > 0 || (on_device && host_layers == 0);
  const bool head_mapped = plan.head_streamed || on_device;
  return [=, copies = plan.copies, experts_mapped = plan.experts > 0,
          tied = config.tie_word_embeddings](const TensorInfo& tensor) {
    if (!copies) return true;
    if (is_expert_tensor(tensor.name)) return experts_mapped;
    if (const std::optional<std::size_t> layer = layer_of(tensor.name)) {
      return *layer >= first_mapped;
    }
    return is_embedding(tensor.name) && !tied ? embedding_mapped : head_mapped;
  };
}

}  // namespace baltoro
