// The rounding points of the specification (section 7), op by op: each op equals a direct
// computation that rounds there, and leaving out any one of them is seen.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "kda_fixture.h"
#include "mla_fixture.h"
#include "op_test_util.h"
#include "ops/embed.h"
#include "ops/expert_mlp.h"

namespace baltoro {
namespace {

using test::Floats;
using Doubles = std::vector<double>;

// Rounds at every point but one: point `skipped` of those passed, counted from 0.
struct Points {
  int skipped = -1;
  double operator()(int point, double value) const {
    return point == skipped ? value : static_cast<double>(round_bf16(static_cast<float>(value)));
  }
};

using Direct = std::function<Floats(Points)>;

void expect_points(const Floats& actual, const Direct& direct, int count) {
  EXPECT_EQ(actual, direct(Points{}));
  for (int point = 0; point < count; ++point) {
    EXPECT_NE(actual, direct(Points{point})) << "point " << point << " has no effect";
  }
}

Floats rounded(Floats values) {
  for (float& value : values) value = round_bf16(value);
  return values;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double silu(double x) { return x / (1 + std::exp(-x)); }

// From a zero state one token writes k beta v and reads (q . k) beta v.
struct OneTokenKda {
  test::KdaStream layer{{1, 16, 24, 1, false}, 1};

  OneTokenKda() {
    for (Floats* values : {&layer.q, &layer.k, &layer.v, &layer.decay, &layer.beta, &layer.gate}) {
      *values = rounded(*values);
    }
  }

  Floats run(Origin origin) const {
    test::KdaPool pool(layer.shape, 1, 0);
    return layer.run(*test::reference_bf16(), pool, {{0, 1, origin, 0, -1}});
  }

  // Points 0 conv, 1 o, 2 out, 3 and 4 the normalised q and k where `prompt`.
  Floats direct(Points round, bool prompt) const {
    const auto conv = [&](const Floats& x, const Floats& taps) {
      Doubles out;
      for (std::size_t c = 0; c < x.size(); ++c) {
        out.push_back(round(0, silu(static_cast<double>(taps[c]) * x[c])));
      }
      return out;
    };
    const auto unit = [&](Doubles x, int point) {
      double square = 0;
      for (const double value : x) square += value * value;
      for (double& value : x) {
        value *= 1 / std::sqrt(square + static_cast<double>(1e-6f));
        if (prompt) value = round(point, value);
      }
      return x;
    };
    const Doubles q = unit(conv(layer.q, layer.q_conv), 3);
    const Doubles k = unit(conv(layer.k, layer.k_conv), 4);
    const Doubles v = conv(layer.v, layer.v_conv);
    double qk = 0;
    for (std::size_t d = 0; d < q.size(); ++d) qk += q[d] * 0.25 * k[d];
    Doubles o;
    double square = 0;
    for (const double value : v) {
      o.push_back(round(1, qk * (sigmoid(layer.beta[0]) * value)));
      square += o.back() * o.back();
    }
    const double scale = 1 / std::sqrt(square / 24 + static_cast<double>(layer.norm_eps));
    Floats out;
    for (std::size_t c = 0; c < o.size(); ++c) {
      out.push_back(
          static_cast<float>(round(2, o[c] * scale * layer.o_norm[c] * sigmoid(layer.gate[c]))));
    }
    return out;
  }
};

TEST(RoundingPoints, KdaPrompt) {
  const OneTokenKda kda;
  expect_points(
      kda.run(Origin::kPrompt), [&](Points p) { return kda.direct(p, true); }, 5);
}

TEST(RoundingPoints, KdaGeneratedKeepsTheNormalisedQAndK) {
  const OneTokenKda kda;
  expect_points(
      kda.run(Origin::kGenerated), [&](Points p) { return kda.direct(p, false); }, 3);
  EXPECT_NE(kda.run(Origin::kPrompt), kda.run(Origin::kGenerated));
}

// With one position in the cache attention is its value. Points: 0 latent before its weight, 1
// after, 2 attention, 3 sigmoid of the gate, 4 out.
TEST(RoundingPoints, Mla) {
  test::MlaStream layer({MlaKind::kLatent, 2, 0, 8, 4, 24, 16}, 1);
  for (Floats* values : {&layer.q, &layer.kv, &layer.gate}) *values = rounded(*values);
  const auto direct = [&](Points round) {
    double square = 0;
    for (std::size_t c = 0; c < 16; ++c) {
      square += static_cast<double>(layer.kv[c]) * layer.kv[c];
    }
    const double scale = 1 / std::sqrt(square / 16 + static_cast<double>(layer.kv_norm_eps));
    Doubles latent;
    for (std::size_t c = 0; c < 16; ++c) {
      latent.push_back(round(1, layer.kv_norm[c] * round(0, layer.kv[c] * scale)));
    }
    Floats out;
    for (std::size_t h = 0; h < 2; ++h) {
      for (std::size_t i = 0; i < 24; ++i) {
        double a = 0;
        for (std::size_t c = 0; c < 16; ++c) {
          a += static_cast<double>(layer.kv_b[(h * 32 + 8 + i) * 16 + c]) * latent[c];
        }
        const double gate = round(3, sigmoid(layer.gate[h * 24 + i]));
        out.push_back(static_cast<float>(round(4, round(2, a) * gate)));
      }
    }
    return out;
  };
  // The cache of the bf16 backend holds bf16: point 1 would be made there again.
  const auto run = [&](Origin origin) {
    std::vector<std::uint16_t> cache(64 * 20, 0x7fc0);
    const std::int32_t id = 0, page = 0;
    const SequenceRows sequence{0, 1, 0, 0, -1, origin, {&page, 1}};
    Floats out(48, test::kNan);
    MlaArgs args;
    args.shape = layer.shape;
    args.batch = {{&id, 1}, {&sequence, 1}};
    args.q = test::view(layer.q, 24);
    args.kv = test::view(layer.kv, 20);
    args.kv_norm = layer.kv_norm.data();
    args.kv_norm_eps = layer.kv_norm_eps;
    args.kv_b = test::f32_weight(layer.kv_b, 16);
    args.gate = test::view(layer.gate, 48);
    args.cache = {cache.data(), DType::kBf16, 1};
    args.out = test::mutable_view(out, 48);
    mla_prefill(*test::reference_bf16(), args);
    mla_decode(*test::reference_bf16(), args);
    return out;
  };
  expect_points(run(Origin::kPrompt), direct, 5);
  expect_points(run(Origin::kGenerated), direct, 5);
}

Doubles product(const Floats& weight, const Doubles& x) {
  Doubles out;
  for (std::size_t r = 0; r < weight.size() / x.size(); ++r) {
    double sum = 0;
    for (std::size_t c = 0; c < x.size(); ++c) {
      sum += static_cast<double>(weight[r * x.size() + c]) * x[c];
    }
    out.push_back(sum);
  }
  return out;
}

// Points: 0 gate, 1 up, 2 activation, 3 down.
Doubles direct_glu(Points round, const std::vector<Floats>& weights, const Floats& x) {
  const Doubles wide(x.begin(), x.end());
  Doubles inner = product(weights[0], wide);
  const Doubles up = product(weights[1], wide);
  for (std::size_t i = 0; i < inner.size(); ++i) {
    const double g = round(0, inner[i]), u = round(1, up[i]);
    inner[i] = round(2, 4 * std::tanh(g / 4) * sigmoid(g) * (25 * std::tanh(u / 25)));
  }
  Doubles out = product(weights[2], inner);
  for (double& value : out) value = round(3, value);
  return out;
}

std::vector<Floats> glu_weights(const std::string& name) {
  return {test::random_floats(name + "gate", 24 * 16), test::random_floats(name + "up", 24 * 16),
          test::random_floats(name + "down", 16 * 24)};
}

constexpr Activation kSitu{ActivationKind::kSitu, 4, 25};

TEST(RoundingPoints, GluMlp) {
  const std::vector<Floats> weights = glu_weights("w");
  const Floats x = rounded(test::random_floats("x", 16, 2));
  const Floats add = rounded(test::random_floats("add", 16));
  Floats out = add;
  GluMlpArgs args;
  args.x = test::view(x, 16);
  args.gate = test::f32_weight(weights[0], 16);
  args.up = test::f32_weight(weights[1], 16);
  args.down = test::f32_weight(weights[2], 24);
  args.activation = kSitu;
  args.out = test::mutable_view(out, 16);
  args.add = args.out;
  glu_mlp(*test::reference_bf16(), args);
  const auto direct = [&](Points round) {
    const Doubles result = direct_glu(round, weights, x);
    Floats sum;
    for (std::size_t i = 0; i < 16; ++i) {
      sum.push_back(static_cast<float>(round(4, add[i] + result[i])));
    }
    return sum;
  };
  expect_points(out, direct, 5);
}

TEST(RoundingPoints, ExpertMlpRoundsEachExpertAndTheSum) {
  const std::vector<Floats> first = glu_weights("first"), second = glu_weights("second");
  const Floats x = rounded(test::random_floats("x", 16, 2));
  const std::int32_t ids[] = {1, 0};
  const float weights[] = {0.3f, 0.6f};
  std::vector<ExpertWeights> experts;
  for (const auto* w : {&first, &second}) {
    experts.push_back({test::f32_weight((*w)[0], 16), test::f32_weight((*w)[1], 16),
                       test::f32_weight((*w)[2], 24)});
  }
  Floats out(16, test::kNan);
  ExpertMlpArgs args;
  args.z = test::view(x, 16);
  args.ids = ids;
  args.weights = weights;
  args.top_k = 2;
  args.experts = experts;
  args.activation = kSitu;
  args.out = test::mutable_view(out, 16);
  expert_mlp(*test::reference_bf16(), args);
  const auto direct = [&](Points round) {
    const Doubles a = direct_glu(round, second, x), b = direct_glu(round, first, x);
    Floats sum;
    for (std::size_t i = 0; i < 16; ++i) {
      sum.push_back(static_cast<float>(round(4, weights[0] * a[i] + weights[1] * b[i])));
    }
    return sum;
  };
  expect_points(out, direct, 5);
}

TEST(RoundingPoints, EmbeddingOfAnF32Table) {
  const Floats table = test::random_floats("table", 3 * 40);
  const std::int32_t id = 2;
  Floats out(40);
  embed(*test::reference_bf16(),
        {test::f32_weight(table, 40), {&id, 1}, test::mutable_view(out, 40)});
  EXPECT_EQ(out, rounded(test::rows_of(table, 40, 2, 3)));
  embed(*test::reference_f32(),
        {test::f32_weight(table, 40), {&id, 1}, test::mutable_view(out, 40)});
  EXPECT_EQ(out, test::rows_of(table, 40, 2, 3));
}

}  // namespace
}  // namespace baltoro
