#include "model/staged_copy.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "core/error.h"
#include "core/stopwatch.h"

namespace baltoro {
namespace {

// One read of a thread: long enough for the disk, short enough to share a chunk.
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;
// More do not read a page cache faster than a device takes it.
constexpr int kMostThreads = 16;

}  // namespace

StagedCopy::StagedCopy(Backend& backend, const WeightStore* store, std::uint64_t total,
                       std::function<void(std::uint64_t)> sent, std::size_t chunk_bytes)
    : backend_(backend),
      store_(store),
      sent_(std::move(sent)),
      chunk_bytes_(static_cast<std::size_t>(
          std::clamp<std::uint64_t>(total, std::uint64_t{1}, std::uint64_t{chunk_bytes}))),
      team_(std::min(kMostThreads, default_thread_count())) {
  for (Buffer& buffer : buffers_) {
    buffer = backend_.allocate_shared(chunk_bytes_, "weights on their way to the device");
  }
}

StagedCopy::~StagedCopy() {
  // After an error a chunk may still be read by the device.
  try {
    backend_.synchronize();
  } catch (const std::exception&) {
    // The first error is told.
  }
}

void StagedCopy::add(void* to, const void* from, std::size_t bytes, Bytes kind) {
  auto* target = static_cast<std::byte*>(to);
  const auto* source = static_cast<const std::byte*>(from);
  if (to_ != nullptr && (target < to_ + used_ || target >= to_ + chunk_bytes_)) flush();
  while (bytes > 0) {
    if (to_ == nullptr) to_ = target;
    const auto offset = static_cast<std::size_t>(target - to_);
    const std::size_t count = std::min({bytes, chunk_bytes_ - offset, kPieceBytes});
    pieces_.push_back({offset, source, count, kind});
    used_ = offset + count;
    target += count;
    source += count;
    bytes -= count;
    if (used_ == chunk_bytes_) flush();
  }
}

void StagedCopy::flush() {
  if (pieces_.empty()) return;
  auto* chunk = static_cast<std::byte*>(buffers_[open_].data());
  Stopwatch watch;
  fill(chunk);
  times_.filling += watch.lap();
  // The chunk ahead has arrived meanwhile, or is waited for: then its buffer is free.
  backend_.synchronize();
  times_.waiting += watch.lap();
  backend_.copy_in_order(to_, chunk, used_);
  open_ = 1 - open_;
  if (sent_) sent_(used_);
  pieces_.clear();
  to_ = nullptr;
  used_ = 0;
}

void StagedCopy::finish() {
  flush();
  Stopwatch watch;
  backend_.synchronize();
  times_.waiting += watch.lap();
}

void StagedCopy::fill(std::byte* chunk) {
  std::mutex mutex;
  std::exception_ptr error;
  const auto count = static_cast<std::int64_t>(pieces_.size());
  team_.parallel_for(count, 1, [&](std::int64_t begin, std::int64_t end, int /*worker*/) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Piece& piece = pieces_[static_cast<std::size_t>(i)];
      try {
        read(piece, chunk + piece.offset);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
      }
    }
  });
  if (error) std::rethrow_exception(error);
}

void StagedCopy::read(const Piece& piece, std::byte* into) const {
  const std::optional<FileRange> range =
      store_ != nullptr ? store_->locate(piece.from, piece.bytes) : std::nullopt;
  if (range) {
    range->file->read(range->offset, {into, piece.bytes});
  } else {
    std::memcpy(into, piece.from, piece.bytes);
  }
  if (piece.kind != Bytes::kE8m0Scales) return;
  const void* nan = std::memchr(into, 255, piece.bytes);
  if (nan == nullptr) return;
  const auto at = static_cast<std::uint64_t>(static_cast<const std::byte*>(nan) - into);
  fail(ErrorCode::kBadModel,
       "{}: the scale at byte {} is 255, which stands for NaN; fetch it again",
       range ? range->file->path().string() : "a weight", at + (range ? range->offset : 0));
}

}  // namespace baltoro
