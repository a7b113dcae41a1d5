#include "measure/state_probe.h"

#include <algorithm>
#include <chrono>

#include "ops/linear.h"

namespace baltoro {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kRows = 64, kDepth = 1024, kOutputs = 256;

std::function<void()> linear_call(RotatingMemory& memory, std::int64_t rows, std::int64_t depth,
                                  std::int64_t outputs) {
  const TensorView x = memory.activations(rows, depth), out = memory.activations(rows, outputs);
  const WeightView weight = memory.weight(WeightFormat::kBf16, outputs, depth);
  return [&memory, x, out, weight] {
    LinearArgs args{.x = x};
    args.add(weight, out);
    linear(memory.backend(), args);
    memory.backend().synchronize();
  };
}

double seconds_of(const std::function<void()>& call, int calls) {
  for (int i = 0; i < calls / 10; ++i) call();
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < calls; ++i) call();
  return std::chrono::duration<double>(Clock::now() - start).count() / calls;
}

}  // namespace

StateProbe::StateProbe(Backend& backend) : fixed_(backend), stream_(backend) {
  fixed_.set_working_set(4 * kDepth * kOutputs);
  product_ = linear_call(fixed_, kRows, kDepth, kOutputs);
  // A tile of outputs for each thread.
  nothing_ = linear_call(fixed_, 1, 32, 32 * backend.num_threads());
}

double StateProbe::bandwidth(double working_set, double dispatch_seconds) {
  constexpr std::int64_t kDepthOfStream = 1024, kOutputsOfStream = 2048;
  constexpr std::int64_t kCallMib = 4;
  const auto mib = std::clamp<std::int64_t>(static_cast<std::int64_t>(working_set) / kMiB, kCallMib,
                                            kMemoryBytes / kMiB);
  stream_.set_working_set(mib * kMiB);
  const TensorView x = stream_.activations(1, kDepthOfStream);
  const TensorView out = stream_.activations(1, kOutputsOfStream);
  double bytes = 0;
  const auto call = [&] {
    LinearArgs args{.x = x};
    args.add(stream_.weight(WeightFormat::kBf16, kOutputsOfStream, kDepthOfStream), out);
    linear(stream_.backend(), args);
    stream_.backend().synchronize();
    bytes = static_cast<double>(args.outputs[0].weight.bytes());
  };
  // Once round to fill the caches with it, then at least as much again.
  for (std::int64_t i = 0; i < mib; i += kCallMib) call();
  const double seconds =
      seconds_of(call, static_cast<int>(std::max<std::int64_t>(mib / kCallMib, 50)));
  // Without the dispatch, which is up to a tenth of a call on a cache.
  return bytes / std::max(seconds - dispatch_seconds, seconds / 2);
}

plan::MachineState StateProbe::state(double working_set) {
  const double dispatch_seconds = seconds_of(nothing_, 1000);
  return {.bandwidth = bandwidth(working_set, dispatch_seconds),
          .flops_per_second = 2.0 * kRows * kDepth * kOutputs / seconds_of(product_, 30),
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
