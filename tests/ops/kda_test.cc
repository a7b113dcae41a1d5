// kda_mix: gates, conv, norms, and the whole layer against its definition.
#include "ops/kda.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kda_fixture.h"
#include "ops/reference/kda.h"

namespace baltoro {
namespace {

using test::expect_near;
using test::expect_not;
using test::Floats;
using test::KdaPool;
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

TEST(DecayGate, BoundedAndSoftplusGoldens) {
  struct Golden {
    double a_log, z, bounded, softplus;
  };
  for (const Golden& g :
       {Golden{0, 0, -2.5, -0.693147181}, Golden{0, 1, -3.65529289, -1.31326169},
        Golden{1.5, .25, -3.77033517, -3.70160367}, Golden{-1, 3, -3.75470598, -1.12151261},
        Golden{std::log(2.0), .5, -3.6552929, -1.9481540}}) {
    EXPECT_NEAR(reference::log_decay(g.z, g.a_log, -5.0f), g.bounded, 1e-7);
    EXPECT_NEAR(reference::log_decay(g.z, g.a_log, std::nullopt), g.softplus, 1e-7);
  }
}

TEST(DecayGate, BoundIsAnotherFormulaNotAClamp) {
  const double clamped = std::max(-5.0, reference::log_decay(.5, std::log(2.0), std::nullopt));
  EXPECT_GT(std::fabs(reference::log_decay(.5, std::log(2.0), -5.0f) - clamped), 1);
}

TEST(DecayGate, LargeLogitsSaturateWithoutNan) {
  EXPECT_DOUBLE_EQ(reference::log_decay(1e4, 1, -5.0f), -5.0);
  EXPECT_EQ(reference::log_decay(-1e4, 1, -5.0f), 0);
  EXPECT_NEAR(reference::log_decay(1000, 0, std::nullopt), -1000, 1e-9);
  EXPECT_EQ(reference::log_decay(-1e4, 1, std::nullopt), 0);
}

TEST(BetaSigmoid, Goldens) {
  EXPECT_NEAR(reference::sigmoid(-2), 0.1192029, 1e-7);
  EXPECT_NEAR(reference::sigmoid(1.7), 0.8455347, 1e-7);
}

TEST(ShortConv, LastTapMultipliesTheCurrentToken) {
  const float taps[4] = {1, 10, 100, 1000};
  const double stream[8] = {0, 0, 0, 1, 2, 3, 4, 5};
  const double expected[5] = {1000, 2100, 3210, 4321, 5432};
  for (std::size_t t = 0; t < 5; ++t) {
    EXPECT_EQ(reference::short_conv(taps, {stream + t, 4}), expected[t]);
  }
}

TEST(L2Norm, SumNotMeanAndEpsInsideTheRoot) {
  std::vector<double> k = {1e-3, 0, 0, 0};
  reference::l2_norm(k);
  expect_near(k, {0.7071068, 0, 0, 0}, 1e-6);
  expect_not(k, {0.9999995, 0, 0, 0}, 0.1);
  std::vector<double> zero(4, 0.0);
  reference::l2_norm(zero);
  expect_near(zero, {0, 0, 0, 0}, 0);
  std::vector<double> unit = {3, 4};
  reference::l2_norm(unit);
  expect_near(unit, {.6, .8}, 1e-7);
}

// A layer of one key channel whose outputs are the state's rows: conv of one tap, no decay, no
// write.
KdaStream pass_through(std::int64_t heads) {
  KdaStream layer({heads, 1, 2, 1, false}, 1);
  for (Floats* taps : {&layer.q_conv, &layer.k_conv, &layer.v_conv}) taps->assign(taps->size(), 1);
  layer.q.assign(layer.q.size(), 100);
  layer.beta.assign(layer.beta.size(), -1000);
  layer.decay.assign(layer.decay.size(), -1000);
  layer.o_norm.assign(layer.o_norm.size(), 1);
  layer.gate.clear();
  layer.norm_eps = 0;
  return layer;
}

TEST(OutputNorm, PerHeadNotOverAllChannels) {
  const KdaStream layer = pass_through(2);
  KdaPool pool(layer.shape, 1, 0);
  pool.state = {1, 1, 10, 10};
  for (const Origin origin : {kPrompt, kGenerated}) {
    const Floats out = layer.run(*test::reference_f32(), pool, {{0, 1, origin, 0, -1}});
    expect_near(out, {1, 1, 1, 1}, 1e-6);
    expect_not(out, {.1407, .1407, 1.4072, 1.4072}, 0.1);
  }
}

TEST(OutputNorm, NormFirstThenSigmoidGate) {
  KdaStream layer = pass_through(1);
  layer.gate = {0.5f, -1};
  layer.o_norm = {2, 3};
  KdaPool pool(layer.shape, 1, 0);
  pool.state = {3, 4};
  const Floats out = layer.run(*test::reference_f32(), pool, {{0, 1, kPrompt, 0, -1}});
  const double rms = std::sqrt(12.5);
  const double g0 = 1 / (1 + std::exp(-0.5)), g1 = 1 / (1 + std::exp(1.0));
  expect_near(out, {3 / rms * 2 * g0, 4 / rms * 3 * g1}, 1e-6);
  const double s0 = 0.5 * g0, s1 = -g1;
  expect_not(out, {3 / rms * 2 * s0, 4 / rms * 3 * s1}, 0.1);
}

TEST(OutputNorm, SmallOutputsFeelTheEpsAndTheQueryScale) {
  KdaStream layer = pass_through(1);
  layer.norm_eps = 1e-5f;
  KdaPool pool(layer.shape, 1, 0);
  pool.state = {3e-3f, 3e-3f};
  const Floats out = layer.run(*test::reference_f32(), pool, {{0, 1, kPrompt, 0, -1}});
  EXPECT_NEAR(out[0], 3e-3 / std::sqrt(9e-6 + 1e-5), 1e-5);
}

// The whole layer once more, in the matrix form S = (I - beta k k^T) Diag(alpha) S + beta k v^T, by
// direct loops over the definition.
class LayerByDefinition {
 public:
  using Real = long double;

