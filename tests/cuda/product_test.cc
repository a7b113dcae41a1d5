// What parity cannot see of the dense products: bits that do not depend on other rows.
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "cuda/backend.h"
#include "cuda/gpu.h"
#include "ops/linear.h"
#include "ops/parity/memory.h"

namespace baltoro {
namespace {

constexpr std::int64_t kCols = 1032;
constexpr std::int64_t kOutputs = 203;

// The output's first row where x has `rows` rows, of which the first is always the same.
std::vector<float> first_row(Backend& backend, WeightFormat format, std::int64_t rows, float last) {
  OpMemory memory(backend);
  memory.align_weights();
  const std::int64_t cols = format == WeightFormat::kBf16 ? kCols : 1024;
  std::vector<float> x = random_values(1, "x", rows * cols, 1);
  if (rows > 1) x.back() = last;
  LinearArgs args;
  args.x = memory.input("x", x, cols);
  args.add(memory.weight(2, "weight", format, kOutputs, cols),
           memory.output("out", rows, kOutputs));
  linear(backend, args);
  std::vector<float> out = memory.outputs()[0].values;
  out.resize(kOutputs);
  return out;
}

class CudaProduct : public testing::TestWithParam<WeightFormat> {};

TEST_P(CudaProduct, DeterministicBitsOfARowDoNotDependOnTheNumberOfRows) {
  BALTORO_NEEDS_GPU();
  for (const Activations activations : {Activations::kBf16, Activations::kF32}) {
    const auto backend = make_cuda_backend({.activations = activations, .deterministic = true});
    const std::vector<float> alone = first_row(*backend, GetParam(), 1, 0);
    for (const std::int64_t rows : {2, 8, 9, 17, 33, 64, 65, 200}) {
      EXPECT_EQ(first_row(*backend, GetParam(), rows, 0), alone) << rows << " rows";
    }
  }
}

TEST_P(CudaProduct, ANanInANeighbourChangesNoBit) {
  BALTORO_NEEDS_GPU();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const bool deterministic : {false, true}) {
    const auto backend = make_cuda_backend({.deterministic = deterministic});
    for (const std::int64_t rows : {2, 9, 64, 130}) {
      EXPECT_EQ(first_row(*backend, GetParam(), rows, nan),
                first_row(*backend, GetParam(), rows, 0))
          << rows << " rows";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, CudaProduct,
                         testing::Values(WeightFormat::kF32, WeightFormat::kBf16,
                                         WeightFormat::kF16, WeightFormat::kMxfp4,
                                         WeightFormat::kMxint8));

}  // namespace
}  // namespace baltoro
