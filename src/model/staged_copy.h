// Files to the memory of a device, through two buffers that both reach: while the device takes one,
// threads fill the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "core/buffer.h"
#include "core/parallel.h"
#include "io/weight_store.h"
#include "ops/backend.h"

namespace baltoro {

// Seconds.
struct CopyTimes {
  double filling = 0;  // threads read a chunk from the files
  double waiting = 0;  // for the device to have taken one
};

// One thread at a time. Sources must stay as they are until flush() or finish() returns.
class StagedCopy {
 public:
  static constexpr std::size_t kChunk = std::size_t{32} << 20;

  // `store`: what of its maps is copied is read from the files instead, so that a failed read is an
  // error and not a signal; null: sources are memory. `total`: bytes to come, gaps included. `sent`
  // is told the bytes of each chunk once it is under way.
  StagedCopy(Backend& backend, const WeightStore* store, std::uint64_t total,
             std::function<void(std::uint64_t)> sent, std::size_t chunk_bytes = kChunk);
  ~StagedCopy();
  StagedCopy(const StagedCopy&) = delete;
  StagedCopy& operator=(const StagedCopy&) = delete;

  enum class Bytes : std::uint8_t {
    kAny,
    kE8m0Scales,  // 255 stands for NaN and is refused, as WeightStore::load() does
  };
  // Copies go together as long as `to` ascends; what lies between them is overwritten. Throws
  // Error{kIo} naming the file, Error{kBadModel} for a scale of 255, Error{kDevice}.
  void add(void* to, const void* from, std::size_t bytes, Bytes kind = Bytes::kAny);
  // All that was added is under way, and its sources may change.
  void flush();
  // All that was added has arrived.
  void finish();

  // Of flush() and finish() so far. A chunk is filled while the device takes the one before: where
  // the files are the slower side there is nothing to wait for.
  const CopyTimes& times() const noexcept { return times_; }

 private:
  // Part of the open chunk.
  struct Piece {
    std::size_t offset = 0;
    const std::byte* from = nullptr;
    std::size_t bytes = 0;
    Bytes kind = Bytes::kAny;
  };
  void fill(std::byte* chunk);
  void read(const Piece& piece, std::byte* into) const;

  Backend& backend_;
  const WeightStore* store_;
  std::function<void(std::uint64_t)> sent_;
  std::size_t chunk_bytes_;
  ThreadPool team_;
  Buffer buffers_[2];
  int open_ = 0;             // the buffer that is being filled
  std::byte* to_ = nullptr;  // where the open chunk goes
  std::size_t used_ = 0;
  std::vector<Piece> pieces_;
  CopyTimes times_;
};

}  // namespace baltoro