  explicit LayerByDefinition(const KdaStream& layer) : layer_(layer), shape_(layer.shape) {}

  std::vector<double> run() const {
    std::vector<double> out(static_cast<std::size_t>(layer_.tokens * shape_.value_channels()));
    for (std::int64_t h = 0; h < shape_.num_heads; ++h) {
      State state(static_cast<std::size_t>(shape_.head_dim_k),
                  std::vector<Real>(static_cast<std::size_t>(shape_.head_dim_v), 0));
      for (std::int64_t t = 0; t < layer_.tokens; ++t) normed(read(state, h, t), h, t, out);
    }
    return out;
  }

 private:
  using State = std::vector<std::vector<Real>>;

  static Real at(const Floats& values, std::int64_t i) {
    return values[static_cast<std::size_t>(i)];
  }

  Real conv_silu(const Floats& x, const Floats& taps, std::int64_t channels, std::int64_t t,
                 std::int64_t c) const {
    Real y = 0;
    for (std::int64_t back = 0; back < shape_.conv_width && back <= t; ++back) {
      y += at(taps, (c + 1) * shape_.conv_width - 1 - back) * at(x, (t - back) * channels + c);
    }
    return y / (1 + std::exp(-y));
  }

  // The conv of one head's q or k, of unit length.
  std::vector<Real> unit(const Floats& x, const Floats& taps, std::int64_t h,
                         std::int64_t t) const {
    std::vector<Real> out;
    Real square = 1e-6L;
    for (std::int64_t d = 0; d < shape_.head_dim_k; ++d) {
      const std::int64_t c = h * shape_.head_dim_k + d;
      out.push_back(conv_silu(x, taps, shape_.key_channels(), t, c));
      square += out.back() * out.back();
    }
    for (Real& value : out) value /= std::sqrt(square);
    return out;
  }

