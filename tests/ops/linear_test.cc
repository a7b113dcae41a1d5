// Linear layers, embedding and head: stored forms, rounding, rows by themselves, 64-bit offsets.
#include "ops/linear.h"

#include <gtest/gtest.h>

#include <cstring>

#include "op_test_util.h"
#include "ops/embed.h"
#include "ops/head.h"
#include "ops/reference/matrix.h"

namespace baltoro {
namespace {

using test::Floats;

TEST(WeightRows, EveryFormatDecodesExactly) {
  const float f32[] = {1.5f, -2, 0, 1e-30f};
  const std::uint16_t bf16[] = {0x3fc0, 0xc000, 0x0000, 0x0001};
  const std::uint16_t f16[] = {0x3e00, 0xc000, 0x0000, 0x0001};
  Floats row(2);
  const auto decode = [&](const void* data, WeightFormat format, std::int64_t r) {
    reference::decode_weight_row({data, nullptr, format, 2, 2}, r, row.data());
    return row;
  };
  EXPECT_EQ(decode(f32, WeightFormat::kF32, 0), (Floats{1.5f, -2}));
  EXPECT_EQ(decode(f32, WeightFormat::kF32, 1), (Floats{0, 1e-30f}));
  EXPECT_EQ(decode(bf16, WeightFormat::kBf16, 0), (Floats{1.5f, -2}));
  EXPECT_EQ(decode(bf16, WeightFormat::kBf16, 1), (Floats{0, bf16_to_f32(1)}));
  EXPECT_EQ(decode(f16, WeightFormat::kF16, 0), (Floats{1.5f, -2}));
  EXPECT_EQ(decode(f16, WeightFormat::kF16, 1), (Floats{0, 0x1p-24f}));
}

TEST(WeightRows, Mxfp4RowsUseTheirOwnScalesAtAnyAlignment) {
  std::vector<std::uint8_t> bytes(1 + 2 * 32, 0x22);   // code 2: 1.0
  const std::uint8_t scales[] = {127, 128, 129, 126};  // two groups a row
  const WeightView weight{bytes.data() + 1, scales, WeightFormat::kMxfp4, 2, 64};
  Floats row(64);
  reference::decode_weight_row(weight, 1, row.data());
  EXPECT_EQ(row[0], 4);
  EXPECT_EQ(row[31], 4);
  EXPECT_EQ(row[32], 0.5f);
  EXPECT_EQ(row[63], 0.5f);
}

Floats run_linear(Backend& backend, const Floats& x, const Floats& weight, std::int64_t cols) {
  const WeightView view = test::f32_weight(weight, cols);
  const std::int64_t rows = static_cast<std::int64_t>(x.size()) / cols;
  Floats out(static_cast<std::size_t>(rows * view.rows), test::kNan);
  LinearArgs args;
  args.x = test::view(x, cols);
  args.add(view, test::mutable_view(out, view.rows));
  linear(backend, args);
  return out;
}

TEST(Linear, RowsOfTheWeightAreOutputs) {
  const Floats weight = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(run_linear(*test::reference_f32(), {1, 0, 0, 1, 1, 1}, weight, 3),
            (Floats{1, 4, 6, 15}));
  EXPECT_EQ(run_linear(*test::reference_f32(), {0, 1, 10, 100}, weight, 2),
            (Floats{2, 4, 6, 210, 430, 650}));
}

TEST(Linear, RowsDoNotDependOnTheirNeighboursAndOneNanStaysInItsRow) {
  Floats x = test::random_floats("x", 7 * 33);
  const Floats weight = test::random_floats("w", 5 * 33);
  const auto backend = test::reference_f32();
  x[2 * 33 + 4] = test::kNan;
  const Floats together = run_linear(*backend, x, weight, 33);
  for (std::int64_t r = 0; r < 7; ++r) {
    const Floats alone = run_linear(*backend, test::rows_of(x, 33, r, r + 1), weight, 33);
    const Floats row = test::rows_of(together, 5, r, r + 1);
    if (r == 2) {
      for (const float value : row) EXPECT_TRUE(std::isnan(value));
    } else {
      EXPECT_EQ(alone, row);
    }
  }
}

TEST(Linear, Bf16ModeRoundsTheOutputAlone) {
  const Floats x = test::random_floats("x", 64), weight = test::random_floats("w", 3 * 64);
  const Floats exact = run_linear(*test::reference_f32(), x, weight, 64);
  const Floats rounded = run_linear(*test::reference_bf16(), x, weight, 64);
  for (std::size_t i = 0; i < exact.size(); ++i) EXPECT_EQ(rounded[i], round_bf16(exact[i]));
}

TEST(Head, ChosenRowsInOrderAndNeverRounded) {
  const Floats x = test::random_floats("x", 4 * 16), weight = test::random_floats("w", 9 * 16);
  const std::int32_t rows[] = {3, 0, 3};
  Floats logits(27, test::kNan);
  HeadArgs args{test::view(x, 16), rows, test::f32_weight(weight, 16), logits.data()};
  head(*test::reference_bf16(), args);
  const Floats all = run_linear(*test::reference_f32(), x, weight, 16);
  EXPECT_EQ(test::rows_of(logits, 9, 0, 1), test::rows_of(all, 9, 3, 4));
  EXPECT_EQ(test::rows_of(logits, 9, 1, 2), test::rows_of(all, 9, 0, 1));
  EXPECT_EQ(test::rows_of(logits, 9, 2, 3), test::rows_of(all, 9, 3, 4));
}

TEST(IndexWidth, WeightSlicesBeyondTwoToThe31Elements) {
  const WeightView expert{nullptr, nullptr, WeightFormat::kMxfp4, 3072, 3584};
  const auto base = std::uintptr_t{1} << 20;
  WeightView packed{reinterpret_cast<const void*>(base),
                    reinterpret_cast<const std::uint8_t*>(base), WeightFormat::kMxfp4, 896 * 3072,
                    3584};
  // The rows of expert 122 to 124 in a table of one matrix: offset 2^31 lies at expert 390 of the
  // packed bytes and at expert 195 of the elements.
  for (const std::int64_t e : {122, 195, 196, 390, 391, 895}) {
    const WeightView slice = packed.slice_rows(e * 3072, 3072);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(slice.data) - base,
              static_cast<std::uintptr_t>(e) * 3072u * 1792u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(slice.scales) - base,
              static_cast<std::uintptr_t>(e) * 3072u * 112u);
    EXPECT_EQ(slice.bytes(), expert.bytes());
  }
  EXPECT_EQ(packed.bytes(), std::int64_t{896} * 3072 * (1792 + 112));
}

}  // namespace
}  // namespace baltoro
