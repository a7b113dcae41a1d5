#include "model/synth.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/error.h"
#include "io/checkpoint_files.h"
#include "io/output_file.h"
#include "io/safetensors_writer.h"
#include "model/config.h"
#include "model/model_stats.h"
#include "model/synth_tokenizer.h"
#include "model/synth_values.h"
#include "model/tensor_inventory.h"

namespace baltoro {
namespace {

// A multiple of every element size, small enough for the second-level cache.
constexpr std::uint64_t kBlockBytes = std::uint64_t{1} << 18;

bool is_matrix(TensorRole role) {
  switch (role) {
    case TensorRole::kMatrix:
    case TensorRole::kTrunkMatrix:
    case TensorRole::kPackedCodes:
    case TensorRole::kPackedScales:
    case TensorRole::kInt8Codes:
    case TensorRole::kInt8Scales:
      return true;
    default:
      return false;
  }
}

// Writes the shards one after the other. A group is the embedding (0), a layer (1 + its index), or
// the end of the model.
class ShardWriter {
 public:
  ShardWriter(const ModelConfig& config, std::filesystem::path out, const SynthOptions& options)
      : config_(config), out_(std::move(out)), options_(options) {
    const ModelStats stats = compute_model_stats(config);
    total_bytes_ =
        static_cast<std::uint64_t>(stats.total_bytes - stats[Component::kVisionTower].bytes -
                                   stats[Component::kProjector].bytes);
  }

  // Throws Error{kDoesNotFit} unless the weights fit on the disk.
  void check_space() const { require_disk_space(out_, total_bytes_); }

  SynthReport write() {
    const std::int64_t num_groups = config_.num_layers + 2;
    std::int64_t group = 0;
    for (int shard = 0; shard < options_.num_shards; ++shard) {
      std::vector<TensorSpec> tensors;
      for (; group < num_groups && group * options_.num_shards / num_groups == shard; ++group) {
        const std::vector<TensorSpec> part = group_tensors(group);
        tensors.insert(tensors.end(), part.begin(), part.end());
      }
      write_shard(shard_name(shard), tensors);
    }
    if (options_.num_shards > 1) write_index();
    return report_;
  }

 private:
  std::vector<TensorSpec> group_tensors(std::int64_t group) const {
    if (group == 0) return embedding_tensors(config_);
    if (group > config_.num_layers) return end_tensors(config_);
    return layer_tensors(config_, group - 1, 0, config_.moe.num_experts);
  }

  std::string shard_name(int shard) const {
    if (options_.num_shards == 1) return "model.safetensors";
    return fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, options_.num_shards);
  }

  void write_shard(const std::string& name, const std::vector<TensorSpec>& tensors) {
    std::vector<TensorToWrite> header;
    header.reserve(tensors.size());
    for (const TensorSpec& tensor : tensors) {
      header.push_back({tensor.name, tensor.dtype, tensor.shape});
      weight_map_ += fmt::format("{}\n    {}: \"{}\"", weight_map_.empty() ? "" : ",",
                                 nlohmann::json(tensor.name).dump(), name);
    }
    SafetensorsWriter writer(out_ / name, header);
    for (const TensorSpec& tensor : tensors) write_tensor(writer, tensor);
    writer.finish();
  }

  void write_tensor(SafetensorsWriter& writer, const TensorSpec& tensor) {
    const auto bytes = static_cast<std::uint64_t>(tensor.bytes());
    if (options_.hollow && is_matrix(tensor.role)) {
      writer.skip(bytes);
    } else {
      write_values(writer, tensor, bytes);
    }
    ++report_.num_tensors;
    report_.bytes += bytes;
    if (options_.progress) options_.progress(report_.bytes, total_bytes_);
  }

  void write_values(SafetensorsWriter& writer, const TensorSpec& tensor, std::uint64_t bytes) {
    const TensorDraw draw(config_, tensor, options_.seed);
    for (std::uint64_t at = 0; at < bytes; at += kBlockBytes) {
      block_.resize(std::min(kBlockBytes, bytes - at));
      draw.fill(at, block_);
      writer.write(block_);
    }
  }

  void write_index() const {
    write_text_file(
        out_ / kSafetensorsIndexName,
        fmt::format("{{\n  \"metadata\": {{\"total_size\": {}}},\n  \"weight_map\": {{{}\n  "
                    "}}\n}}\n",
                    report_.bytes, weight_map_));
  }

  const ModelConfig& config_;
  std::filesystem::path out_;
  const SynthOptions& options_;
  std::uint64_t total_bytes_ = 0;
  std::vector<std::byte> block_;
  std::string weight_map_;
  SynthReport report_;
};

}  // namespace

SynthReport synthesize(const std::filesystem::path& config, const std::filesystem::path& out,
                       const SynthOptions& options) {
  const std::filesystem::path file = find_config_file(config);
  const std::string text = read_config_text(file);
  const ModelConfig parsed = parse_config(text, file.string());
  if (options.num_shards < 1 || options.num_shards > parsed.num_layers + 2) {
    fail(ErrorCode::kUsage, "shards: {} is out of range; the rule is 1 to {} (layers + 2)",
         options.num_shards, parsed.num_layers + 2);
  }
  std::error_code error;
  std::filesystem::create_directories(out, error);
  if (error) fail(ErrorCode::kIo, "{}: cannot create: {}", out.string(), error.message());
  refuse_checkpoint(out);
  ShardWriter writer(parsed, out, options);
  if (!options.hollow) writer.check_space();
  SynthReport report = writer.write();
  report.has_tokenizer = options.write_tokenizer && write_synth_tokenizer(parsed, out);
  // Last, so that what a full disk cuts short is no model.
  write_text_file(out / "config.json", text);
  return report;
}

}  // namespace baltoro
