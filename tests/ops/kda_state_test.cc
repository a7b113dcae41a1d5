// The state of kda_mix: splits of the input, boundary snapshots, slots and batch neighbours.
#include <gtest/gtest.h>

#include <cmath>

#include "kda_fixture.h"

namespace baltoro {
namespace {

using test::Floats;
using test::KdaPool;
using test::KdaSlice;
using test::KdaStream;
using test::max_difference;
using test::rows_of;

constexpr Origin kGenerated = Origin::kGenerated;
constexpr Origin kPrompt = Origin::kPrompt;
const KdaShape kShape{2, 6, 10, 4, false};

KdaPool fresh_pool(const KdaShape& shape = kShape) {
  KdaPool pool(shape, 3, test::kNan);
  pool.clear(0);
  return pool;
}

TEST(PromptSplit, SplitsAtBlocksGiveTheSameBits) {
  const KdaStream layer(kShape, 200);
  for (const auto& backend : {test::reference_f32(), test::reference_bf16()}) {
    KdaPool whole = fresh_pool(), parts = fresh_pool();
    const Floats a = layer.run(*backend, whole, {{0, 200, kPrompt, 0, -1}});
    const Floats b = layer.run_alone(
        *backend, parts,
        {{0, 64, kPrompt, 0, -1}, {64, 192, kPrompt, 0, -1}, {192, 200, kPrompt, 0, -1}});
    EXPECT_EQ(a, b);
    EXPECT_EQ(whole.state_of(0), parts.state_of(0));
    EXPECT_EQ(whole.conv_of(0), parts.conv_of(0));
  }
}

TEST(PromptSplit, RestartAtTheBoundarySlotGivesTheSameBits) {
  const KdaStream layer(kShape, 200);
  const auto backend = test::reference_f32();
  KdaPool whole = fresh_pool();
  const Floats a = layer.run(*backend, whole, {{0, 200, kPrompt, 0, -1}});
  for (const std::int64_t cut : {65, 100, 127, 128, 131, 191}) {
    SCOPED_TRACE(cut);
    const std::int64_t boundary = cut / 64 * 64;
    KdaPool pool = fresh_pool();
    layer.run(*backend, pool, {{0, cut, kPrompt, 0, 1}});
    const Floats b = layer.run(*backend, pool, {{boundary, 200, kPrompt, 1, -1}});
    EXPECT_EQ(rows_of(a, 20, boundary, 200), b);
    EXPECT_EQ(whole.state_of(0), pool.state_of(1));
    EXPECT_EQ(whole.conv_of(0), pool.conv_of(1));
  }
}

TEST(PromptSplit, ContinuingInsideABlockAgreesToTolerance) {
  const KdaStream layer(kShape, 140);
  const auto backend = test::reference_f32();
  KdaPool whole = fresh_pool();
  const Floats a = layer.run(*backend, whole, {{0, 140, kPrompt, 0, -1}});
  for (const std::int64_t cut : {1, 2, 3, 5, 27, 63, 65, 139}) {
    SCOPED_TRACE(cut);
    KdaPool pool = fresh_pool();
    const Floats b =
        layer.run_alone(*backend, pool, {{0, cut, kPrompt, 0, -1}, {cut, 140, kPrompt, 0, -1}});
    EXPECT_LT(max_difference(a, b), 2e-5);
    EXPECT_EQ(whole.conv_of(0), pool.conv_of(0));
  }
}

TEST(BoundarySlot, HoldsTheStateOfARunThatStopsThere) {
  const KdaStream layer(kShape, 200);
  const auto backend = test::reference_f32();
  for (const auto& [begin, end, boundary] :
       {std::tuple{0, 200, 192}, {0, 64, 64}, {10, 64, 64}, {50, 150, 128}, {63, 65, 64}}) {
    SCOPED_TRACE(end);
    KdaPool pool = fresh_pool(), stopped = fresh_pool();
    if (begin > 0) {
      layer.run(*backend, pool, {{0, begin, kPrompt, 0, -1}});
      layer.run(*backend, stopped, {{0, begin, kPrompt, 0, -1}});
    }
    layer.run(*backend, pool, {{begin, end, kPrompt, 0, 2}});
    layer.run(*backend, stopped, {{begin, boundary, kPrompt, 0, -1}});
    EXPECT_EQ(pool.state_of(2), stopped.state_of(0));
    EXPECT_EQ(pool.conv_of(2), stopped.conv_of(0));
  }
}

TEST(BoundarySlot, StaysUntouchedWhereNoBoundaryIsCrossed) {
  const KdaStream layer(kShape, 64);
  KdaPool pool = fresh_pool();
  layer.run(*test::reference_f32(), pool, {{0, 63, kPrompt, 0, 2}});
  for (const float value : pool.state_of(2)) EXPECT_TRUE(std::isnan(value));
  for (const float value : pool.conv_of(2)) EXPECT_TRUE(std::isnan(value));
}

TEST(DecodeSplit, ManyStepsInOneCallGiveTheBitsOfSingleCalls) {
  const KdaStream layer(kShape, 9);
  const auto backend = test::reference_f32();
  KdaPool a = fresh_pool(), b = fresh_pool();
  const Floats at_once = layer.run(*backend, a, {{0, 9, kGenerated, 0, -1}});
  Floats one_by_one;
  for (std::int64_t t = 0; t < 9; ++t) {
    const Floats row = layer.run(*backend, b, {{t, t + 1, kGenerated, 0, -1}});
    one_by_one.insert(one_by_one.end(), row.begin(), row.end());
  }
  EXPECT_EQ(at_once, one_by_one);
  EXPECT_EQ(a.state_of(0), b.state_of(0));
}

TEST(BatchNeighbours, MixedOriginsAndLengthOneRowsEqualSolo) {
  const KdaStream layer(kShape, 100);
  const auto backend = test::reference_f32();
  const std::vector<KdaSlice> batch = {{0, 100, kPrompt, 4, -1},
                                       {0, 1, kGenerated, 2, -1},
                                       {0, 1, kPrompt, 7, -1},
                                       {0, 1, kGenerated, 0, -1}};
  Floats first;
  for (int repeat = 0; repeat < 20; ++repeat) {
    KdaPool pool(kShape, 9, test::kNan);
    for (const KdaSlice& s : batch) pool.clear(s.slot);
    const Floats together = layer.run(*backend, pool, batch);
    if (first.empty()) first = together;
    ASSERT_EQ(first, together);
    std::int64_t row = 0;
    for (const KdaSlice& s : batch) {
      KdaPool solo = fresh_pool();
      KdaSlice alone = s;
      alone.slot = 0;
      const Floats expected = layer.run(*backend, solo, {alone});
      EXPECT_EQ(expected, rows_of(together, 20, row, row + s.end - s.begin));
      EXPECT_EQ(solo.state_of(0), pool.state_of(s.slot));
      row += s.end - s.begin;
    }
    for (const std::int64_t unused : {1, 3, 5, 6, 8}) {
      for (const float value : pool.state_of(unused)) EXPECT_TRUE(std::isnan(value));
    }
  }
}

TEST(BatchNeighbours, NaNInOneSequenceStaysThere) {
  KdaStream layer(kShape, 40);
  const auto backend = test::reference_f32();
  KdaPool clean = fresh_pool();
  const Floats expected = layer.run(*backend, clean, {{0, 20, kPrompt, 0, -1}});
  layer.q[30 * 12] = test::kNan;
  KdaPool pool(kShape, 2, 0);
  const Floats out = layer.run(*backend, pool, {{20, 40, kPrompt, 1, -1}, {0, 20, kPrompt, 0, -1}});
  EXPECT_EQ(expected, rows_of(out, 20, 20, 40));
  EXPECT_TRUE(std::isnan(out[10 * 20]));
}

}  // namespace
}  // namespace baltoro
