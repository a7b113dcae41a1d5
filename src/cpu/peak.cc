#include "cpu/peak.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "core/parallel.h"
#include "cpu/dispatch.h"

namespace baltoro {
namespace {

constexpr int kPasses = 5;
constexpr std::int64_t kIterations = 1'000'000;  // 5 to 30 ms

double one_pass(const cpu::LeafTable& leaf, ThreadPool& pool, Activations activations) {
  using Clock = std::chrono::steady_clock;
  const auto peak = activations == Activations::kBf16 ? leaf.peak_bf16 : leaf.peak_f32;
  std::atomic<std::int64_t> flops{0};
  const Clock::time_point start = Clock::now();
  pool.parallel_for(pool.size(), 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      alignas(64) std::array<float, cpu::kPeakFloats> lanes;
      for (std::size_t j = 0; j < lanes.size(); ++j) {
        lanes[j] = 0.5f + 1e-4f * static_cast<float>(j);
      }
      flops += peak(kIterations, lanes.data());
    }
  });
  const std::chrono::duration<double> seconds = Clock::now() - start;
  return static_cast<double>(flops.load()) / seconds.count();
}

}  // namespace

double measure_cpu_peak(const std::optional<std::string>& isa, int num_threads,
                        Activations activations) {
  const cpu::LeafTable& leaf = cpu::pick_table(isa);
  ThreadPool pool(num_threads);
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    best = std::max(best, one_pass(leaf, pool, activations));
  }
  return best;
}

double cpu_peak_now(const std::optional<std::string>& isa, int num_threads,
                    Activations activations) {
  const cpu::LeafTable& leaf = cpu::pick_table(isa);
  ThreadPool pool(num_threads);
  pool.parallel_for(num_threads, 1,
                    [](std::int64_t, std::int64_t, int) {});  // threads have started
  return one_pass(leaf, pool, activations);
}

MemoryLoops cpu_memory_loops(const std::optional<std::string>& isa) {
  const cpu::LeafTable& leaf = cpu::pick_table(isa);
  return {leaf.sum, leaf.scale};
}

}  // namespace baltoro