  Real alpha(std::int64_t h, std::int64_t d, std::int64_t t) const {
    const std::int64_t c = shape_.decay_per_head ? h : h * shape_.head_dim_k + d;
    const Real z = at(layer_.decay, t * shape_.decay_channels() + c) + at(layer_.dt_bias, c);
    const Real rate = std::exp(at(layer_.a_log, h));
    return layer_.bound ? std::exp(*layer_.bound / (1 + std::exp(-rate * z)))
                        : std::exp(-rate * std::log(1 + std::exp(z)));
  }

  // Advances one head's state by token t and returns S^T q.
  std::vector<Real> read(State& state, std::int64_t h, std::int64_t t) const {
    const std::vector<Real> q = unit(layer_.q, layer_.q_conv, h, t);
    const std::vector<Real> k = unit(layer_.k, layer_.k_conv, h, t);
    const Real beta = 1 / (1 + std::exp(-at(layer_.beta, t * shape_.num_heads + h)));
    const State before = state;
    std::vector<Real> out;
    for (std::size_t c = 0; c < state[0].size(); ++c) {
      const Real v = conv_silu(layer_.v, layer_.v_conv, shape_.value_channels(), t,
                               h * shape_.head_dim_v + static_cast<std::int64_t>(c));
      Real sum = 0;
      for (std::size_t i = 0; i < k.size(); ++i) {
        Real value = beta * k[i] * v;
        for (std::size_t j = 0; j < k.size(); ++j) {
          value += ((i == j) - beta * k[i] * k[j]) * alpha(h, static_cast<std::int64_t>(j), t) *
                   before[j][c];
        }
        state[i][c] = value;
        sum += value * q[i];
      }
      out.push_back(sum / std::sqrt(static_cast<Real>(k.size())));
    }
    return out;
  }

  void normed(const std::vector<Real>& o, std::int64_t h, std::int64_t t,
              std::vector<double>& out) const {
    Real mean = 0;
    for (const Real x : o) mean += x * x / static_cast<Real>(o.size());
    for (std::size_t c = 0; c < o.size(); ++c) {
      const std::int64_t i =
          t * shape_.value_channels() + h * shape_.head_dim_v + static_cast<std::int64_t>(c);
      const Real gate = 1 / (1 + std::exp(-at(layer_.gate, i)));
      out[static_cast<std::size_t>(i)] =
          static_cast<double>(o[c] / std::sqrt(mean + layer_.norm_eps) * layer_.o_norm[c] * gate);
    }
  }

