#include "measure/state_probe.h"

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

StateProbe::StateProbe(Backend& backend) : memory_(backend) {
  memory_.set_working_set(4 * kDepth * kOutputs);
  product_ = linear_call(memory_, kRows, kDepth, kOutputs);
  // A tile of outputs for each thread.
  nothing_ = linear_call(memory_, 1, 32, 32 * backend.num_threads());
}

double StateProbe::flops_per_second() {
  return 2.0 * kRows * kDepth * kOutputs / seconds_of(product_, 30);
}

double StateProbe::dispatch_seconds() { return seconds_of(nothing_, 1000); }

}  // namespace baltoro
