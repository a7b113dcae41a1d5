// Working memory of the CPU ops: one shared region and one per worker. Both grow on first use of a
// size and are kept, so that a steady state allocates nothing. Content is left over from earlier
// ops; an op may read only what it wrote.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/buffer.h"

namespace baltoro::cpu {

// Hands out aligned pieces of a region, one after the other. With a null base it only measures.
class Carver {
 public:
  explicit Carver(std::byte* base) : base_(base) {}

  template <typename T>
  T* take(std::int64_t count) {
    const std::size_t at = used_;
    used_ += (static_cast<std::size_t>(count) * sizeof(T) + kAlign - 1) / kAlign * kAlign;
    return base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + at);
  }
  float* floats(std::int64_t count) { return take<float>(count); }
  std::size_t used() const { return used_; }

 private:
  static constexpr std::size_t kAlign = 64;
  std::byte* base_;
  std::size_t used_ = 0;
};

class Scratch {
 public:
  explicit Scratch(int num_workers) : num_workers_(static_cast<std::size_t>(num_workers)) {}

  // A Work has carve(Carver&), which takes its pieces; its sizes are set before. The pieces stay
  // valid until the next call.
  template <typename Work>
  void shared(Work& work) {
    carve(work, shared_, measure(work));
  }

  // Makes room for a Work for each worker; worker() then hands one out without growing, so that it
  // may be called from a parallel loop.
  template <typename Work>
  void reserve_workers(Work work) {
    worker_bytes_ = std::max(worker_bytes_, measure(work));
    if (workers_.bytes() < worker_bytes_ * num_workers_) {
      workers_ = Buffer(worker_bytes_ * num_workers_, "scratch of the CPU threads");
    }
  }
  template <typename Work>
  Work worker(Work work, int index) {
    auto* base = static_cast<std::byte*>(workers_.data());
    Carver carver(base + static_cast<std::size_t>(index) * worker_bytes_);
    work.carve(carver);
    return work;
  }

 private:
  template <typename Work>
  static std::size_t measure(Work work) {
    Carver carver(nullptr);
    work.carve(carver);
    // Whole pages: workers do not share one, and do not write into each other's cache lines.
    return (carver.used() + 4095) / 4096 * 4096;
  }
  template <typename Work>
  static void carve(Work& work, Buffer& buffer, std::size_t bytes) {
    if (buffer.bytes() < bytes) buffer = Buffer(bytes, "scratch of the CPU ops");
    Carver carver(static_cast<std::byte*>(buffer.data()));
    work.carve(carver);
  }

  std::size_t num_workers_;
  std::size_t worker_bytes_ = 0;
  Buffer shared_;
  Buffer workers_;
};

}  // namespace baltoro::cpu
