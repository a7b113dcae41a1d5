// What parity cannot see of the dense products: bits that do not depend on other rows.
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "cuda/backend.h"
#include "cuda/gpu.h"
#include "ops/glu_mlp.h"
#include "ops/head.h"
#include "ops/linear.h"
#include "ops/parity/compare.h"
#include "ops/parity/memory.h"
#include "ops/reference/reference_backend.h"

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

// A gated MLP of a small shared expert, [inner, 256] and back.
std::vector<float> gated_row(Backend& backend, std::int64_t rows, std::int64_t inner) {
  constexpr std::int64_t kWidth = 256;
  OpMemory memory(backend);
  memory.align_weights();
  GluMlpArgs args;
  args.x = memory.input("x", random_values(3, "x", rows * kWidth, 1), kWidth);
  args.gate = memory.weight(3, "gate", WeightFormat::kBf16, inner, kWidth);
  args.up = memory.weight(3, "up", WeightFormat::kBf16, inner, kWidth);
  args.down = memory.weight(3, "down", WeightFormat::kBf16, kWidth, inner);
  args.activation = {ActivationKind::kSitu, 4, 25};
  args.out = memory.output("out", rows, kWidth);
  glu_mlp(backend, args);
  EXPECT_EQ(memory.damage().value_or(""), "");
  std::vector<float> out = memory.outputs()[0].values;
  out.resize(kWidth);
  return out;
}

TEST(CudaGatedProduct, FewOutputsAgreeWithTheReferenceAndAmongThemselves) {
  BALTORO_NEEDS_GPU();
  const auto reference = make_reference_backend(Activations::kBf16);
  const auto backend = make_cuda_backend({.deterministic = true});
  const Tolerance limit = op_tolerance("glu_mlp", Activations::kBf16);
  for (const std::int64_t inner : {72, 1024, 3000}) {
    const std::vector<float> alone = gated_row(*backend, 1, inner);
    const Agreement seen = compare_values(gated_row(*reference, 1, inner), alone);
    EXPECT_LE(seen.max_rel, limit.max_rel) << inner;
    EXPECT_GE(seen.cosine, limit.min_cosine) << inner;
    for (const std::int64_t rows : {8, 9, 65}) {
      EXPECT_EQ(gated_row(*backend, rows, inner), alone) << inner << ", " << rows << " rows";
    }
  }
}

TEST(CudaHead, MarksTheRowsWhoseLogitsAreNotAllFinite) {
  BALTORO_NEEDS_GPU();
  constexpr std::int64_t kRows = 20, kVocab = 40000;
  for (const Activations activations : {Activations::kBf16, Activations::kF32}) {
    const auto backend = make_cuda_backend({.activations = activations});
    OpMemory memory(*backend);
    std::vector<float> x = random_values(5, "x", kRows * 64, 1);
    x[3 * 64 + 5] = std::numeric_limits<float>::quiet_NaN();
    x[19 * 64] = std::numeric_limits<float>::infinity();
    const ConstTensorView view = memory.input("x", x, 64);
    const WeightView weight = memory.weight(5, "weight", WeightFormat::kBf16, kVocab, 64);
    for (const std::vector<std::int32_t>& rows :
         {std::vector<std::int32_t>{3}, {2}, {19, 0, 3, 3, 7}, {0, 1, 2}}) {
      std::vector<float> logits(rows.size() * static_cast<std::size_t>(kVocab));
      std::vector<std::int32_t> bad(rows.size(), 7), expected;
      for (const std::int32_t row : rows) expected.push_back(row == 3 || row == 19 ? 1 : 0);
      head(*backend,
           {.x = view, .rows = rows, .weight = weight, .logits = logits.data(), .bad = bad.data()});
      EXPECT_EQ(bad, expected);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, CudaProduct,
                         testing::Values(WeightFormat::kF32, WeightFormat::kBf16,
                                         WeightFormat::kF16, WeightFormat::kMxfp4,
                                         WeightFormat::kMxint8));

}  // namespace
}  // namespace baltoro
