// Owns the memory that weights live in. Binding asks for tensors and slices of them and gets their
// final addresses at once: in the mapped file, or in memory that load() then fills by parallel
// reads. Which is decided tensor by tensor (model/memory_plan.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "core/buffer.h"
#include "io/checkpoint_files.h"
#include "io/mapped_pages.h"

namespace baltoro {

// Part of a tensor of rank >= 1: rows of the first dimension and, within each row, a range of
// bytes.
struct TensorSlice {
  std::int64_t first_row = 0;
  std::int64_t num_rows = 0;
  std::int64_t first_byte = 0;
  std::int64_t num_bytes = 0;
};

// For WeightStoreOptions::maps.
inline bool map_all(const TensorInfo& /*tensor*/) { return true; }

struct WeightStoreOptions {
  // Which tensors are used where they lie in the file; null: all are copied.
  std::function<bool(const TensorInfo&)> maps;
  // For a limit that counts the page cache: files are read without read-ahead, and what was copied
  // does not stay cached.
  bool spare_page_cache = false;
  int read_threads = 8;
};

using LoadProgress = std::function<void(std::uint64_t bytes_done, std::uint64_t bytes_total)>;

// One thread at a time until load() has returned; immutable afterwards.
class WeightStore {
 public:
  // Reads no data.
  explicit WeightStore(CheckpointFiles files, WeightStoreOptions options = {});
  // Opens `path` (a directory or one .safetensors file) and throws as CheckpointFiles does.
  explicit WeightStore(const std::filesystem::path& path, WeightStoreOptions options = {})
      : WeightStore(CheckpointFiles(path), std::move(options)) {}

  const CheckpointFiles& files() const noexcept { return files_; }
  const TensorInfo* find(std::string_view name) const { return files_.find(name); }

  // Bytes of one row of the first dimension. Throws Error{kInternal} for a tensor without
  // dimensions.
  static std::int64_t row_bytes(const TensorInfo& tensor);

  // The address where the tensor or slice is, or will be after load(); slices are dense there. A
  // slice of whole rows of a mapped tensor is the file itself. Throws Error{kInternal} for a slice outside
  // of the tensor, Error{kOutOfMemory}.
  const std::byte* place(const TensorInfo& tensor);
  const std::byte* place(const TensorInfo& tensor, const TensorSlice& slice);

  // Fills what was placed, in order of file and offset. `progress` is called from one thread at a
  // time. Throws Error{kIo} when a read fails and Error{kBadModel} for a copied MXFP4 scale of 255
  // (NaN); the store must then be dropped.
  void load(const LoadProgress& progress = {});

  // Elements [begin, begin + count) of a tensor of BF16, F16 or F32, widened exactly. Works before
  // load(). Throws Error{kInternal} outside of the tensor or for another dtype, Error{kIo}.
  std::vector<float> read_f32(const TensorInfo& tensor, std::int64_t begin,
                              std::int64_t count) const;

  // Where in a mapped file bytes that were placed lie; nothing for copied ones.
  std::optional<FileRange> locate(const void* data, std::uint64_t bytes) const;

  // Bytes of owned memory that were placed, and bytes that are used through maps.
  std::uint64_t copied_bytes() const noexcept { return copied_bytes_; }
  std::uint64_t mapped_bytes() const noexcept { return mapped_bytes_; }

 private:
  // A run of rows to be read: `num_rows` pieces of `piece_bytes`, `stride` apart in the file, dense
  // at `into`.
  struct Job {
    std::uint32_t file = 0;
    std::uint64_t offset = 0;
    std::uint64_t num_rows = 0;
    std::uint64_t piece_bytes = 0;
    std::uint64_t stride = 0;
    std::byte* into = nullptr;
    const TensorInfo* scales = nullptr;  // where the bytes are MXFP4 scales: their tensor
  };

  std::byte* allocate(std::uint64_t bytes);
  void add_jobs(Job job);
  void run(const Job& job) const;

  CheckpointFiles files_;
  WeightStoreOptions options_;
  std::vector<Buffer> blocks_;
  std::uint64_t block_used_ = 0;
  std::vector<Job> jobs_;
  std::uint64_t copied_bytes_ = 0;
  std::uint64_t mapped_bytes_ = 0;
};

}  // namespace baltoro
