// MLA on the CPU: long caches, one form against the other, and later tokens that must not reach
// earlier rows.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "cpu/sequence_problems.h"
#include "ops/reference/reference_backend.h"

namespace baltoro {
namespace {

using namespace testing_cpu;

MlaShape latent_shape() {
  MlaShape shape;
  shape.kind = MlaKind::kLatent;
  shape.num_heads = 3;
  shape.nope_dim = 12;
  shape.rope_dim = 6;
  shape.v_head_dim = 10;
  shape.kv_rank = 20;
  return shape;
}

std::vector<std::int32_t> page_list(std::int64_t positions) {
  std::vector<std::int32_t> pages(
      static_cast<std::size_t>((positions + kBlockTokens - 1) / kBlockTokens));
  std::iota(pages.begin(), pages.end(), 0);
  return pages;
}

class CpuMla : public testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Backend> backend(Activations activations = Activations::kF32) {
    return make_cpu_backend({activations, 2, GetParam()});
  }
};
INSTANTIATE_TEST_SUITE_P(Isas, CpuMla, testing::ValuesIn(supported_isas()),
                         [](const auto& isa) { return isa.param; });

// One row at the end of a cache of n positions, in both forms, against the reference.
TEST_P(CpuMla, LongCachesNeedNoMoreScratch) {
  const auto cpu = backend();
  const auto reference = make_reference_backend(Activations::kF32);
  MlaShape shape = latent_shape();
  shape.num_heads = 1;
  shape.nope_dim = shape.kv_rank = shape.v_head_dim = 8;
  shape.rope_dim = 2;
  const MlaProblem problem(shape, 1);
  for (std::int64_t n : {11'000, 12'288, 12'289, 65'537, 131'072}) {
    const std::vector<std::int32_t> pages = page_list(n);
    const std::vector<float> past = random_values(3, "past", n * shape.cache_width(), 1);
    std::vector<std::byte> cache =
        problem.empty_cache(*cpu, static_cast<std::int64_t>(pages.size()));
    std::memcpy(cache.data(), past.data(), past.size() * sizeof(float));
    Piece piece{.rows = 1, .start_pos = n - 1, .origin = Origin::kGenerated, .pages = pages};
    const std::vector<float> expected = problem.run(*reference, {piece}, cache);
    EXPECT_LE(relative_error(expected, problem.run(*cpu, {piece}, cache)), 2e-5) << n;
    piece.origin = Origin::kPrompt;
    EXPECT_LE(relative_error(expected, problem.run(*cpu, {piece}, cache)), 2e-5) << n;
  }
}

TEST_P(CpuMla, AbsorbedEqualsExpanded) {
  const auto cpu = backend();
  MlaShape mqa = latent_shape();
  mqa.kind = MlaKind::kMqa;
  mqa.nope_dim = mqa.kv_rank;
  MlaShape gqa;
  gqa.kind = MlaKind::kGqa;
  gqa.num_heads = 6;
  gqa.num_kv_heads = 2;
  gqa.nope_dim = 12;
  gqa.v_head_dim = 20;
  for (const MlaShape& shape : {latent_shape(), mqa, gqa}) {
    const MlaProblem problem(shape, 130);
    Piece piece{.rows = 130, .pages = page_list(130)};
    std::vector<std::byte> cache = problem.empty_cache(*cpu, 3);
    const std::vector<float> expanded = problem.run(*cpu, {piece}, cache);
    piece.origin = Origin::kGenerated;
    const std::vector<float> absorbed = problem.run(*cpu, {piece}, cache);
    EXPECT_LE(relative_error(expanded, absorbed), 1e-5) << static_cast<int>(shape.kind);
    EXPECT_EQ(same_bits(expanded, absorbed), shape.kind == MlaKind::kGqa);
  }
}

// Row 0 must reach row 4, and a NaN in row 70 no row before it.
TEST_P(CpuMla, HistoryIsReadAndTheFutureIsNot) {
  const auto cpu = backend();
  MlaProblem problem(latent_shape(), 100);
  const std::int64_t cols = problem.shape.num_heads * problem.shape.v_head_dim;
  const Piece piece{.rows = 100, .pages = page_list(100)};
  std::vector<std::byte> cache = problem.empty_cache(*cpu, 2);
  const std::vector<float> before = problem.run(*cpu, {piece}, cache);
  for (float value : before) ASSERT_TRUE(std::isfinite(value));
  problem.kv[static_cast<std::size_t>(70 * problem.shape.cache_width())] =
      std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> poisoned = problem.run(*cpu, {piece}, cache);
  EXPECT_TRUE(same_bits(slice(before, 0, 70 * cols), slice(poisoned, 0, 70 * cols)));
  for (float value : slice(poisoned, 70 * cols, 30 * cols)) ASSERT_TRUE(std::isnan(value));
  problem = MlaProblem(latent_shape(), 100);
  problem.kv[0] += 0.5f;
  const std::vector<float> moved = problem.run(*cpu, {piece}, cache);
  EXPECT_FALSE(same_bits(slice(before, 4 * cols, cols), slice(moved, 4 * cols, cols)));
}

}  // namespace
}  // namespace baltoro
