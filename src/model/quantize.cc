#include "model/quantize.h"

#include <algorithm>

#include "core/error.h"
#include "core/parallel.h"
#include "io/output_file.h"
#include "model/quantize_tensor.h"

namespace baltoro {
namespace {

namespace fs = std::filesystem;

fs::path require_directory(fs::path src) {
  if (!fs::is_directory(src)) {
    fail(ErrorCode::kBadModel, "{} is no directory; give a checkpoint's directory", src.string());
  }
  return src;
}

fs::path require_other(fs::path dst, const fs::path& src) {
  std::error_code ignored;
  if (fs::exists(dst) && !fs::is_directory(dst)) {
    fail(ErrorCode::kUsage, "{} is a file; give a directory to write", dst.string());
  }
  if (fs::equivalent(src, dst, ignored)) {
    fail(ErrorCode::kUsage, "{} is the source itself; give another directory", dst.string());
  }
  return dst;
}

// Weights in any format, and what is written anew.
bool is_replaced(const fs::path& name) {
  if (name == "config.json" || name == kSafetensorsIndexName) return true;
  constexpr const char* kWeights[] = {".safetensors", ".bin", ".pt", ".pth", ".gguf", ".partial"};
  return std::find(std::begin(kWeights), std::end(kWeights), name.extension().string()) !=
         std::end(kWeights);
}

}  // namespace

Quantizer::Quantizer(fs::path src, fs::path dst, const QuantizeTargets& targets)
    : src_(require_directory(std::move(src))),
      dst_(require_other(std::move(dst), src_)),
      targets_(targets),
      config_text_(read_config_text(find_config_file(src_))),
      files_(src_),
      plan_(plan_quantization(parse_config(config_text_, (src_ / "config.json").string()), files_,
                              targets_)),
      arguments_(quantize_arguments(config_text_, files_, targets_)),
      record_(dst_, arguments_) {}

std::uint64_t Quantizer::bytes_to_write() const {
  std::uint64_t bytes = 0;
  for (const PlannedShard& shard : plan_.shards) {
    if (!record_.claims(shard.file)) bytes += shard.bytes_out;
  }
  return bytes;
}

std::uint64_t Quantizer::bytes_free() const { return disk_space(dst_); }

void Quantizer::check_space() const { require_disk_space(dst_, bytes_to_write()); }

std::vector<QuantizedTensor> Quantizer::write_shard(const PlannedShard& shard,
                                                    TensorQuantizer& quantizer,
                                                    const QuantizeProgress& progress) {
  std::vector<TensorToWrite> outputs;
  for (const PlannedTensor& planned : shard.tensors) {
    for (TensorToWrite& output : output_tensors(files_.tensors()[planned.tensor], planned.action)) {
      outputs.push_back(std::move(output));
    }
  }
  SafetensorsWriter writer(dst_ / shard.file, outputs);
  std::vector<QuantizedTensor> quantized;
  for (const PlannedTensor& planned : shard.tensors) {
    const TensorInfo& tensor = files_.tensors()[planned.tensor];
    const auto read = [&](std::uint64_t done) {
      if (progress) progress(bytes_done_ + done, plan_.bytes_in);
    };
    const QuantizeError error = quantizer.write(files_, tensor, planned.action, writer, read);
    bytes_done_ += tensor.bytes;
    if (planned.action == QuantizeAction::kCopy) continue;
    std::uint64_t bytes_out = 0;
    for (const TensorToWrite& output : output_tensors(tensor, planned.action)) {
      bytes_out += output.bytes();
    }
    quantized.push_back({tensor.name, planned.component, planned.action, tensor.shape.count(),
                         tensor.bytes, bytes_out, error});
  }
  writer.finish();
  return quantized;
}

void Quantizer::write_index() const {
  if (!fs::exists(src_ / kSafetensorsIndexName)) return;
  std::string map;  // a document of half a million keys would take minutes
  for (const PlannedShard& shard : plan_.shards) {
    for (const PlannedTensor& planned : shard.tensors) {
      const TensorInfo& tensor = files_.tensors()[planned.tensor];
      for (const TensorToWrite& output : output_tensors(tensor, planned.action)) {
        map += fmt::format("{}\n    {}: {}", map.empty() ? "" : ",",
                           nlohmann::json(output.name).dump(), nlohmann::json(shard.file).dump());
      }
    }
  }
  write_text_file(
      dst_ / kSafetensorsIndexName,
      fmt::format("{{\n  \"metadata\": {{\"total_size\": {}}},\n  \"weight_map\": {{{}\n  }}\n}}\n",
                  plan_.bytes_out, map));
}

void Quantizer::copy_other_files() const {
  for (const auto& entry : fs::directory_iterator(src_)) {
    const fs::path name = entry.path().filename();
    if (!entry.is_regular_file() || is_replaced(name)) continue;
    std::error_code error;
    fs::copy_file(entry.path(), dst_ / name, fs::copy_options::overwrite_existing, error);
    if (error) fail(ErrorCode::kIo, "{}: cannot copy: {}", (dst_ / name).string(), error.message());
  }
}

QuantizeReport Quantizer::run(int num_threads, const QuantizeProgress& progress) {
  check_space();
  record_.begin();
  ThreadPool pool(num_threads > 0 ? num_threads : default_thread_count());
  TensorQuantizer quantizer(pool);
  QuantizeReport report;
  bytes_done_ = 0;
  for (const PlannedShard& shard : plan_.shards) {
    std::optional<std::vector<QuantizedTensor>> tensors = record_.finished(shard.file);
    if (tensors) {
      ++report.num_resumed;
      bytes_done_ += shard.bytes_in;
      if (progress) progress(bytes_done_, plan_.bytes_in);
    } else {
      tensors = write_shard(shard, quantizer, progress);
      record_.finish(shard.file, *tensors);
    }
    report.tensors.insert(report.tensors.end(), tensors->begin(), tensors->end());
  }
  if (quantize_arguments(config_text_, files_, targets_) != arguments_) {
    fail(ErrorCode::kIo, "{}: the files changed while they were read; begin again with an empty {}",
         src_.string(), dst_.string());
  }
  write_index();
  copy_other_files();
  write_text_file(dst_ / "config.json", with_quantization(config_text_, plan_.result));
  return report;
}

}  // namespace baltoro
