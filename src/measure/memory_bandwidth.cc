#include "measure/memory_bandwidth.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>

#include "core/buffer.h"
#include "core/parallel.h"
#include "cpu/peak.h"

namespace baltoro {
namespace {

constexpr std::int64_t kGrain = std::int64_t{1} << 20;
constexpr std::int64_t kStep = 128;  // bytes that one step of the loop reads
constexpr int kPasses = 4;
constexpr std::chrono::milliseconds kLeast{20};    // small buffers get more passes, so long
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

// Bytes of the buffer a second in which all threads visit its parts: the best of a few passes.
double best_pass(int num_threads, std::int64_t bytes,
                 const std::function<void(std::byte*, std::int64_t)>& visit) {
  using Clock = std::chrono::steady_clock;
  Buffer buffer(static_cast<std::size_t>(bytes), "the memory bandwidth probe");
  std::memset(buffer.data(), 1, buffer.bytes());
  ThreadPool pool(num_threads);
  const std::int64_t share = (bytes / num_threads + kStep) / kStep * kStep;
  const std::int64_t grain = std::min(kGrain, share);
  double best = 0;
  const Clock::time_point first_pass = Clock::now();
  const auto more = [&](int pass) {
    const Clock::duration passed = Clock::now() - first_pass;
    return pass == 0 || (pass < kPasses ? passed < kEnough : passed < kLeast);
  };
  for (int pass = 0; more(pass); ++pass) {
    const Clock::time_point start = Clock::now();
    pool.parallel_for(bytes, grain, [&](std::int64_t begin, std::int64_t end, int) {
      visit(static_cast<std::byte*>(buffer.data()) + begin, end - begin);
    });
    const std::chrono::duration<double> seconds = Clock::now() - start;
    best = std::max(best, static_cast<double>(bytes) / seconds.count());
  }
  return best;
}

}  // namespace

double measure_read_bandwidth(int num_threads, std::int64_t bytes) {
  std::atomic<std::uint64_t> sink{0};
  return best_pass(num_threads, bytes, [&](const std::byte* data, std::int64_t size) {
    sink += sum(reinterpret_cast<const std::uint64_t*>(data), size / 8);
  });
}

double measure_update_bandwidth(const std::optional<std::string>& isa, int num_threads,
                                std::int64_t bytes) {
  const UpdateLoop update = cpu_update_loop(isa);
  return 2 * best_pass(num_threads, bytes, [update](std::byte* data, std::int64_t size) {
           update(reinterpret_cast<float*>(data), 1.0F, size / 4);
         });
}

}  // namespace baltoro
