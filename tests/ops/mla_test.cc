// mla_prefill and mla_decode: the two forms, scale and widths, positions, pages, long caches.
#include "ops/mla.h"

#include <gtest/gtest.h>

#include <cmath>

#include "mla_fixture.h"
#include "ops/reference/mla.h"

namespace baltoro {
namespace {

using test::expect_near;
using test::expect_not;
using test::Floats;
using test::max_difference;
using test::MlaPool;
using test::MlaSlice;
using test::MlaStream;
using test::rows_of;

constexpr Origin kGenerated = Origin::kGenerated;
constexpr Origin kPrompt = Origin::kPrompt;
const MlaShape kLatent{MlaKind::kLatent, 3, 0, 6, 4, 5, 8};
const MlaShape kUnified{MlaKind::kLatent, 3, 0, 10, 0, 5, 12};
const MlaShape kMqa{MlaKind::kMqa, 3, 0, 8, 4, 5, 8};
const MlaShape kGqa{MlaKind::kGqa, 6, 2, 6, 0, 5, 0};

class Kinds : public ::testing::TestWithParam<MlaShape> {};
INSTANTIATE_TEST_SUITE_P(Mla, Kinds, ::testing::Values(kLatent, kUnified, kMqa, kGqa));

// Plain attention by the definition, over keys and values of every head written out.
class AttentionByDefinition {
 public:
  explicit AttentionByDefinition(const MlaStream& layer) : layer_(layer), shape_(layer.shape) {}

  std::vector<double> run() const {
    std::vector<double> out;
    for (std::int64_t t = 0; t < layer_.tokens; ++t) {
      for (std::int64_t h = 0; h < shape_.num_heads; ++h) append_head(t, h, out);
    }
    return out;
  }

 private:
  using Real = long double;

  static Real at(const Floats& values, std::int64_t i) {
    return values[static_cast<std::size_t>(i)];
  }
  std::vector<Real> latent(std::int64_t j) const {
    const std::int64_t width = shape_.kv_rank + shape_.rope_dim;
    Real mean = 0;
    for (std::int64_t c = 0; c < shape_.kv_rank; ++c) {
      mean += at(layer_.kv, j * width + c) * at(layer_.kv, j * width + c);
    }
    mean /= static_cast<Real>(shape_.kv_rank);
    std::vector<Real> out;
    for (std::int64_t c = 0; c < shape_.kv_rank; ++c) {
      out.push_back(at(layer_.kv, j * width + c) / std::sqrt(mean + layer_.kv_norm_eps) *
                    at(layer_.kv_norm, c));
    }
    return out;
  }
  std::vector<Real> up(std::int64_t first_row, std::int64_t count, std::int64_t j) const {
    const std::vector<Real> c = latent(j);
    std::vector<Real> out;
    for (std::int64_t r = first_row; r < first_row + count; ++r) {
      Real sum = 0;
      for (std::size_t i = 0; i < c.size(); ++i) {
        sum += at(layer_.kv_b, r * shape_.kv_rank + static_cast<std::int64_t>(i)) * c[i];
      }
      out.push_back(sum);
    }
    return out;
  }
  std::vector<Real> slice(const Floats& from, std::int64_t begin, std::int64_t count) const {
    return {from.begin() + begin, from.begin() + begin + count};
  }
  std::vector<Real> key(std::int64_t h, std::int64_t j) const {
    if (shape_.kind == MlaKind::kGqa) {
      const std::int64_t g = h * shape_.num_kv_heads / shape_.num_heads;
      return slice(layer_.kv, (j * shape_.num_kv_heads + g) * shape_.nope_dim, shape_.nope_dim);
    }
    std::vector<Real> k = shape_.kind == MlaKind::kMqa
                              ? latent(j)
                              : up(h * (shape_.nope_dim + shape_.v_head_dim), shape_.nope_dim, j);
    const std::int64_t width = shape_.kv_rank + shape_.rope_dim;
    for (const Real s : slice(layer_.kv, j * width + shape_.kv_rank, shape_.rope_dim)) {
      k.push_back(s);
    }
    return k;
  }
  std::vector<Real> value(std::int64_t h, std::int64_t j) const {
    const std::int64_t dv = shape_.v_head_dim;
    if (shape_.kind == MlaKind::kGqa) {
      const std::int64_t g = h * shape_.num_kv_heads / shape_.num_heads;
      return slice(layer_.v, (j * shape_.num_kv_heads + g) * dv, dv);
    }
    return shape_.kind == MlaKind::kMqa ? up(h * dv, dv, j)
                                        : up(h * (shape_.nope_dim + dv) + shape_.nope_dim, dv, j);
  }
  void append_head(std::int64_t t, std::int64_t h, std::vector<double>& out) const {
    const std::int64_t dq = shape_.qk_dim();
    const std::vector<Real> q = slice(layer_.q, (t * shape_.num_heads + h) * dq, dq);
    std::vector<Real> sum(static_cast<std::size_t>(shape_.v_head_dim), 0);
    Real total = 0;
    for (std::int64_t j = 0; j <= t; ++j) {
      const std::vector<Real> k = key(h, j), v = value(h, j);
      Real score = 0;
      for (std::size_t d = 0; d < q.size(); ++d) score += q[d] * k[d];
      const Real weight = std::exp(score / std::sqrt(static_cast<Real>(dq)));
      total += weight;
      for (std::size_t c = 0; c < v.size(); ++c) sum[c] += weight * v[c];
    }
    for (std::size_t c = 0; c < sum.size(); ++c) {
      const Real gate = 1 / (1 + std::exp(-at(layer_.gate, static_cast<std::int64_t>(out.size()))));
      out.push_back(static_cast<double>(sum[c] / total * gate));
    }
  }

