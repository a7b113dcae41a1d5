#include "measure/memory_bandwidth.h"

#include <algorithm>
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
constexpr std::int64_t kStep = 512;  // bytes that one step of the reading loop takes
constexpr int kPasses = 4;
constexpr std::chrono::milliseconds kLeast{20};    // small buffers get more passes, so long
constexpr std::chrono::milliseconds kEnough{500};  // no further pass after this, on a busy machine

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

double measure_read_bandwidth(const std::optional<std::string>& isa, int num_threads,
                              std::int64_t bytes) {
  const MemoryLoops loops = cpu_memory_loops(isa);
  std::atomic<float> sink{0};
  return best_pass(num_threads, bytes, [&](const std::byte* data, std::int64_t size) {
    sink = loops.sum(reinterpret_cast<const float*>(data), size / kStep * (kStep / 4));
  });
}

double measure_update_bandwidth(const std::optional<std::string>& isa, int num_threads,
                                std::int64_t bytes) {
  const MemoryLoops loops = cpu_memory_loops(isa);
  return 2 * best_pass(num_threads, bytes, [&](std::byte* data, std::int64_t size) {
           loops.scale(reinterpret_cast<float*>(data), 1.0F, size / 4);
         });
}

}  // namespace baltoro
