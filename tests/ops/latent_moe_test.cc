// Router, routed experts, gated MLP and their activations.
#include "ops/reference/latent_moe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/mxfp4.h"
#include "op_test_util.h"
#include "ops/expert_mlp.h"
#include "ops/mix_norm.h"
#include "ops/reference/glu_mlp.h"
#include "ops/route.h"

namespace baltoro {
namespace {

using test::expect_near;
using test::expect_not;
using test::Floats;
using Doubles = std::vector<double>;
using Ids = std::vector<std::int32_t>;

double logit(double s) { return std::log(s / (1 - s)); }

reference::Choice choose(const Doubles& logits, const Floats& bias, int top_k,
                         bool renormalize = true, float scale = 1) {
  RouteArgs args;
  args.bias = bias.data();
  args.top_k = top_k;
  args.renormalize = renormalize;
  args.scale = scale;
  return reference::choose_experts(logits, args);
}

TEST(RouterBias, SpecificationVector) {
  const auto choice = choose({2, -1, .5, 3, 0}, {0, .4f, .1f, -.6f, 0}, 2);
  EXPECT_EQ(choice.ids, (Ids{0, 2}));
  expect_near(choice.weights, {.585926042, .414073958}, 1e-8);
}

TEST(RouterBias, SteersTheChoiceAndNotTheWeights) {
  const auto choice = choose({logit(.9), logit(.8), logit(.7), logit(.6)}, {0, 0, .15f, .35f}, 2);
  EXPECT_EQ(choice.ids, (Ids{3, 0}));
  expect_near(choice.weights, {.4, .6}, 1e-9);
  expect_not(choice.weights, {.51351, .48649}, 0.05);
}

TEST(RouterBias, LargeBiasDoesNotCancelTheScores) {
  const auto choice = choose({-17, -17.5}, {12, 12}, 2);
  EXPECT_EQ(choice.ids, (Ids{0, 1}));
  expect_near(choice.weights, {.6224593, .3775407}, 1e-7);
}

TEST(RouterPrecision, BiasesThatBf16CannotTellApartStayOrdered) {
  ASSERT_EQ(round_bf16(8.32f), round_bf16(8.34f));
  EXPECT_EQ(choose({1, 1, 1}, {8.3125f, 8.32f, 8.34f}, 3).ids, (Ids{2, 1, 0}));
}

TEST(RouterPrecision, ActivationsAndWeightsAreNotRoundedInBf16Mode) {
  // Products that differ from the 10th bit on: bf16 weights or inputs would make the scores equal.
  const Floats weight = {1.0f, 1.001f, 1.0005f}, bias = {0, 0, 0};
  const Floats x = {1.0f};
  Ids ids(1);
  Floats weights(1);
  RouteArgs args;
  args.x = test::view(x, 1);
  args.weight = test::f32_weight(weight, 1);
  args.bias = bias.data();
  args.top_k = 1;
  args.ids = ids.data();
  args.weights = weights.data();
  route(*test::reference_bf16(), args);
  EXPECT_EQ(ids, (Ids{1}));
}

TEST(RouterTies, GoToTheLowerIndexInAnyPosition) {
  EXPECT_EQ(choose({1, 2, 1, 2, 1}, {0, 0, 0, 0, 0}, 4).ids, (Ids{1, 3, 0, 2}));
  EXPECT_EQ(choose(Doubles(9, .3), Floats(9, .5f), 3).ids, (Ids{0, 1, 2}));
  EXPECT_EQ(choose(Doubles(896, .3), Floats(896, .5f), 4).ids, (Ids{0, 1, 2, 3}));
  Doubles cycle;
  for (int e = 0; e < 896; ++e) cycle.push_back(e % 300 == 299 ? 2 : e % 3 == 1 ? 1 : 0);
  EXPECT_EQ(choose(cycle, Floats(896, 0), 6).ids, (Ids{299, 599, 1, 4, 7, 10}));
}

TEST(RouterWeights, RenormaliseThenScale) {
  const auto normal = choose({logit(.9), logit(.3)}, {0, 0}, 2, true, 2.446f);
  expect_near(normal.weights, {.75 * 2.446, .25 * 2.446}, 1e-6);
  const auto raw = choose({logit(.9), logit(.3)}, {0, 0}, 2, false, 2);
  expect_near(raw.weights, {1.8, .6}, 1e-9);
}

TEST(RouterNan, RowGetsNanWeightsAndValidIds) {
  const auto choice = choose({1, test::kNan, 2, 3}, {0, 0, 0, 0}, 2);
  EXPECT_EQ(choice.ids, (Ids{0, 1}));
  EXPECT_TRUE(std::isnan(choice.weights[0]) && std::isnan(choice.weights[1]));
}

TEST(Situ, Goldens) {
  struct Golden {
    double g, u, value, tolerance;
  };
  for (const Golden& x : {Golden{1, 1, 0.7158178281, 1e-9}, Golden{-1, 2, -0.5258288955, 1e-9},
                          Golden{3, -5, -11.94172910, 1e-7}, Golden{8, 60, 94.79716836, 1e-7},
                          Golden{50, -200, -99.99997749, 1e-7}, Golden{0, 1, 0, 0},
                          Golden{10, 10, 37.484606, 1e-6}, Golden{-10, 10, -.00170180, 1e-8},
                          Golden{100, 100, 99.932930, 1e-6}, Golden{1000, -1000, -100, 1e-9}}) {
    EXPECT_NEAR(reference::situ(x.g, x.u, 4, 25), x.value, x.tolerance) << x.g << ", " << x.u;
  }
}

TEST(Situ, SigmoidSeesTheUncappedGate) {
  const double capped = 4 * std::tanh(2.0);
  const double wrong = capped * reference::sigmoid(capped) * 25 * std::tanh(60 / 25.0);
  EXPECT_GT(std::fabs(reference::situ(8, 60, 4, 25) - wrong), 1e-3);
}

TEST(Situ, TendsToSwigluAsTheCapsGrow) {
  double previous = 1e9;
  for (const double cap : {4.0, 40.0, 400.0, 4000.0}) {
    const double difference =
        std::fabs(reference::situ(3, -7, cap, cap) - 3 * reference::sigmoid(3) * -7);
    EXPECT_LT(difference, previous / 40);
    previous = difference;
  }
}

TEST(Activation, SituRoundsOnceAndSwigluTwice) {
  const reference::Rounding round(Activations::kBf16);
  int differs = 0;
  for (int i = 0; i < 100; ++i) {
    const double g = round(0.37 * i - 10), u = round(1.3 - 0.11 * i);
    const double silu = g / (1 + std::exp(-g));
    const double swiglu = reference::activate({ActivationKind::kSwiglu, 0, 0}, g, u, round);
    EXPECT_EQ(swiglu, round(round(silu) * u));
    differs += swiglu != round(silu * u);
    EXPECT_EQ(reference::activate({ActivationKind::kSitu, 4, 25}, g, u, round),
              round(reference::situ(g, u, 4, 25)));
  }
  EXPECT_GT(differs, 5);
}

constexpr Activation kSitu{ActivationKind::kSitu, 4, 25};

struct ExpertTable {
  ExpertTable(int count, std::int64_t width, std::int64_t inner) : z(width) {
    for (int e = 0; e < count; ++e) {
      const std::string name = "expert" + std::to_string(e);
      storage.push_back(test::random_floats(name + "w1", inner * width));
      storage.push_back(test::random_floats(name + "w3", inner * width));
      storage.push_back(test::random_floats(name + "w2", inner * width));
    }
    for (std::size_t e = 0; e < storage.size(); e += 3) {
      experts.push_back({test::f32_weight(storage[e], width),
                         test::f32_weight(storage[e + 1], width),
                         test::f32_weight(storage[e + 2], inner)});
    }
  }

