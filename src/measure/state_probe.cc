#include "measure/state_probe.h"

#include <algorithm>
#include <chrono>

#include "ops/linear.h"

namespace baltoro {
namespace {

using Clock = std::chrono::steady_clock;

// Shapes of the probes. A device needs larger ones to be seen behind its launches.
struct Shapes {
  std::int64_t rows, depth, outputs;  // of the product
  int product_calls;
  std::int64_t stream_outputs;  // of one call of the stream, of kStreamDepth columns
  int nothing_calls;
};
constexpr std::int64_t kStreamDepth = 1024;
constexpr Shapes kOnHost{64, 1024, 256, 30, 2048, 1000}, kOnDevice{4096, 4096, 4096, 3, 8192, 200};

const Shapes& shapes_of(const Backend& backend) {
  return backend.uses_host_memory() ? kOnHost : kOnDevice;
}

std::function<void()> linear_call(RotatingMemory& memory, std::int64_t rows, std::int64_t depth,
                                  std::int64_t outputs) {
  const TensorView x = memory.activations(rows, depth), out = memory.activations(rows, outputs);
  const WeightView weight = memory.weight(WeightFormat::kBf16, outputs, depth);
  return [&memory, x, out, weight] {
    LinearArgs args{.x = x};
    args.add(weight, out);
    linear(memory.backend(), args);
  };
}

// A host computes while it is called; of a device the calls make one recorded pass.
double seconds_of(const RotatingMemory& memory, const std::function<void()>& call, int calls) {
  Backend& backend = memory.backend();
  const std::function<void()> body = [&] {
    for (int i = 0; i < calls; ++i) call();
  };
  if (backend.uses_host_memory()) {
    for (int i = 0; i < calls / 10; ++i) call();
  } else {
    backend.allocate(1, "the end of earlier records");
    for (int i = 0; i < 2; ++i) backend.run_pass(memory.batch(), body);
  }
  backend.synchronize();
  const Clock::time_point start = Clock::now();
  backend.run_pass(memory.batch(), body);
  backend.synchronize();
  return std::chrono::duration<double>(Clock::now() - start).count() / calls;
}

}  // namespace

StateProbe::StateProbe(Backend& backend) : fixed_(backend), stream_(backend) {
  const Shapes& shapes = shapes_of(backend);
  fixed_.set_working_set(4 * shapes.depth * shapes.outputs);
  product_ = linear_call(fixed_, shapes.rows, shapes.depth, shapes.outputs);
  // A tile of outputs for each thread.
  nothing_ = linear_call(fixed_, 1, 32, 32 * backend.num_threads());
}

double StateProbe::bandwidth(double working_set, double dispatch_seconds) {
  const std::int64_t outputs = shapes_of(stream_.backend()).stream_outputs;
  const std::int64_t call_mib = 2 * outputs * kStreamDepth / kMiB;
  const auto mib = std::clamp<std::int64_t>(static_cast<std::int64_t>(working_set) / kMiB, call_mib,
                                            kMemoryBytes / kMiB);
  stream_.set_working_set(mib * kMiB);
  const TensorView x = stream_.activations(1, kStreamDepth);
  const TensorView out = stream_.activations(1, outputs);
  double bytes = 0;
  const auto call = [&] {
    LinearArgs args{.x = x};
    args.add(stream_.weight(WeightFormat::kBf16, outputs, kStreamDepth), out);
    linear(stream_.backend(), args);
    bytes = static_cast<double>(args.outputs[0].weight.bytes());
  };
  // Once round to fill the caches with it, then at least as much again.
  for (std::int64_t i = 0; i < mib; i += call_mib) call();
  const double seconds =
      seconds_of(stream_, call, static_cast<int>(std::max<std::int64_t>(mib / call_mib, 50)));
  // Without the dispatch, which is up to a tenth of a call on a cache.
  return bytes / std::max(seconds - dispatch_seconds, seconds / 2);
}

plan::MachineState StateProbe::state(double working_set) {
  const Shapes& shapes = shapes_of(fixed_.backend());
  const double dispatch_seconds = seconds_of(fixed_, nothing_, shapes.nothing_calls);
  const double product = seconds_of(fixed_, product_, shapes.product_calls);
  const auto flops = static_cast<double>(2 * shapes.rows * shapes.depth * shapes.outputs);
  return {.bandwidth = bandwidth(working_set, dispatch_seconds),
          .flops_per_second = flops / product,
          .dispatch_seconds = dispatch_seconds};
}

bool states_differ(const plan::MachineState& a, const plan::MachineState& b) {
  constexpr double kMost = 1.25;
  const auto differ = [](double x, double y) { return x > kMost * y || y > kMost * x; };
  return differ(a.bandwidth, b.bandwidth) || differ(a.flops_per_second, b.flops_per_second) ||
         differ(a.dispatch_seconds, b.dispatch_seconds);
}

plan::MachineState mean(const std::vector<plan::MachineState>& states) {
  plan::MachineState mean;
  const auto count = static_cast<double>(states.size());
  for (const plan::MachineState& state : states) {
    mean.bandwidth += state.bandwidth / count;
    mean.flops_per_second += state.flops_per_second / count;
    mean.dispatch_seconds += state.dispatch_seconds / count;
  }
  return mean;
}

}  // namespace baltoro
