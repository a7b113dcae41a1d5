#include "measure/memory_bandwidth.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>

#include "core/buffer.h"
#include "core/parallel.h"

namespace baltoro {
namespace {

constexpr std::int64_t kBytes = std::int64_t{384} << 20;  // beyond any last-level cache
constexpr std::int64_t kGrain = std::int64_t{1} << 20;
constexpr int kPasses = 4;
constexpr std::chrono::milliseconds kEnough{500};  // no further pass after this, on a busy machine

// Independent sums keep many loads in flight.
std::uint64_t sum(const std::uint64_t* data, std::int64_t count) {
  std::array<std::uint64_t, 16> lane{};
  for (std::int64_t i = 0; i + 16 <= count; i += 16) {
    for (std::size_t j = 0; j < 16; ++j) lane[j] += data[i + static_cast<std::int64_t>(j)];
  }
  std::uint64_t total = 0;
  for (const std::uint64_t x : lane) total += x;
  return total;
}

}  // namespace

double measure_read_bandwidth(int num_threads) {
  using Clock = std::chrono::steady_clock;
  Buffer buffer(static_cast<std::size_t>(kBytes), "the memory bandwidth probe");
  std::memset(buffer.data(), 1, buffer.bytes());
  ThreadPool pool(num_threads);
  std::atomic<std::uint64_t> sink{0};
  double best = 0;
  const Clock::time_point first_pass = Clock::now();
  for (int pass = 0; pass < kPasses && (best == 0 || Clock::now() - first_pass < kEnough); ++pass) {
    const Clock::time_point start = Clock::now();
    pool.parallel_for(kBytes, kGrain, [&](std::int64_t begin, std::int64_t end, int) {
      const auto* data = static_cast<const std::byte*>(buffer.data()) + begin;
      sink += sum(reinterpret_cast<const std::uint64_t*>(data), (end - begin) / 8);
    });
    const std::chrono::duration<double> seconds = Clock::now() - start;
    best = std::max(best, static_cast<double>(kBytes) / seconds.count());
  }
  return best;
}

}  // namespace baltoro
