// mix_norm: scores from normalised sources but a sum of raw ones, the raw prefix, RMSNorm's
// roundings, rows by themselves.
#include "ops/mix_norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "op_test_util.h"
#include "ops/reference/mix_norm.h"

namespace baltoro {
namespace {

using reference::Rounding;
using test::expect_near;
using test::expect_not;
using test::Floats;
using Doubles = std::vector<double>;

const Rounding kExact(Activations::kF32);

TEST(DepthMix, SpecificationVector) {
  const std::vector<Doubles> sources = {{1, -2, .5, 3}, {.1, .2, -.3, .4}, {10, 0, -10, 5}};
  const float norm[] = {1, 2, .5f, 1}, proj[] = {.1f, -.2f, .3f, .05f};
  const Doubles out = reference::mix(sources, norm, proj, 1e-5, kExact);
  expect_near(out, {3.3126015, -.999833924, -2.57285636, 3.02765681}, 1e-6);
}

TEST(DepthMix, SumsRawSourcesNotNormalisedOnes) {
  const float one[] = {1, 1}, proj[] = {1, 0};
  const std::vector<Doubles> sources = {{1, 0}, {0, 2}};
  const Doubles out = reference::mix(sources, one, proj, 0, kExact);
  expect_near(out, {.804430, .391141}, 1e-6);
  expect_not(out, {1.137635, .276578}, 0.1);
}

TEST(DepthMix, ZeroProjectionGivesTheMeanAndOneSourceGivesItself) {
  const float one[] = {1, 1}, zero[] = {0, 0};
  const std::vector<Doubles> sources = {{1, -4}, {3, 2}, {5, 5}};
  expect_near(reference::mix(sources, one, zero, 1e-5, kExact), {3, 1}, 1e-12);
  const float proj[] = {7, -3};
  expect_near(reference::mix({sources.data(), 1}, one, proj, 1e-5, kExact), {1, -4}, 0);
}

// One layer's call on rows of `hidden` values.
struct MixLayer {
  std::int64_t hidden;
  Floats res_norm, res_proj, norm;

  explicit MixLayer(std::int64_t d)
      : hidden(d),
        res_norm(test::random_floats("res_norm", d)),
        res_proj(test::random_floats("res_proj", d)),
        norm(test::random_floats("norm", d)) {}

