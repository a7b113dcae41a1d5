// Kimi Delta Attention on the CPU: chunk form against recurrence under strong decay, ragged tails
// and mixed batches.
#include <gtest/gtest.h>

#include <cmath>

#include "baltoro/error.h"
#include "cpu/dispatch.h"
#include "cpu/sequence_problems.h"
#include "ops/reference/reference_backend.h"

namespace baltoro {
namespace {

using namespace testing_cpu;

KdaShape small_shape() {
  KdaShape shape;
  shape.num_heads = 2;
  shape.head_dim_k = 20;  // not a multiple of any vector
  shape.head_dim_v = 36;
  shape.conv_width = 4;
  return shape;
}

class CpuKda : public testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Backend> backend(Activations activations = Activations::kF32, int threads = 2) {
    return make_cpu_backend({activations, threads, GetParam()});
  }
};
INSTANTIATE_TEST_SUITE_P(Isas, CpuKda, testing::ValuesIn(supported_isas()),
                         [](const auto& isa) { return isa.param; });

struct Result {
  std::vector<float> out, state, conv;
};

Result run_from_zero(Backend& backend, const KdaProblem& problem, std::int64_t rows,
                     Origin origin) {
  KdaPool pool(problem.shape, 1, 0.0f);
  Piece piece{.rows = rows, .origin = origin};
  std::vector<float> out = problem.run(backend, {piece}, pool);
  return {std::move(out), std::move(pool.state), std::move(pool.conv)};
}

// The chunk form of this backend against the recurrence of the reference (double inside).
double chunk_error(Backend& backend, const KdaProblem& problem, std::int64_t rows) {
  const auto reference = make_reference_backend(backend.activations());
  const Result expected = run_from_zero(*reference, problem, rows, Origin::kGenerated);
  const Result actual = run_from_zero(backend, problem, rows, Origin::kPrompt);
  EXPECT_TRUE(same_bits(expected.conv, actual.conv));
  return std::max(relative_error(expected.out, actual.out),
                  relative_error(expected.state, actual.state));
}

// All log decays equal g, by the gate form that can produce it.
void set_constant_gate(KdaProblem& problem, float g) {
  std::fill(problem.a_log.begin(), problem.a_log.end(), 0.0f);
  std::fill(problem.dt_bias.begin(), problem.dt_bias.end(), 0.0f);
  float logit = -g;  // softplus(x) = x for a large x
  if (problem.lower_bound) {
    const double share = static_cast<double>(g) / static_cast<double>(*problem.lower_bound);
    logit = share >= 1   ? 200.0f
            : share <= 0 ? -200.0f
                         : static_cast<float>(std::log(share / (1 - share)));
  }
  std::fill(problem.decay.begin(), problem.decay.end(), logit);
}

TEST_P(CpuKda, StrongDecayStaysFiniteAndExact) {
  const auto cpu = backend();
  KdaProblem bounded(small_shape(), -5.0f, 64);
  set_constant_gate(bounded, -5.0f);
  EXPECT_LE(chunk_error(*cpu, bounded, 64), 1e-5);
  KdaProblem unbounded(small_shape(), std::nullopt, 64);
  set_constant_gate(unbounded, -1000.0f);
  EXPECT_LE(chunk_error(*cpu, unbounded, 64), 1e-5);
}

TEST_P(CpuKda, ErrorIsFlatOverTheGateRange) {
  const auto cpu = backend();
  for (float g : {0.0f, -0.5f, -1.0f, -2.0f, -2.5f, -3.0f, -4.0f, -5.0f}) {
    KdaProblem problem(small_shape(), -5.0f, 150);
    set_constant_gate(problem, g);
    EXPECT_LE(chunk_error(*cpu, problem, 150), 1e-5) << "g = " << g;
  }
  KdaProblem alternating(small_shape(), -5.0f, 150);
  set_constant_gate(alternating, 0.0f);
  const std::int64_t channels = alternating.shape.decay_channels();
  for (std::int64_t t = 0; t < 150; t += 2) {
    std::fill_n(alternating.decay.begin() + t * channels, channels, 200.0f);
  }
  EXPECT_LE(chunk_error(*cpu, alternating, 150), 1e-5);
}

// Equal keys, beta 1, no decay: the worst case of an inverse built from powers of the matrix.
// Subnormal operands make a strong decay a hundred times slower than a weak one.
TEST_P(CpuKda, RunningDecaysEndInZeroBeforeTheyAreSubnormal) {
  const cpu::LeafTable& leaf = cpu::pick_table(GetParam());
  constexpr std::int64_t kRows = 64, kWidth = 20;
  const std::vector<float> decay(kRows * kWidth, std::exp(-5.0f)), ones(kRows * kWidth, 1.0f);
  std::vector<float> out(kRows * kWidth), running(kWidth, 1.0f);
  cpu::KdaDecayArgs args;
  args.decay = decay.data();
  args.stride = args.dk = kWidth;
  args.n = kRows;
  args.x[0] = ones.data();
  args.out[0] = out.data();
  args.running = running.data();
  leaf.kda_decay(args);
  EXPECT_FLOAT_EQ(out[0], std::exp(-5.0f));
  EXPECT_FLOAT_EQ(out[4 * kWidth + 3], std::exp(-25.0f));
  EXPECT_EQ(out[8 * kWidth], 0.0f);
  EXPECT_EQ(running, std::vector<float>(kWidth, 0.0f));
}

TEST_P(CpuKda, EqualKeysDoNotCancelInTheSolve) {
  const auto cpu = backend();
  KdaProblem problem(small_shape(), -5.0f, 64);
  set_constant_gate(problem, 0.0f);
  std::fill(problem.beta.begin(), problem.beta.end(), 100.0f);
  const std::int64_t keys = problem.shape.key_channels();
  for (std::int64_t t = 1; t < 64; ++t)
    std::copy_n(problem.k.begin(), keys, problem.k.begin() + t * keys);
  for (std::int64_t c = 0; c < keys; ++c) {
    for (std::int64_t j = 0; j < 3; ++j) problem.k_conv[static_cast<std::size_t>(4 * c + j)] = 0;
  }
  EXPECT_LE(chunk_error(*cpu, problem, 32), 1e-5);
  EXPECT_LE(chunk_error(*cpu, problem, 64), 1e-5);
}

TEST_P(CpuKda, RaggedTailsDecayTheState) {
  const auto cpu = backend();
  for (const std::optional<float> bound : {std::optional<float>(-5.0f), std::optional<float>()}) {
    const KdaProblem problem(small_shape(), bound, 1000);
    for (std::int64_t rows : {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 500, 1000}) {
      EXPECT_LE(chunk_error(*cpu, problem, rows), 1e-5) << rows << " rows";
    }
  }
}

TEST_P(CpuKda, MixedBatchEqualsSoloManyTimes) {
  const auto cpu = backend(Activations::kBf16, 3);
  const KdaProblem problem(small_shape(), -5.0f, 103, Activations::kBf16);
  const std::vector<Piece> pieces = {
      {.token = 0, .rows = 100, .slot = 2},
      {.token = 100, .rows = 1, .start_pos = 70, .slot = 0, .origin = Origin::kGenerated},
      {.token = 101, .rows = 1, .slot = 3},
      {.token = 102, .rows = 1, .start_pos = 5, .slot = 1, .origin = Origin::kGenerated}};
  std::vector<float> solo;
  KdaPool solo_pool(problem.shape, 4, 0.25f);
  for (const Piece& piece : pieces) {
    const std::vector<float> out = problem.run(*cpu, {piece}, solo_pool);
    solo.insert(solo.end(), out.begin(), out.end());
  }
  for (int repeat = 0; repeat < 200; ++repeat) {
    KdaPool pool(problem.shape, 4, 0.25f);
    ASSERT_TRUE(same_bits(problem.run(*cpu, pieces, pool), solo));
    ASSERT_TRUE(same_bits(pool.state, solo_pool.state));
    ASSERT_TRUE(same_bits(pool.conv, solo_pool.conv));
  }
}

// More heads than are taken side by side, in groups that begin elsewhere with each number of threads; a
// convolution of each width; several rows in a call.
TEST_P(CpuKda, GroupsOfHeadsOfGeneratedRows) {
  for (const std::int64_t width : {1, 3, 4}) {
    KdaShape shape = small_shape();
    shape.num_heads = 21;
    shape.conv_width = width;
    const KdaProblem problem(shape, -5.0f, 3);
    const auto reference = make_reference_backend(Activations::kF32);
    const Result expected = run_from_zero(*reference, problem, 3, Origin::kGenerated);
    const Result one =
        run_from_zero(*backend(Activations::kF32, 1), problem, 3, Origin::kGenerated);
    EXPECT_LE(relative_error(expected.out, one.out), 1e-5);
    EXPECT_LE(relative_error(expected.state, one.state), 1e-5);
    EXPECT_TRUE(same_bits(expected.conv, one.conv));
    for (const int threads : {2, 3}) {
      const Result other =
          run_from_zero(*backend(Activations::kF32, threads), problem, 3, Origin::kGenerated);
      EXPECT_TRUE(same_bits(one.out, other.out));
      EXPECT_TRUE(same_bits(one.state, other.state));
      EXPECT_TRUE(same_bits(one.conv, other.conv));
    }
  }
}

TEST_P(CpuKda, UnevenLengthsLeaveOtherSlotsAlone) {
  const auto cpu = backend();
  const KdaProblem problem(small_shape(), std::nullopt, 70);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  KdaPool pool(problem.shape, 6, nan);
  for (std::int64_t slot : {1, 3, 4}) pool.clear(problem.shape, slot);
  const std::vector<float> out = problem.run(*cpu,
                                             {{.token = 0, .rows = 5, .slot = 4},
                                              {.token = 5, .rows = 1, .slot = 1},
                                              {.token = 6, .rows = 64, .slot = 3}},
                                             pool);
  for (float value : out) ASSERT_TRUE(std::isfinite(value));
  for (std::int64_t slot : {0, 2, 5}) {
    for (float value : pool.slot_state(problem.shape, slot)) ASSERT_TRUE(std::isnan(value));
    for (float value : pool.slot_conv(problem.shape, slot)) ASSERT_TRUE(std::isnan(value));
  }
  // A sequence without rows is not a batch; nothing may move before it is refused.
  const KdaPool before = pool;
  EXPECT_THROW(problem.run(*cpu, {{.rows = 0, .slot = 0}, {.rows = 5, .slot = 1}}, pool), Error);
  EXPECT_TRUE(same_bits(before.slot_state(problem.shape, 1), pool.slot_state(problem.shape, 1)));
}

// The state after 128 rows goes to the boundary slot, whatever follows in the call.
TEST_P(CpuKda, BoundarySlotHoldsTheLastWholeBlock) {
  const auto cpu = backend();
  const KdaProblem problem(small_shape(), -5.0f, 150);
  KdaPool whole(problem.shape, 2, 0.0f), blocks(problem.shape, 1, 0.0f);
  problem.run(*cpu, {{.rows = 150, .slot = 0, .boundary_slot = 1}}, whole);
  problem.run(*cpu, {{.rows = 128}}, blocks);
  EXPECT_TRUE(same_bits(whole.slot_state(problem.shape, 1), blocks.state));
  EXPECT_TRUE(same_bits(whole.slot_conv(problem.shape, 1), blocks.conv));
}

}  // namespace
}  // namespace baltoro