  const MlaStream& layer_;
  const MlaShape& shape_;
};

TEST_P(Kinds, ExpandedAndAbsorbedEqualTheDefinition) {
  const MlaStream layer(GetParam(), 70);
  const std::vector<double> expected = AttentionByDefinition(layer).run();
  for (const Origin origin : {kPrompt, kGenerated}) {
    expect_near(layer.run_as(*test::reference_f32(), origin), expected, 2e-6);
  }
}

TEST_P(Kinds, EarlierTokensAreSeen) {
  MlaStream layer(GetParam(), 5);
  for (const Origin origin : {kPrompt, kGenerated}) {
    const auto backend = test::reference_f32();
    const Floats before = layer.run_as(*backend, origin);
    MlaStream changed = layer;
    changed.kv[0] += 1;
    if (!changed.v.empty()) changed.v[0] += 1;
    const Floats after = changed.run_as(*backend, origin);
    const std::int64_t cols = layer.shape.num_heads * layer.shape.v_head_dim;
    EXPECT_GT(max_difference(rows_of(before, cols, 4, 5), rows_of(after, cols, 4, 5)), 1e-3);
  }
}

TEST_P(Kinds, LaterTokensAreNotSeen) {
  MlaStream layer(GetParam(), 70);
  const auto backend = test::reference_f32();
  const Floats before = layer.run_as(*backend, kPrompt);
  layer.kv.back() += 3;
  const Floats after = layer.run_as(*backend, kPrompt);
  const std::int64_t cols = layer.shape.num_heads * layer.shape.v_head_dim;
  EXPECT_EQ(rows_of(before, cols, 0, 69), rows_of(after, cols, 0, 69));
}

TEST_P(Kinds, SplitsOfThePromptGiveTheSameBits) {
  const MlaStream layer(GetParam(), 140);
  for (const auto& backend : {test::reference_f32()}) {
    const Floats whole = layer.run_as(*backend, kPrompt);
    for (const std::int64_t cut : {1, 5, 63, 64, 65, 139}) {
      SCOPED_TRACE(cut);
      EXPECT_EQ(whole, layer.run_alone(*backend, {{0, cut, kPrompt}, {cut, 140, kPrompt}}));
    }
    const Floats generated = layer.run_as(*backend, kGenerated);
    EXPECT_EQ(generated,
              layer.run_alone(*backend,
                              {{0, 1, kGenerated}, {1, 64, kGenerated}, {64, 140, kGenerated}}));
  }
}

TEST_P(Kinds, OrderOfEarlierTokensDoesNotMatterWithoutRotation) {
  const MlaStream layer(GetParam(), 70);
  MlaStream permuted = layer;
  const auto swap_rows = [](Floats& values, std::int64_t cols, std::int64_t a, std::int64_t b) {
    std::swap_ranges(values.begin() + a * cols, values.begin() + (a + 1) * cols,
                     values.begin() + b * cols);
  };
  for (const auto& [a, b] : {std::pair{0, 68}, {5, 33}, {10, 66}}) {
    swap_rows(permuted.kv, static_cast<std::int64_t>(permuted.kv.size()) / 70, a, b);
    if (!permuted.v.empty()) {
      swap_rows(permuted.v, static_cast<std::int64_t>(permuted.v.size()) / 70, a, b);
    }
  }
  const std::int64_t cols = layer.shape.num_heads * layer.shape.v_head_dim;
  for (const Origin origin : {kPrompt, kGenerated}) {
    const auto backend = test::reference_f32();
    const Floats a = rows_of(layer.run_as(*backend, origin), cols, 69, 70);
    const Floats b = rows_of(permuted.run_as(*backend, origin), cols, 69, 70);
    EXPECT_LT(max_difference(a, b), 1e-6);
  }
}

TEST_P(Kinds, PageIdsDoNotMatterAndOtherPagesStayUntouched) {
  const MlaStream layer(GetParam(), 150);
  const auto backend = test::reference_f32();
  const Floats expected = layer.run_as(*backend, kPrompt);
  MlaPool pool(layer.shape, 9);
  EXPECT_EQ(expected, layer.run(*backend, pool, {7, 0, 4}, {0, 150, kPrompt}));
  for (const std::int64_t page : {1, 2, 3, 5, 6, 8}) {
    for (std::int64_t i = 0; i < kBlockTokens * pool.width; ++i) {
      ASSERT_TRUE(std::isnan(pool.row(page, 0)[i]));
    }
  }
  EXPECT_TRUE(std::isnan(pool.row(4, 150 - 128)[0])) << "a row behind the last token";
  EXPECT_FALSE(std::isnan(pool.row(4, 149 - 128)[0]));
}

TEST_P(Kinds, SequencesOfABatchEqualSoloAndEachOpServesItsOrigin) {
  MlaStream layer(GetParam(), 100);
  const auto backend = test::reference_f32();
  const std::vector<MlaSlice> batch = {{0, 70, kPrompt, {4, 1}},
                                       {0, 1, kGenerated, {3}},
                                       {0, 1, kPrompt, {7}},
                                       {0, 5, kGenerated, {0}}};
  MlaPool pool(layer.shape, 8);
  const Floats together = layer.run_batch(*backend, pool, batch);
  const std::int64_t cols = layer.shape.num_heads * layer.shape.v_head_dim;
  MlaPool prompts_only(layer.shape, 8);
  const Floats prompts = layer.run_batch(*backend, prompts_only, batch, true, false);
  std::int64_t row = 0;
  for (const MlaSlice& s : batch) {
    const std::int64_t end = row + s.end - s.begin;
    const Floats own = rows_of(together, cols, row, end);
    MlaPool solo(layer.shape, 2);
    EXPECT_EQ(layer.run(*backend, solo, {0, 1}, {s.begin, s.end, s.origin}), own);
    const Floats prefilled = rows_of(prompts, cols, row, end);
    if (s.origin == kPrompt) {
      EXPECT_EQ(prefilled, own);
    } else {
      for (const float value : prefilled) EXPECT_TRUE(std::isnan(value));
    }
    EXPECT_EQ(std::isnan(*prompts_only.row(s.pages[0], 0)), s.origin == kGenerated);
    row = end;
  }
}

// Two cached tokens whose scores are 10 * scale and 0 through the side branch alone, and whose
// values are the unit vectors: the output shows the probabilities.
MlaStream side_branch_probe() {
  MlaStream layer({MlaKind::kLatent, 1, 0, 128, 64, 2, 2}, 2);
  layer.gate.clear();
  layer.kv.assign(layer.kv.size(), 0);
  layer.q.assign(layer.q.size(), 0);
  layer.kv_norm = {1, 1};
  layer.kv_norm_eps = 0;
  layer.kv[0] = 1;  // token 0: latent (1, 0), side key 2 in its last channel
  layer.kv[65] = 2;
  layer.kv[66 + 1] = 1;         // token 1: latent (0, 1), no side key
  layer.q[192 + 128 + 63] = 5;  // the query of token 1, side part only
  layer.kv_b.assign(layer.kv_b.size(), 0);
  const float root = std::sqrt(0.5f);
  layer.kv_b[128 * 2] = root;  // value rows: c / sqrt(2)
  layer.kv_b[129 * 2 + 1] = root;
  return layer;
}

TEST(SideBranch, TailAloneSteersAttentionWithTheScaleOfTheWholeQueryWidth) {
  const MlaStream layer = side_branch_probe();
  for (const Origin origin : {kPrompt, kGenerated}) {
    const Floats out = rows_of(layer.run_as(*test::reference_f32(), origin), 2, 1, 2);
    const auto probabilities = [](double scale) {
      const double p = 1 / (1 + std::exp(-10 * scale));
      return std::vector<double>{p, 1 - p};
    };
    expect_near(out, probabilities(0.0721688), 1e-6);
    expect_not(out, probabilities(0.0416667), 0.05);
    expect_not(out, probabilities(0.0883883), 0.03);
    expect_not(out, {0.5, 0.5}, 0.1);
  }
}

TEST(CacheRow, HoldsTheNormalisedLatentAndTheRawSideKey) {
  const MlaStream layer(kLatent, 3);
  MlaPool pool(kLatent, 1);
  layer.run(*test::reference_f32(), pool, {0}, {0, 3, kPrompt});
  double mean = 0;
  for (std::size_t c = 0; c < 8; ++c) mean += layer.kv[c] * layer.kv[c] / 8;
  std::vector<double> expected;
  for (std::size_t c = 0; c < 8; ++c) {
    expected.push_back(layer.kv[c] / std::sqrt(mean + 1e-6) * layer.kv_norm[c]);
  }
  for (std::size_t c = 8; c < 12; ++c) expected.push_back(layer.kv[c]);
  expect_near(Floats(pool.row(0, 0), pool.row(0, 1)), expected, 1e-6);
}

TEST(NativeMqa, EqualsLatentWithIdentityKeyProjection) {
  const MlaStream mqa(kMqa, 70);
  MlaShape latent_shape = kMqa;
  latent_shape.kind = MlaKind::kLatent;
  MlaStream latent(latent_shape, 70);
  latent.kv_b.clear();
  for (std::int64_t h = 0; h < 3; ++h) {
    for (std::size_t r = 0; r < 8; ++r) {
      for (std::size_t c = 0; c < 8; ++c) latent.kv_b.push_back(r == c ? 1.0f : 0.0f);
    }
    const Floats values = rows_of(mqa.kv_b, 8, h * 5, (h + 1) * 5);
    latent.kv_b.insert(latent.kv_b.end(), values.begin(), values.end());
  }
  for (const Origin origin : {kPrompt, kGenerated}) {
    const auto backend = test::reference_f32();
    EXPECT_LT(max_difference(mqa.run_as(*backend, origin), latent.run_as(*backend, origin)), 1e-6);
  }
}

TEST(GroupedHeads, EqualMultiHeadWithRepeatedKeysAndValues) {
  const MlaStream grouped(kGqa, 20);
  MlaShape full_shape = kGqa;
  full_shape.num_kv_heads = 6;
  MlaStream full(full_shape, 20);
  full.q = grouped.q;
  full.gate = grouped.gate;
  for (std::size_t t = 0; t < 20; ++t) {
    for (std::size_t h = 0; h < 6; ++h) {
      for (std::size_t d = 0; d < 6; ++d) {
        full.kv[(t * 6 + h) * 6 + d] = grouped.kv[(t * 2 + h / 3) * 6 + d];
      }
      for (std::size_t d = 0; d < 5; ++d) {
        full.v[(t * 6 + h) * 5 + d] = grouped.v[(t * 2 + h / 3) * 5 + d];
      }
    }
  }
  const auto backend = test::reference_f32();
  EXPECT_EQ(grouped.run_as(*backend, kPrompt), full.run_as(*backend, kPrompt));
  EXPECT_EQ(grouped.run_as(*backend, kGenerated), full.run_as(*backend, kPrompt));
}

TEST(OutputGate, SigmoidOfTheGateElementwise) {
  const MlaStream gated(kLatent, 6);
  MlaStream plain = gated;
  plain.gate.clear();
  const auto backend = test::reference_f32();
  const Floats a = gated.run_as(*backend, kPrompt), b = plain.run_as(*backend, kPrompt);
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(a[i], b[i] / (1 + std::exp(-gated.gate[i])), 1e-6);
  }
}

TEST(Rotation, AdjacentPairsByPositionAndPairIndex) {
  std::vector<double> side = {1, 0, 0, 2};
  reference::rotate(side, 3, 100);
  expect_near(side, {std::cos(3), std::sin(3), -2 * std::sin(0.3), 2 * std::cos(0.3)}, 1e-12);
  std::vector<double> origin = {1, 2, 3, 4};
  reference::rotate(origin, 0, 100);
  expect_near(origin, {1, 2, 3, 4}, 0);
}

TEST(Rotation, ScoresDependOnTheDistanceAlone) {
  std::vector<double> dots;
  for (const std::int64_t shift : {0, 7, 100000}) {
    std::vector<double> q = {.3, -1, 2, .5}, k = {1, .2, -.4, .9};
    reference::rotate(q, 12 + shift, 10000);
    reference::rotate(k, 5 + shift, 10000);
    dots.push_back(q[0] * k[0] + q[1] * k[1] + q[2] * k[2] + q[3] * k[3]);
  }
  EXPECT_NEAR(dots[0], dots[1], 1e-9);
  EXPECT_NEAR(dots[0], dots[2], 1e-9);
}

TEST(Rotation, ChangesTheResultAndIsCached) {
  MlaStream layer(kLatent, 70);
  const auto backend = test::reference_f32();
  const Floats plain = layer.run_as(*backend, kPrompt);
  layer.rope_theta = 10000.0f;
  const Floats expanded = layer.run_as(*backend, kPrompt);
  EXPECT_GT(max_difference(plain, expanded), 1e-2);
  EXPECT_LT(max_difference(expanded, layer.run_as(*backend, kGenerated)), 1e-6);
  MlaPool pool(kLatent, 2);
  layer.run(*backend, pool, {0, 1}, {0, 70, kPrompt});
  std::vector<double> side(layer.kv.begin() + 69 * 12 + 8, layer.kv.begin() + 70 * 12);
  reference::rotate(side, 69, 10000);
  expect_near(Floats(pool.row(1, 5) + 8, pool.row(1, 6)), side, 1e-6);
}

// A cache of n rows whose keys are all equal, so that attention is the mean of the values.
class LongCache : public ::testing::TestWithParam<std::int64_t> {};
INSTANTIATE_TEST_SUITE_P(Mla, LongCache,
                         ::testing::Values(11000, 12288, 12289, 65537, 70001, 131072));

TEST_P(LongCache, EqualKeysGiveTheMeanOfAllValues) {
  const std::int64_t n = GetParam();
  const MlaShape shape{MlaKind::kLatent, 1, 0, 1, 1, 2, 2};
  MlaPool pool(shape, (n + kBlockTokens - 1) / kBlockTokens);
  std::vector<std::int32_t> pages;
  for (std::int64_t p = pool.num_pages; p-- > 0;) pages.push_back(static_cast<std::int32_t>(p));
  double sum[2] = {0, 0};
  for (std::int64_t j = 0; j + 1 < n; ++j) {
    float* row = pool.row(pages[static_cast<std::size_t>(j / kBlockTokens)], j % kBlockTokens);
    row[0] = static_cast<float>(j % 1000);
    row[1] = j < n / 2 ? 1.0f : 0.0f;
    row[2] = 0.25f;
    sum[0] += row[0];
    sum[1] += row[1];
  }
  MlaStream layer(shape, n);
  layer.gate.clear();
  layer.kv_b = {0, 0, 1, 0, 0, 1};  // no key content; values are the latent
  layer.kv_norm = {1, 1};
  layer.kv_norm_eps = 0;
  std::fill(layer.kv.begin(), layer.kv.end(), 0.25f);  // the new latent normalises to (1, 1)
  for (const Origin origin : {kPrompt, kGenerated}) {
    const Floats out = layer.run(*test::reference_f32(), pool, pages, {n - 1, n, origin});
    const double count = static_cast<double>(n);
    expect_near(out, {(sum[0] + 1) / count, (sum[1] + 1) / count}, 1e-3);
    EXPECT_NEAR(out[1], (sum[1] + 1) / count, 1e-6);
  }
}

}  // namespace
}  // namespace baltoro