  Floats run(Backend& backend, const Floats& rows, const Ids& ids, const Floats& weights) const {
    Floats out(rows.size(), test::kNan);
    ExpertMlpArgs args;
    args.z = test::view(rows, z);
    args.ids = ids.data();
    args.weights = weights.data();
    args.top_k = static_cast<int>(static_cast<std::int64_t>(ids.size()) / args.z.rows());
    args.experts = experts;
    args.activation = kSitu;
    args.out = test::mutable_view(out, z);
    expert_mlp(backend, args);
    return out;
  }

  std::int64_t z;
  std::vector<Floats> storage;
  std::vector<ExpertWeights> experts;
};

Floats dense(Backend& backend, const ExpertWeights& e, const Floats& x) {
  Floats out(x.size());
  GluMlpArgs args;
  args.x = test::view(x, e.w1.cols);
  args.gate = e.w1;
  args.up = e.w3;
  args.down = e.w2;
  args.activation = kSitu;
  args.out = test::mutable_view(out, e.w2.rows);
  glu_mlp(backend, args);
  return out;
}

TEST(ExpertMlp, OneExpertOfWeightOneIsTheDenseMlp) {
  const ExpertTable table(2, 12, 20);
  const Floats x = test::random_floats("x", 36);
  for (const auto& backend : {test::reference_f32(), test::reference_bf16()}) {
    EXPECT_EQ(table.run(*backend, x, {1, 1, 1}, {1, 1, 1}), dense(*backend, table.experts[1], x));
  }
}

TEST(ExpertMlp, WeightsApplyAfterTheDownProjection) {
  const ExpertTable table(3, 12, 20);
  const Floats x = test::random_floats("x", 12, 3);
  const auto backend = test::reference_f32();
  const Floats a = dense(*backend, table.experts[2], x), b = dense(*backend, table.experts[0], x);
  const Floats out = table.run(*backend, x, {2, 0}, {.7f, .2f});
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_NEAR(out[i], .7 * a[i] + .2 * b[i], 1e-5);
}

TEST(ExpertMlp, RowsDoNotDependOnTheirNeighbours) {
  const ExpertTable table(4, 12, 20);
  const Floats x = test::random_floats("x", 60);
  const Ids ids = {0, 1, 1, 3, 2, 0, 3, 2, 1, 0};
  const Floats weights = test::random_floats("weights", 10);
  const auto backend = test::reference_bf16();
  const Floats together = table.run(*backend, x, ids, weights);
  for (std::int64_t r = 0; r < 5; ++r) {
    const Ids own(ids.begin() + 2 * r, ids.begin() + 2 * r + 2);
    EXPECT_EQ(table.run(*backend, test::rows_of(x, 12, r, r + 1), own,
                        test::rows_of(weights, 2, r, r + 1)),
              test::rows_of(together, 12, r, r + 1));
  }
}

TEST(StableNorm, OnTheSumForgetsACommonFactorOfTheDownMatrices) {
  ExpertTable table(3, 16, 20);
  const Floats x = test::random_floats("x", 16, 3);
  const auto backend = test::reference_f32();
  const Floats norm(16, 1.0f);
  const auto normed = [&](Floats sum) {
    Floats out(16);
    MixNormArgs args;
    args.prefix = test::mutable_view(sum, 16);
    args.norm = norm.data();
    args.norm_eps = 1e-5f;
    args.out = test::mutable_view(out, 16);
    mix_norm(*backend, args);
    return out;
  };
  const Floats once = table.run(*backend, x, {2, 0}, {.7f, .3f});
  for (std::size_t e = 2; e < table.storage.size(); e += 3) {
    for (float& value : table.storage[e]) value *= 2;
  }
  const Floats twice = table.run(*backend, x, {2, 0}, {.7f, .3f});
  for (std::size_t i = 0; i < once.size(); ++i) EXPECT_NEAR(twice[i], 2 * once[i], 1e-5);
  EXPECT_LT(test::max_difference(normed(once), normed(twice)), 1e-4);
}

TEST(ExpertMlp, PackedFormEqualsItsBf16Values) {
  std::vector<std::vector<std::uint8_t>> packed(3), scales(3);
  std::vector<std::vector<std::uint16_t>> bf16(3);
  ExpertWeights quantised, plain;
  WeightView* views[] = {&quantised.w1, &quantised.w3, &quantised.w2};
  WeightView* plain_views[] = {&plain.w1, &plain.w3, &plain.w2};
  for (std::size_t m = 0; m < 3; ++m) {
    const std::int64_t rows = m == 2 ? 32 : 64, cols = m == 2 ? 64 : 32;
    const Philox random(3, m);
    for (std::int64_t i = 0; i < rows * cols / 2; ++i) {
      packed[m].push_back(
          static_cast<std::uint8_t>(random.block(static_cast<std::uint64_t>(i))[0]));
    }
    for (std::int64_t i = 0; i < rows * cols / 32; ++i) {
      scales[m].push_back(static_cast<std::uint8_t>(120 + i % 5));
    }
    *views[m] = {packed[m].data(), scales[m].data(), WeightFormat::kMxfp4, rows, cols};
    Floats row(static_cast<std::size_t>(cols));
    for (std::int64_t r = 0; r < rows; ++r) {
      decode_mxfp4_row(packed[m].data() + r * cols / 2, scales[m].data() + r * cols / 32, cols,
                       row.data());
      for (const float value : row) {
        ASSERT_EQ(value, round_bf16(value));
        bf16[m].push_back(f32_to_bf16(value));
      }
    }
    *plain_views[m] = {bf16[m].data(), nullptr, WeightFormat::kBf16, rows, cols};
  }
  const Floats x = test::random_floats("x", 64);
  const auto backend = test::reference_f32();
  EXPECT_EQ(dense(*backend, quantised, x), dense(*backend, plain, x));
}

TEST(ExpertMlp, AbsentOrUnknownExpertIsAnError) {
  ExpertTable table(2, 12, 20);
  const Floats x = test::random_floats("x", 12);
  const auto backend = test::reference_f32();
  table.experts[1] = {};
  EXPECT_THAT(test::error_of([&] { table.run(*backend, x, {1}, {1}); }, ErrorCode::kInternal),
              ::testing::HasSubstr("expert 1 is absent"));
  EXPECT_THAT(test::error_of([&] { table.run(*backend, x, {2}, {1}); }, ErrorCode::kInternal),
              ::testing::HasSubstr("id 2 of 2"));
}

}  // namespace
}  // namespace baltoro
