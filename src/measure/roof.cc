#include "measure/roof.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <memory>

#include "cpu/peak.h"
#include "measure/disturbance.h"
#include "measure/memory_bandwidth.h"

namespace baltoro {
namespace {

constexpr std::int64_t kLeastBytes = std::int64_t{1} << 20;

// Sizes that share one measurement: three leading binary digits stay.
std::int64_t size_class(double bytes) {
  const auto size = static_cast<std::uint64_t>(
      std::clamp(bytes, static_cast<double>(kLeastBytes), static_cast<double>(kMemoryProbeBytes)));
  const int dropped = static_cast<int>(std::bit_width(size)) - 3;
  return static_cast<std::int64_t>(size >> dropped << dropped);
}

// A roof that was measured beside others would flatter what is held against it.
double best_of_attempts(const std::function<double()>& measure) {
  constexpr int kAttempts = 3;
  double best = 0;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const std::optional<CpuTimes> before = read_cpu_times();
    best = std::max(best, measure());
    const std::optional<CpuTimes> after = read_cpu_times();
    if (!before || !after || !disturbance_between(*before, *after).too_large()) break;
  }
  return best;
}

}  // namespace

const char* to_string(Bound bound) { return bound == Bound::kMemory ? "memory" : "arithmetic"; }

RoofProbes cpu_probes(const std::optional<std::string>& isa) {
  auto memory = std::make_shared<std::map<int, MemoryProbe>>();
  const auto probe = [isa, memory](int num_threads) -> MemoryProbe& {
    return memory->try_emplace(num_threads, isa, num_threads).first->second;
  };
  return {
      .peak =
          [isa](int num_threads, Activations products) {
            return best_of_attempts([&] { return measure_cpu_peak(isa, num_threads, products); });
          },
      .read_bandwidth =
          [isa](int num_threads, std::int64_t bytes) {
            return best_of_attempts(
                [&] { return measure_read_bandwidth(isa, num_threads, bytes); });
          },
      .update_bandwidth =
          [isa](int num_threads, std::int64_t bytes) {
            return best_of_attempts(
                [&] { return measure_update_bandwidth(isa, num_threads, bytes); });
          },
      .peak_now = [isa](int num_threads,
                        Activations products) { return cpu_peak_now(isa, num_threads, products); },
      .read_now = [probe](int num_threads,
                          std::int64_t bytes) { return probe(num_threads).read(bytes); },
      .update_now = [probe](int num_threads,
                            std::int64_t bytes) { return probe(num_threads).update(bytes); }};
}

double Roof::peak(int num_threads, Activations products) {
  double& peak = peak_[{num_threads, products}];
  if (peak == 0) peak = probes_.peak(num_threads, products);
  return peak;
}

double Roof::read_bandwidth(int num_threads, double bytes) {
  const std::int64_t size = size_class(bytes);
  double& bandwidth = read_[{num_threads, size}];
  if (bandwidth == 0) bandwidth = probes_.read_bandwidth(num_threads, size);
  return bandwidth;
}

double Roof::update_bandwidth(int num_threads, double bytes) {
  const std::int64_t size = size_class(bytes);
  double& bandwidth = update_[{num_threads, size}];
  if (bandwidth == 0) bandwidth = probes_.update_bandwidth(num_threads, size);
  return bandwidth;
}

Floor Roof::floor(int num_threads, const Work& work, Activations products) {
  double memory = (work.bytes - work.updated) / read_bandwidth(num_threads, work.bytes);
  if (work.updated > 0) {
    memory += work.updated / update_bandwidth(num_threads, work.updated / 2);
  }
  const double arithmetic = work.flops / peak(num_threads, products);
  if (memory >= arithmetic) return {memory, Bound::kMemory};
  return {arithmetic, Bound::kArithmetic};
}

std::function<double()> Roof::floor_now(int num_threads, const Work& work, Activations products,
                                        Bound bound) const {
  if (!probes_.read_now) return {};
  if (bound == Bound::kArithmetic) {
    return [=, this] { return work.flops / probes_.peak_now(num_threads, products); };
  }
  return [=, this] {
    double seconds =
        (work.bytes - work.updated) / probes_.read_now(num_threads, size_class(work.bytes));
    if (work.updated > 0) {
      seconds += work.updated / probes_.update_now(num_threads, size_class(work.updated / 2));
    }
    return seconds;
  };
}

}  // namespace baltoro