  Floats run(Backend& backend, const std::vector<Floats>& bank, Floats& prefix,
             const Floats& delta) const {
    std::vector<ConstTensorView> sources;
    for (const Floats& source : bank) sources.push_back(test::view(source, hidden));
    Floats out(prefix.size(), test::kNan);
    MixNormArgs args;
    args.bank = sources;
    args.prefix = test::mutable_view(prefix, hidden);
    if (!delta.empty()) args.delta = test::view(delta, hidden);
    args.res_norm = res_norm.data();
    args.res_proj = res_proj.data();
    args.norm = norm.data();
    args.mix_eps = 1e-5f;
    args.norm_eps = 1e-5f;
    args.out = test::mutable_view(out, hidden);
    mix_norm(backend, args);
    return out;
  }
};

TEST(RawPrefix, SumsOfSubLayersNeverDependOnTheMix) {
  const MixLayer layer(5);
  const Floats embedding = test::random_floats("embedding", 15);
  Floats prefix(15, 1.0f);  // the first attention output of the block
  for (int depth = 2; depth <= 12; ++depth) {
    layer.run(*test::reference_bf16(), {embedding}, prefix, Floats(15, 0.0f));
    layer.run(*test::reference_bf16(), {embedding}, prefix, Floats(15, 1.0f));
    EXPECT_EQ(prefix, Floats(15, static_cast<float>(depth)));
  }
}

TEST(RawPrefix, AddFusedWithTheMixEqualsAddThenMix) {
  const MixLayer layer(37);
  const std::vector<Floats> bank = {test::random_floats("a", 74), test::random_floats("b", 74)};
  const Floats delta = test::random_floats("delta", 74);
  for (const auto& backend : {test::reference_f32(), test::reference_bf16()}) {
    Floats fused = test::random_floats("prefix", 74), apart = fused;
    const Floats a = layer.run(*backend, bank, fused, delta);
    for (std::size_t i = 0; i < apart.size(); ++i) {
      apart[i] += delta[i];
      if (backend->activations() == Activations::kBf16) apart[i] = round_bf16(apart[i]);
    }
    EXPECT_EQ(fused, apart);
    const Floats b = layer.run(*backend, bank, apart, {});
    EXPECT_EQ(a, b);
    EXPECT_EQ(fused, apart) << "without delta the prefix is read only";
  }
}

TEST(BankStrides, EveryRowEqualsItsOwnCallAtEveryDepth) {
  const MixLayer layer(11);
  const auto backend = test::reference_f32();
  for (const int banked : {0, 1, 2, 8}) {
    for (const std::int64_t rows : {1, 2, 7}) {
      std::vector<Floats> bank;
      for (int i = 0; i < banked; ++i) {
        bank.push_back(test::random_floats("source" + std::to_string(i), rows * 11));
      }
      Floats prefix = test::random_floats("prefix", rows * 11);
      const Floats together = layer.run(*backend, bank, prefix, {});
      for (std::int64_t r = 0; r < rows; ++r) {
        std::vector<Floats> own;
        for (const Floats& source : bank) own.push_back(test::rows_of(source, 11, r, r + 1));
        Floats own_prefix = test::rows_of(prefix, 11, r, r + 1);
        EXPECT_EQ(layer.run(*backend, own, own_prefix, {}), test::rows_of(together, 11, r, r + 1));
      }
    }
  }
}

TEST(BankStrides, OrderOfSourcesDoesNotMatter) {
  const MixLayer layer(11);
  const auto backend = test::reference_f32();
  const Floats a = test::random_floats("a", 11), b = test::random_floats("b", 11);
  Floats prefix = test::random_floats("prefix", 11);
  EXPECT_LT(test::max_difference(layer.run(*backend, {a, b}, prefix, {}),
                                 layer.run(*backend, {b, a}, prefix, {})),
            1e-6);
}

TEST(RmsNorm, RoundsBeforeAndAfterTheWeight) {
  const Rounding round(Activations::kBf16);
  const Floats x = test::random_floats("x", 256), weight = test::random_floats("w", 256);
  const Doubles wide(x.begin(), x.end());
  const Doubles out = reference::rms_norm(wide, weight.data(), 1e-5, round);
  double mean = 0;
  for (const double value : wide) mean += value * value / 256;
  int single_rounding_differs = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const float normed = static_cast<float>(wide[i] / std::sqrt(mean + 1e-5));
    EXPECT_EQ(out[i], round_bf16(weight[i] * round_bf16(normed)));
    single_rounding_differs += out[i] != round_bf16(weight[i] * normed);
  }
  EXPECT_GT(single_rounding_differs, 10);
}

TEST(RmsNorm, EpsIsAddedToTheMeanSquare) {
  const float one[] = {1, 1};
  expect_near(reference::rms_norm(Doubles{3, 4}, one, 0, kExact),
              {3 / std::sqrt(12.5), 4 / std::sqrt(12.5)}, 1e-12);
  expect_near(reference::rms_norm(Doubles{1e-3, 1e-3}, one, 3e-6, kExact), {.5, .5}, 1e-12);
  expect_near(reference::rms_norm(Doubles{0, 0}, one, 1e-5, kExact), {0, 0}, 0);
}

TEST(FirstBad, TagsTheFirstLayerThatBreaksARow) {
  const MixLayer layer(3);
  Floats prefix(12, 1.0f), delta(12, 1.0f);
  delta[4] = test::kNan;
  delta[9] = std::numeric_limits<float>::infinity();
  prefix[2] = 0;
  Floats out(12);
  std::vector<std::int32_t> first_bad = {-1, -1, 2, -1};
  delta[6] = test::kNan;
  MixNormArgs args;
  args.prefix = test::mutable_view(prefix, 3);
  args.delta = test::view(delta, 3);
  args.norm = layer.norm.data();
  args.out = test::mutable_view(out, 3);
  args.first_bad = first_bad.data();
  args.bad_tag = 5;
  mix_norm(*test::reference_f32(), args);
  EXPECT_EQ(first_bad, (std::vector<std::int32_t>{-1, 5, 2, 5}));
}

}  // namespace
}  // namespace baltoro
