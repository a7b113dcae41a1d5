// The router of a few rows at aligned addresses, one launch: choices and weights of the reference,
// for rows that are drawn, tied and damaged, call after call.
#include "ops/route.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "cuda/backend.h"
#include "cuda/gpu.h"
#include "ops/parity/memory.h"
#include "ops/reference/reference_backend.h"

namespace baltoro {
namespace {

struct RouterShape {
  std::int64_t rows, width, experts;
  int top_k;
};

std::ostream& operator<<(std::ostream& out, const RouterShape& shape) {
  return out << shape.rows << " rows of " << shape.width << ", " << shape.top_k << " of "
             << shape.experts;
}

struct Routed {
  std::vector<float> ids, weights;
};

enum class Content { kDrawn, kTied, kDamaged };

Routed run(Backend& backend, const RouterShape& shape, Content content) {
  OpMemory memory(backend);
  memory.align_weights();
  std::vector<float> x = random_values(4, "x", shape.rows * shape.width, 1);
  if (content == Content::kTied) std::fill(x.begin(), x.end(), 0.0f);
  if (content == Content::kDamaged) x.back() = std::numeric_limits<float>::quiet_NaN();
  // Of ties, the lower index: all scores are equal, and so are all biases.
  std::vector<float> bias = random_values(4, "bias", shape.experts, 0.1f);
  if (content == Content::kTied) std::fill(bias.begin(), bias.end(), 0.25f);
  const std::size_t chosen =
      static_cast<std::size_t>(shape.rows) * static_cast<std::size_t>(shape.top_k);
  RouteArgs args;
  args.x = memory.input("x", x, shape.width);
  args.weight = memory.weight(4, "weight", WeightFormat::kBf16, shape.experts, shape.width, 4);
  args.bias = memory.input_f32("bias", bias);
  args.top_k = shape.top_k;
  args.scale = 2.5f;
  args.ids = memory.state_i32("ids", std::vector<std::int32_t>(chosen, -7));
  args.weights = memory.state_f32("weights", std::vector<float>(chosen, -7));
  route(backend, args);
  EXPECT_EQ(memory.damage().value_or(""), "");
  const std::vector<OpOutput> outputs = memory.outputs();
  return {outputs.at(0).values, outputs.at(1).values};
}

class CudaRoute : public testing::TestWithParam<RouterShape> {};

TEST_P(CudaRoute, ChoosesAsTheReferenceDoes) {
  BALTORO_NEEDS_GPU();
  const auto reference = make_reference_backend(Activations::kBf16);
  const auto cuda = make_cuda_backend({});
  for (const Content content : {Content::kDrawn, Content::kTied, Content::kDrawn}) {
    const Routed expected = run(*reference, GetParam(), content);
    const Routed seen = run(*cuda, GetParam(), content);
    EXPECT_EQ(seen.ids, expected.ids);
    for (std::size_t i = 0; i < expected.weights.size(); ++i) {
      EXPECT_NEAR(seen.weights[i], expected.weights[i], 1e-5) << i;
    }
  }
}

TEST_P(CudaRoute, ADamagedRowHasNanWeightsAndTheOthersTheirs) {
  BALTORO_NEEDS_GPU();
  const auto cuda = make_cuda_backend({});
  const auto k = static_cast<std::size_t>(GetParam().top_k);
  const Routed whole = run(*cuda, GetParam(), Content::kDrawn);
  const Routed damaged = run(*cuda, GetParam(), Content::kDamaged);
  const std::size_t last = damaged.weights.size() - k;
  for (std::size_t i = 0; i < last; ++i) {
    EXPECT_EQ(damaged.ids[i], whole.ids[i]);
    EXPECT_EQ(damaged.weights[i], whole.weights[i]);
  }
  for (std::size_t i = 0; i < k; ++i) {
    EXPECT_EQ(damaged.ids[last + i], static_cast<float>(i));
    EXPECT_TRUE(std::isnan(damaged.weights[last + i]));
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaRoute,
                         testing::Values(RouterShape{1, 7168, 896, 16},
                                         RouterShape{1, 2304, 256, 8}, RouterShape{2, 2304, 256, 8},
                                         RouterShape{3, 1000, 1024, 32},
                                         RouterShape{4, 512, 17, 16}, RouterShape{1, 256, 16, 4},
                                         RouterShape{4, 7168, 896, 16}));

}  // namespace
}  // namespace baltoro
