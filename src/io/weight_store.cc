#include "io/weight_store.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <mutex>
#include <span>
#include <thread>

#include "core/dtype.h"
#include "core/error.h"

namespace baltoro {
namespace {

constexpr std::uint64_t kAlignment = 64;
// Memory is taken in blocks, so that half a million tensors do not become as many maps. Untouched
// pages of a block cost nothing.
constexpr std::uint64_t kBlockBytes = std::uint64_t{1} << 30;
// One read of a job: long enough for the disk, short enough to share the work.
constexpr std::uint64_t kJobBytes = std::uint64_t{8} << 20;

std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

// E8M0 has one NaN, the byte 255. A model with it computes NaN once that expert is chosen, which
// may be much later. The bytes are in the cache just after the read.
void check_scales(const CheckpointFiles& files, const TensorInfo& tensor, std::uint64_t offset,
                  std::span<const std::byte> scales) {
  const void* found = std::memchr(scales.data(), 255, scales.size());
  if (found == nullptr) return;
  const auto at = static_cast<std::uint64_t>(static_cast<const std::byte*>(found) - scales.data());
  fail(ErrorCode::kBadModel,
       "{}: tensor {}: the scale at offset {} is 255, which stands for NaN; fetch {} again",
       files.files()[tensor.file].path().string(), tensor.name, offset - tensor.offset + at,
       files.file_name(tensor));
}

}  // namespace

WeightStore::WeightStore(CheckpointFiles files, WeightStoreOptions options)
    : files_(std::move(files)), options_(std::move(options)) {
  if (!options_.spare_page_cache) return;
  for (const FileReader& file : files_.files()) read_exactly(file);
}

std::int64_t WeightStore::row_bytes(const TensorInfo& tensor) {
  BALTORO_CHECK(tensor.shape.rank >= 1, "{} has no rows", tensor.name);
  const std::int64_t rows = tensor.shape[0];
  return rows == 0 ? 0 : static_cast<std::int64_t>(tensor.bytes) / rows;
}

const std::byte* WeightStore::place(const TensorInfo& tensor) {
  return place(tensor, {0, tensor.shape[0], 0, row_bytes(tensor)});
}

const std::byte* WeightStore::place(const TensorInfo& tensor, const TensorSlice& slice) {
  const std::int64_t row = row_bytes(tensor);
  const bool inside = slice.first_row >= 0 && slice.num_rows >= 0 && slice.first_byte >= 0 &&
                      slice.num_bytes >= 0 && slice.num_rows <= tensor.shape[0] - slice.first_row &&
                      slice.num_bytes <= row - slice.first_byte;
  BALTORO_CHECK(inside, "slice rows {}+{}, bytes {}+{} of {}", slice.first_row, slice.num_rows,
                slice.first_byte, slice.num_bytes, tensor.name);
  const std::uint64_t offset =
      tensor.offset + static_cast<std::uint64_t>(slice.first_row * row + slice.first_byte);
  const auto bytes = static_cast<std::uint64_t>(slice.num_rows * slice.num_bytes);
  const bool whole_rows = slice.num_bytes == row;
  if (whole_rows && options_.maps && options_.maps(tensor)) {
    mapped_bytes_ += bytes;
    return files_.files()[tensor.file].map().data() + offset;
  }
  std::byte* into = allocate(bytes);
  const bool has_scales = tensor.dtype == DType::kU8 && tensor.name.ends_with(".weight_scale");
  Job job{tensor.file, offset, 1, bytes, 0, into, has_scales ? &tensor : nullptr};
  if (!whole_rows) {
    job.num_rows = static_cast<std::uint64_t>(slice.num_rows);
    job.piece_bytes = static_cast<std::uint64_t>(slice.num_bytes);
    job.stride = static_cast<std::uint64_t>(row);
  }
  add_jobs(job);
  return into;
}

std::byte* WeightStore::allocate(std::uint64_t bytes) {
  const std::uint64_t rounded = std::max(round_up(bytes, kAlignment), kAlignment);
  if (blocks_.empty() || rounded > blocks_.back().bytes() - block_used_) {
    const std::uint64_t rest =
        files_.total_bytes() + kAlignment * files_.tensors().size() - copied_bytes_;
    blocks_.emplace_back(std::max(rounded, std::min(kBlockBytes, rest)), "weights");
    block_used_ = 0;
  }
  auto* address = static_cast<std::byte*>(blocks_.back().data()) + block_used_;
  block_used_ += rounded;
  copied_bytes_ += bytes;
  return address;
}

void WeightStore::add_jobs(Job job) {
  if (job.num_rows > 1 || job.stride != 0) {
    const std::uint64_t rows =
        std::max<std::uint64_t>(1, kJobBytes / std::max<std::uint64_t>(1, job.stride));
    while (job.num_rows > 0) {
      Job part = job;
      part.num_rows = std::min(rows, job.num_rows);
      jobs_.push_back(part);
      job.num_rows -= part.num_rows;
      job.offset += part.num_rows * job.stride;
      job.into += part.num_rows * job.piece_bytes;
    }
    return;
  }
  while (job.piece_bytes > 0) {
    Job part = job;
    part.piece_bytes = std::min(kJobBytes, job.piece_bytes);
    jobs_.push_back(part);
    job.piece_bytes -= part.piece_bytes;
    job.offset += part.piece_bytes;
    job.into += part.piece_bytes;
  }
}

void WeightStore::run(const Job& job) const {
  const FileReader& file = files_.files()[job.file];
  if (job.stride == 0) {
    file.read(job.offset, {job.into, job.piece_bytes});
    if (job.scales != nullptr) {
      check_scales(files_, *job.scales, job.offset, {job.into, job.piece_bytes});
    }
    if (options_.spare_page_cache) drop_pages({&file, job.offset, job.piece_bytes});
    return;
  }
  // One read over the rows, gaps included, beats one a row: they are short.
  std::vector<std::byte> rows((job.num_rows - 1) * job.stride + job.piece_bytes);
  file.read(job.offset, rows);
  if (job.scales != nullptr) check_scales(files_, *job.scales, job.offset, rows);
  for (std::uint64_t i = 0; i < job.num_rows; ++i) {
    std::memcpy(job.into + i * job.piece_bytes, rows.data() + i * job.stride, job.piece_bytes);
  }
}

void WeightStore::load(const LoadProgress& progress) {
  std::sort(jobs_.begin(), jobs_.end(), [](const Job& a, const Job& b) {
    return a.file != b.file ? a.file < b.file : a.offset < b.offset;
  });
  std::uint64_t total = 0;
  for (const Job& job : jobs_) total += job.num_rows * job.piece_bytes;

  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::uint64_t done = 0;
  std::exception_ptr error;
  const auto work = [&] {
    for (;;) {
      const std::size_t i = next.fetch_add(1);
      if (i >= jobs_.size()) return;
      try {
        run(jobs_[i]);
        const std::lock_guard lock(mutex);
        done += jobs_[i].num_rows * jobs_[i].piece_bytes;
        if (progress) progress(done, total);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
        next.store(jobs_.size());
      }
    }
  };
  std::vector<std::jthread> team;
  const std::size_t helpers = std::min<std::size_t>(
      static_cast<std::size_t>(std::clamp(options_.read_threads, 1, 256)), total / kJobBytes + 1);
  for (std::size_t i = 1; i < helpers; ++i) team.emplace_back(work);
  work();
  team.clear();
  jobs_.clear();
  if (error) std::rethrow_exception(error);
}

std::optional<FileRange> WeightStore::locate(const void* data, std::uint64_t bytes) const {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  for (const FileReader& file : files_.files()) {
    const auto map = reinterpret_cast<std::uintptr_t>(file.mapped());
    if (map != 0 && address >= map && address - map < file.size()) {
      return FileRange{&file, address - map, bytes};
    }
  }
  return std::nullopt;
}

std::vector<float> WeightStore::read_f32(const TensorInfo& tensor, std::int64_t begin,
                                         std::int64_t count) const {
  const std::int64_t size = tensor.shape.count();
  BALTORO_CHECK(begin >= 0 && count >= 0 && begin <= size && count <= size - begin,
                "elements {}+{} of {}", begin, count, tensor.name);
  if (count == 0) return {};
  const std::size_t width = dtype_bytes(tensor.dtype);
  std::vector<std::byte> raw(static_cast<std::size_t>(count) * width);
  files_.files()[tensor.file].read(tensor.offset + static_cast<std::uint64_t>(begin) * width, raw);
  std::vector<float> values(static_cast<std::size_t>(count));
  if (tensor.dtype == DType::kF32) {
    std::memcpy(values.data(), raw.data(), raw.size());
    return values;
  }
  BALTORO_CHECK(tensor.dtype == DType::kBf16 || tensor.dtype == DType::kF16, "{} is {}",
                tensor.name, dtype_name(tensor.dtype));
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, raw.data() + 2 * i, 2);
    values[i] = tensor.dtype == DType::kBf16 ? bf16_to_f32(bits) : f16_to_f32(bits);
  }
  return values;
}

}  // namespace baltoro
