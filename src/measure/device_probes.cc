#include "measure/device_probes.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>

#include "engine/make_backend.h"
#include "model/random_fill.h"
#include "ops/linear.h"

namespace baltoro {
namespace {

double best_seconds(Backend& backend, int repeats, const std::function<void()>& work) {
  double best = std::numeric_limits<double>::infinity();
  work();
  backend.synchronize();
  for (int i = 0; i < repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    backend.synchronize();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::min(best, seconds.count());
  }
  return best;
}

double copy_bandwidth(Backend& backend) {
  constexpr std::size_t kBytes = std::size_t{2} << 30;
  const Buffer from = backend.allocate(kBytes, "probe of the bandwidth");
  Buffer to = backend.allocate(kBytes, "probe of the bandwidth");
  const double seconds =
      best_seconds(backend, 10, [&] { backend.copy(to.data(), from.data(), kBytes); });
  return 2 * static_cast<double>(kBytes) / seconds;
}

double product_rate(Backend& backend) {
  constexpr std::int64_t kSize = 8192;
  constexpr int kCalls = 8;  // hides what one launch costs the host
  RandomFill random(backend);
  const DType dtype = backend.activation_dtype();
  const std::size_t bytes = static_cast<std::size_t>(kSize * kSize) * dtype_bytes(dtype);
  Buffer weight =
      backend.allocate(static_cast<std::size_t>(kSize * kSize) * 2, "probe of products");
  Buffer x = backend.allocate(bytes, "probe of products");
  Buffer out = backend.allocate(bytes, "probe of products");
  const WeightView w{weight.data(), nullptr, WeightFormat::kBf16, kSize, kSize};
  random.fill(w);
  const auto format = dtype == DType::kBf16 ? WeightFormat::kBf16 : WeightFormat::kF32;
  random.fill({x.data(), nullptr, format, kSize, kSize});
  LinearArgs args{.x = {x.data(), dtype, {kSize, kSize}}};
  args.add(w, {out.data(), dtype, {kSize, kSize}});
  const double seconds = best_seconds(backend, 5, [&] {
    for (int i = 0; i < kCalls; ++i) linear(backend, args);
  });
  return kCalls * 2.0 * kSize * kSize * kSize / seconds;
}

}  // namespace

RoofProbes device_probes(Backend& backend) {
  // Each is measured once: a device has one bandwidth, that of copies, and one peak.
  const auto bandwidth = [&backend, known = std::make_shared<double>(0)](int, std::int64_t) {
    if (*known == 0) *known = copy_bandwidth(backend);
    return *known;
  };
  return {.peak = [&backend](int, Activations) { return product_rate(backend); },
          .read_bandwidth = bandwidth,
          .update_bandwidth = bandwidth};
}

RoofProbes probes_of(const EngineOptions& options) {
  if (!options.device.starts_with("cuda")) return cpu_probes(options.isa);
  // Measured at once: the model will want all of the device's memory.
  const std::unique_ptr<Backend> backend = make_backend(options);
  const RoofProbes probes = device_probes(*backend);
  const double peak = probes.peak(1, options.activations);
  const auto bandwidth = [measured = probes.read_bandwidth(1, 0)](int, std::int64_t) {
    return measured;
  };
  return {.peak = [peak](int, Activations) { return peak; },
          .read_bandwidth = bandwidth,
          .update_bandwidth = bandwidth};
}

}  // namespace baltoro