  const KdaStream& layer_;
  const KdaShape& shape_;
};

class Variants : public ::testing::TestWithParam<std::tuple<bool, bool>> {
 protected:
  KdaStream stream(std::int64_t tokens) const {
    const auto [bounded, per_head] = GetParam();
    KdaStream layer({2, 6, 10, 4, per_head}, tokens);
    if (!bounded) layer.bound.reset();
    return layer;
  }
};
INSTANTIATE_TEST_SUITE_P(Kda, Variants, ::testing::Combine(::testing::Bool(), ::testing::Bool()));

TEST_P(Variants, BothOriginsEqualTheDefinition) {
  const KdaStream layer = stream(150);
  const std::vector<double> expected = LayerByDefinition(layer).run();
  for (const Origin origin : {kPrompt, kGenerated}) {
    KdaPool pool = fresh_pool(layer.shape);
    const Floats out = layer.run(*test::reference_f32(), pool, {{0, 150, origin, 0, -1}});
    expect_near(out, expected, 2e-5);
  }
}

TEST_P(Variants, PrefillThenDecodeEqualsPureRecurrence) {
  const KdaStream layer = stream(100);
  const auto backend = test::reference_f32();
  KdaPool recurrent = fresh_pool(layer.shape), mixed = fresh_pool(layer.shape);
  const Floats expected = layer.run(*backend, recurrent, {{0, 100, kGenerated, 0, -1}});
  const Floats actual = layer.run_alone(
      *backend, mixed,
      {{0, 70, kPrompt, 0, -1}, {70, 71, kGenerated, 0, -1}, {71, 100, kGenerated, 0, -1}});
  EXPECT_LT(max_difference(expected, actual), 2e-5);
  EXPECT_LT(max_difference(recurrent.state_of(0), mixed.state_of(0)), 1e-5);
}

TEST_P(Variants, EveryLengthEqualsTheRecurrence) {
  const KdaStream layer = stream(500);
  const auto backend = test::reference_f32();
  for (const std::int64_t n : {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 500}) {
    SCOPED_TRACE(n);
    KdaPool a = fresh_pool(layer.shape), b = fresh_pool(layer.shape);
    const Floats chunk = layer.run(*backend, a, {{0, n, kPrompt, 0, -1}});
    const Floats step = layer.run(*backend, b, {{0, n, kGenerated, 0, -1}});
    EXPECT_LT(max_difference(chunk, step), 2e-5);
    EXPECT_LT(max_difference(a.state_of(0), b.state_of(0)), 1e-5);
    EXPECT_EQ(a.conv_of(0), b.conv_of(0)) << "the conv history must not depend on the form";
  }
}

TEST(DecayPerHead, EqualsTiedChannels) {
  KdaStream tied({2, 6, 10, 4, false}, 70);
  KdaStream per_head({2, 6, 10, 4, true}, 70);
  for (std::size_t c = 0; c < tied.dt_bias.size(); ++c) tied.dt_bias[c] = per_head.dt_bias[c / 6];
  for (std::size_t i = 0; i < tied.decay.size(); ++i) {
    tied.decay[i] = per_head.decay[i / 12 * 2 + i % 12 / 6];
  }
  for (const Origin origin : {kPrompt, kGenerated}) {
    KdaPool a = fresh_pool(), b = fresh_pool();
    const auto backend = test::reference_f32();
    EXPECT_EQ(tied.run(*backend, a, {{0, 70, origin, 0, -1}}),
              per_head.run(*backend, b, {{0, 70, origin, 0, -1}}));
  }
}

TEST(ALogAxis, OneValuePerHeadOverAllItsChannels) {
  KdaStream layer(kShape, 5);
  KdaPool a = fresh_pool(), b = fresh_pool();
  const auto backend = test::reference_f32();
  const Floats before = layer.run(*backend, a, {{0, 5, kPrompt, 0, -1}});
  layer.a_log[1] += 0.5f;
  const Floats after = layer.run(*backend, b, {{0, 5, kPrompt, 0, -1}});
  for (std::size_t i = 0; i < after.size(); ++i) {
    const bool second_head = i % 20 >= 10;
    // The first token reads a state that was zero: no decay shows there.
    if (!second_head || i < 20) {
      EXPECT_EQ(before[i], after[i]) << i;
    }
  }
  EXPECT_GT(max_difference(rows_of(before, 20, 4, 5), rows_of(after, 20, 4, 5)), 1e-3);
}

TEST(Roundings, Bf16ModeStoresBf16ValuesAndKeepsTheStateF32) {
  const KdaStream layer(kShape, 70);
  KdaPool pool = fresh_pool();
  const Floats out = layer.run(*test::reference_bf16(), pool, {{0, 70, kPrompt, 0, -1}});
  for (const float value : out) EXPECT_EQ(value, round_bf16(value));
  const Floats state = pool.state_of(0);
  EXPECT_TRUE(std::any_of(state.begin(), state.end(),
                          [](float value) { return value != round_bf16(value); }));
}

}  // namespace
}  // namespace baltoro
