// The tensors of a checkpoint directory: one safetensors file, or shards named by
// model.safetensors.index.json. Opens the files and reads their headers; no tensor data.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "io/file_reader.h"
#include "io/safetensors.h"

namespace baltoro {

constexpr const char* kSafetensorsIndexName = "model.safetensors.index.json";

// What an earlier run left in `dir` would be read with or instead of new files: throws
// Error{kUsage} where there is a config.json, an index or a safetensors file.
void refuse_checkpoint(const std::filesystem::path& dir);

// True for the vision tower and its projector, which a text model skips.
constexpr bool is_vision_tensor(std::string_view name) {
  return name.starts_with("vision_tower.") || name.starts_with("mm_projector.");
}

// True for a matrix of a routed expert: read by the tokens that chose it, not by every token.
constexpr bool is_expert_tensor(std::string_view name) {
  return name.find(".experts.") != std::string_view::npos;
}

// The weight_map of an index: tensor name -> file name. `declared_bytes` is metadata.total_size, 0
// where absent.
struct SafetensorsIndex {
  std::unordered_map<std::string, std::uint32_t> file_of_tensor;  // index into `files`
  std::vector<std::string> files;                                 // sorted
  std::uint64_t declared_bytes = 0;
};

// Throws Error{kBadModel}: malformed JSON, no weight_map, a tensor named twice, a file name that is
// not a plain name inside the directory.
SafetensorsIndex parse_safetensors_index(std::string_view json, const std::string& where);

struct FileHole {
  std::uint32_t file = 0;
  DataHole hole;
};

// Immutable after construction; find() and the files' read() may be used by many threads.
class CheckpointFiles {
 public:
  // `path` is a directory or one .safetensors file. Throws Error{kBadModel} when files are missing
  // (the first 20 named) and when headers, index and files do not agree, Error{kIo} when a file
  // cannot be read.
  explicit CheckpointFiles(const std::filesystem::path& path);

  const std::vector<TensorInfo>& tensors() const noexcept { return tensors_; }
  // nullptr where there is none.
  const TensorInfo* find(std::string_view name) const;
  const std::vector<FileReader>& files() const noexcept { return files_; }
  std::vector<FileReader>& files() noexcept { return files_; }
  const std::vector<FileHole>& holes() const noexcept { return holes_; }
  // Of all tensors; equals the files' sizes less headers and holes.
  std::uint64_t total_bytes() const noexcept { return total_bytes_; }
  const std::filesystem::path& path() const noexcept { return path_; }
  // "model-00002-of-00096.safetensors" of a tensor, for messages.
  std::string file_name(const TensorInfo& tensor) const;

 private:
  void add_file(const std::filesystem::path& path);
  void build_lookup();
  void check_against(const SafetensorsIndex& index, const std::string& where) const;

  std::filesystem::path path_;
  std::vector<FileReader> files_;
  std::vector<TensorInfo> tensors_;
  std::unordered_map<std::string_view, std::uint32_t> by_name_;
  std::vector<FileHole> holes_;
  std::uint64_t total_bytes_ = 0;
};

}  // namespace baltoro
