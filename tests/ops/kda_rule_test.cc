// The delta rule alone, against goldens in exact arithmetic and against its own two forms: order of
// decay and prediction, axis of the decay, strong decay, ill-conditioned chunks.
#include "ops/reference/kda_rule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "op_test_util.h"

namespace baltoro::reference {
namespace {

using test::expect_near;
using test::expect_not;
using Doubles = std::vector<double>;

Doubles log_of(Doubles alpha) {
  for (double& value : alpha) value = std::log(value);
  return alpha;
}

struct Result {
  Doubles out, state;
};

Result run_recurrent(const RuleInputs& in, Doubles state) {
  Doubles out(static_cast<std::size_t>(in.n * in.dv));
  for (std::int64_t i = 0; i < in.n; ++i) {
    kda_recurrent_step(in, i, state.data(), out.data() + i * in.dv);
  }
  return {out, state};
}

Result run_chunk(const RuleInputs& in, Doubles state) {
  Doubles out(static_cast<std::size_t>(in.n * in.dv));
  kda_chunk(in, state.data(), out.data());
  return {out, state};
}

Result run_form(bool chunk, const RuleInputs& in) {
  const Doubles zero(static_cast<std::size_t>(in.dk * in.dv), 0.0);
  return chunk ? run_chunk(in, zero) : run_recurrent(in, zero);
}

class BothForms : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(DeltaRule, BothForms, ::testing::Values(false, true),
                         [](const auto& form) { return form.param ? "Chunk" : "Recurrent"; });

TEST_P(BothForms, PredictsFromTheDecayedState) {
  const RuleInputs in{3,
                      3,
                      2,
                      {1, 0, 0, 0, 1, 0, .6, 0, .8},
                      {1, 0, 0, .6, .8, 0, 0, .6, .8},
                      {1, 2, 3, -1, -2, 4},
                      log_of({1, 1, 1, .5, 1, .25, std::exp(-5.0), .5, 1}),
                      {1, .5, .25}};
  const Result result = run_form(GetParam(), in);
  expect_near(result.out, {1, 2, 1.08, -0.64, -0.366543974, 0.672822239}, 1e-9);
  expect_near(result.state, {.008826711, .003503732, .1914, .3088, -.4648, .8384}, 1e-9);
  const Doubles undecayed = {1, 2, .96, -.88, -.407227823, .725854541};
  expect_not(result.out, undecayed, 0.05);
}

TEST_P(BothForms, DecaysKeyChannelsNotValueChannels) {
  const RuleInputs in{3,
                      2,
                      2,
                      {1, 0, .6, .8, .6, .8},
                      {1, 0, 0, 1, .6, .8},
                      {1, 2, 3, 4, -1, 1},
                      log_of({1, .5, 1, .5, 1, .5}),
                      {1, 1, .5}};
  const Result result = run_form(GetParam(), in);
  expect_near(result.out, {1, 2, 3, 4.4, .4, 1.9}, 1e-12);
  expect_not(result.out, {1, 2, 3, 3.8, 1, 1.45}, 0.1);
}

TEST_P(BothForms, SpecificationVectorReadsAfterTheWrite) {
  const double s = 1 / std::sqrt(2.0);
  const RuleInputs in{2,
                      2,
                      2,
                      {s, 0, .6 * s, .8 * s},
                      {.6, .8, 1, 0},
                      {1, 2, 3, -1},
                      log_of({.5, .9, .25, .8}),
                      {.5, .75}};
  const Result result = run_form(GetParam(), in);
  expect_near(result.out, {.212132034, .424264069, 1.14356844, .059750523}, 1e-8);
  expect_near(result.state, {2.26875, -.7125, .32, .64}, 1e-12);
  const Doubles read_before_write = {0, 0};
  expect_not(Doubles(result.out.begin(), result.out.begin() + 2), read_before_write, 0.1);
}

// n tokens with unit q and k, a random start state, and the log decay of `decay(i, d)`.
template <typename Decay>
RuleInputs random_inputs(std::int64_t n, std::int64_t dk, std::int64_t dv, Decay decay) {
  const auto wide = [](const test::Floats& f) { return Doubles(f.begin(), f.end()); };
  RuleInputs in{n, dk, dv, {}, {}, {}, {}, {}};
  in.q = wide(test::random_floats("q", n * dk));
  in.k = wide(test::random_floats("k", n * dk));
  in.v = wide(test::random_floats("v", n * dv));
  for (std::int64_t i = 0; i < n; ++i) {
    for (Doubles* rows : {&in.q, &in.k}) {
      double* row = rows->data() + i * dk;
      double sum = 0;
      for (std::int64_t d = 0; d < dk; ++d) sum += row[d] * row[d];
      for (std::int64_t d = 0; d < dk; ++d) row[d] /= std::sqrt(sum);
    }
    for (std::int64_t d = 0; d < dk; ++d) in.g.push_back(decay(i, d));
    in.beta.push_back(0.1 + 0.8 * static_cast<double>(i % 7) / 6);
  }
  return in;
}

void expect_forms_agree(const RuleInputs& in, double tolerance) {
  const test::Floats start = test::random_floats("state", in.dk * in.dv, 0.5f);
  const Doubles state(start.begin(), start.end());
  const Result recurrent = run_recurrent(in, state);
  const Result chunk = run_chunk(in, state);
  for (const double value : chunk.out) ASSERT_TRUE(std::isfinite(value));
  expect_near(chunk.out, recurrent.out, tolerance);
  expect_near(chunk.state, recurrent.state, tolerance);
}

TEST(ChunkOverflow, StrongConstantDecayStaysFiniteAndExact) {
  for (const double g : {0.0, -0.5, -1.0, -2.0, -2.5, -3.0, -4.0, -5.0, -1000.0}) {
    SCOPED_TRACE(g);
    expect_forms_agree(random_inputs(64, 8, 12, [g](auto, auto) { return g; }), 1e-12);
  }
}

TEST(ChunkOverflow, AlternatingDecayStaysExact) {
  const auto by_token = [](std::int64_t i, std::int64_t) { return i % 2 == 0 ? 0.0 : -5.0; };
  const auto by_channel = [](std::int64_t i, std::int64_t d) {
    return (i + d) % 2 == 0 ? -1e-6 : -800.0;
  };
  expect_forms_agree(random_inputs(64, 8, 12, by_token), 1e-12);
  expect_forms_agree(random_inputs(64, 8, 12, by_channel), 1e-12);
}

TEST(ChunkInverse, IdenticalKeysWithoutDecayDoNotCancel) {
  RuleInputs in = random_inputs(32, 4, 6, [](auto, auto) { return 0.0; });
  for (std::size_t i = 0; i < in.k.size(); ++i) in.k[i] = in.k[i % 4];
  in.beta.assign(32, 1.0);
  expect_forms_agree(in, 1e-12);
}

TEST(ChunkLength, EveryShortLastChunkEqualsTheRecurrence) {
  for (const std::int64_t n : {1, 2, 15, 16, 17, 31, 32, 33, 63, 64}) {
    SCOPED_TRACE(n);
    expect_forms_agree(random_inputs(n, 5, 9,
                                     [](std::int64_t i, std::int64_t d) {
                                       return -0.3 * static_cast<double>((i + 2 * d) % 5);
                                     }),
                       1e-12);
  }
}

TEST(ChunkLength, LastGateOfAShortChunkDecaysTheState) {
  const RuleInputs in = random_inputs(3, 4, 4, [](auto, auto) { return std::log(0.5); });
  RuleInputs silent = in;
  silent.beta.assign(3, 0.0);
  Doubles state(16, 8.0);
  Doubles out(12);
  kda_chunk(silent, state.data(), out.data());
  expect_near(state, Doubles(16, 1.0), 1e-12);
}

}  // namespace
}  // namespace baltoro::reference
