#include "measure/memory_bandwidth.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

namespace baltoro {
namespace {

constexpr std::int64_t kGrain = std::int64_t{1} << 20;
constexpr std::int64_t kStep = 512;              // bytes that one step of the reading loop takes
constexpr std::chrono::milliseconds kLeast{10};  // of one measurement
constexpr int kMeasurements = 4;

}  // namespace

MemoryProbe::MemoryProbe(const std::optional<std::string>& isa, int num_threads)
    : loops_(cpu_memory_loops(isa)), pool_(num_threads) {}

template <typename Visit>
double MemoryProbe::passes(std::int64_t bytes, const Visit& visit) {
  using Clock = std::chrono::steady_clock;
  if (static_cast<std::int64_t>(buffer_.bytes()) < bytes) {
    buffer_ = Buffer(static_cast<std::size_t>(bytes), "the memory bandwidth probe");
    std::memset(buffer_.data(), 1, buffer_.bytes());
  }
  const std::int64_t share = (bytes / pool_.size() + kStep) / kStep * kStep;
  const auto pass = [&] {
    pool_.parallel_for(bytes, std::min(kGrain, share),
                       [&](std::int64_t begin, std::int64_t end, int) {
                         visit(static_cast<std::byte*>(buffer_.data()) + begin, end - begin);
                       });
  };
  pass();
  const Clock::time_point start = Clock::now();
  int count = 0;
  do {
    pass();
    ++count;
  } while (Clock::now() - start < kLeast);
  const std::chrono::duration<double> seconds = Clock::now() - start;
  return count * static_cast<double>(bytes) / seconds.count();
}

double MemoryProbe::read(std::int64_t bytes) {
  std::atomic<float> sink{0};
  return passes(bytes, [&](const std::byte* data, std::int64_t size) {
    sink = loops_.sum(reinterpret_cast<const float*>(data), size / kStep * (kStep / 4));
  });
}

double MemoryProbe::update(std::int64_t bytes) {
  return 2 * passes(bytes, [&](std::byte* data, std::int64_t size) {
           loops_.scale(reinterpret_cast<float*>(data), 1.0F, size / 4);
         });
}

double measure_read_bandwidth(const std::optional<std::string>& isa, int num_threads,
                              std::int64_t bytes) {
  MemoryProbe probe(isa, num_threads);
  double best = 0;
  for (int i = 0; i < kMeasurements; ++i) best = std::max(best, probe.read(bytes));
  return best;
}

double measure_update_bandwidth(const std::optional<std::string>& isa, int num_threads,
                                std::int64_t bytes) {
  MemoryProbe probe(isa, num_threads);
  double best = 0;
  for (int i = 0; i < kMeasurements; ++i) best = std::max(best, probe.update(bytes));
  return best;
}

}  // namespace baltoro
