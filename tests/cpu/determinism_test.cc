// The determinism contract on the CPU: threads, cuts of the input, batch neighbours, slots and
// leftovers in scratch never change a row's bits.
#include <gtest/gtest.h>

#include <numeric>

#include "cpu/sequence_problems.h"
#include "ops/parity/cases.h"

namespace baltoro {
namespace {

using namespace testing_cpu;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class CpuDeterminism : public testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Backend> backend(Activations activations, int threads) {
    return make_cpu_backend({activations, threads, GetParam()});
  }
};
INSTANTIATE_TEST_SUITE_P(Isas, CpuDeterminism, testing::ValuesIn(supported_isas()),
                         [](const auto& isa) { return isa.param; });

std::vector<OpOutput> outputs_of(const OpCase& op_case, Backend& backend) {
  PreparedOp op = op_case.prepare(backend);
  op.run();
  return op.outputs();
}

void expect_same(const std::vector<OpOutput>& a, const std::vector<OpOutput>& b,
                 const OpCase& op_case) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(same_bits(a[i].values, b[i].values))
        << op_case.op << " " << op_case.name << ": " << a[i].name;
  }
}

TEST_P(CpuDeterminism, ThreadCountChangesNoBit) {
  for (const Activations activations : {Activations::kF32, Activations::kBf16}) {
    const auto one = backend(activations, 1);
    const std::unique_ptr<Backend> others[] = {backend(activations, 2), backend(activations, 3),
                                               backend(activations, 0)};
    for (const OpCase& op_case : op_cases()) {
      const std::vector<OpOutput> expected = outputs_of(op_case, *one);
      for (const auto& other : others) expect_same(expected, outputs_of(op_case, *other), op_case);
    }
  }
}

// Fills the scratch of every op with NaN by running it on NaN.
void poison(Backend& backend) {
  KdaProblem kda({3, 64, 64, 4, false}, -5.0f, 70);
  std::fill(kda.q.begin(), kda.q.end(), kNan);
  std::fill(kda.k.begin(), kda.k.end(), kNan);
  std::fill(kda.v.begin(), kda.v.end(), kNan);
  KdaPool pool(kda.shape, 1, kNan);
  kda.run(backend, {{.rows = 70}}, pool);
  MlaProblem mla({MlaKind::kLatent, 4, 0, 64, 16, 64, 128}, 70);
  std::fill(mla.q.begin(), mla.q.end(), kNan);
  std::fill(mla.kv.begin(), mla.kv.end(), kNan);
  std::vector<std::byte> cache = mla.empty_cache(backend, 2);
  mla.run(backend, {{.rows = 70, .pages = {0, 1}}}, cache);
  mla.run(backend, {{.rows = 70, .origin = Origin::kGenerated, .pages = {0, 1}}}, cache);
}

TEST_P(CpuDeterminism, LeftoversInScratchChangeNoBit) {
  for (const Activations activations : {Activations::kF32, Activations::kBf16}) {
    const auto dirty = backend(activations, 1);
    std::string op;
    for (const OpCase& op_case : op_cases()) {
      if (op_case.op != op) poison(*dirty);
      op = op_case.op;
      const auto fresh = backend(activations, 1);
      expect_same(outputs_of(op_case, *fresh), outputs_of(op_case, *dirty), op_case);
    }
  }
}

// Feeds tokens [0, total) in chunks as the engine does: an open block of 64 is fed again from its
// start, with the state kept there. Slot 0 is live, 1 the kept boundary, 2 receives the next one.
std::vector<float> feed_in_chunks(Backend& backend, const KdaProblem& problem, std::int64_t chunk,
                                  KdaPool& pool) {
  std::vector<float> out;
  const std::int64_t cols = problem.shape.value_channels();
  for (std::int64_t fed = 0; fed < problem.tokens;) {
    const std::int64_t end = std::min(problem.tokens, fed + chunk);
    const std::int64_t start = fed / kBlockTokens * kBlockTokens;
    pool.copy_slot(problem.shape, 1, 0);
    const std::vector<float> rows = problem.run(
        backend,
        {{.token = start, .rows = end - start, .start_pos = start, .slot = 0, .boundary_slot = 2}},
        pool);
    const std::vector<float> fresh = slice(rows, (fed - start) * cols, (end - fed) * cols);
    out.insert(out.end(), fresh.begin(), fresh.end());
    if (end / kBlockTokens > start / kBlockTokens) pool.copy_slot(problem.shape, 2, 1);
    fed = end;
  }
  return out;
}

TEST_P(CpuDeterminism, CutsOfThePromptChangeNoBitOfKda) {
  for (const Activations activations : {Activations::kF32, Activations::kBf16}) {
    const auto cpu = backend(activations, 2);
    for (const std::optional<float> bound : {std::optional<float>(-5.0f), std::optional<float>()}) {
      const KdaProblem problem({2, 20, 36, 4, false}, bound, 140, activations);
      KdaPool whole_pool(problem.shape, 1, 0.0f);
      const std::vector<float> whole = problem.run(*cpu, {{.rows = 140}}, whole_pool);
      for (std::int64_t chunk : {1, 2, 3, 5, 27, 63, 64, 65}) {
        KdaPool pool(problem.shape, 3, 0.0f);
        EXPECT_TRUE(same_bits(whole, feed_in_chunks(*cpu, problem, chunk, pool))) << chunk;
        EXPECT_TRUE(same_bits(whole_pool.state, pool.slot_state(problem.shape, 0))) << chunk;
        EXPECT_TRUE(same_bits(whole_pool.conv, pool.slot_conv(problem.shape, 0))) << chunk;
      }
    }
  }
}

TEST_P(CpuDeterminism, GeneratedTokensInOneCallOrManyAreTheSame) {
  const auto cpu = backend(Activations::kBf16, 2);
  const KdaProblem problem({2, 20, 36, 4, false}, -5.0f, 70, Activations::kBf16);
  KdaPool together(problem.shape, 1, 0.0f), apart(problem.shape, 1, 0.0f);
  const std::vector<float> whole =
      problem.run(*cpu, {{.rows = 70, .origin = Origin::kGenerated}}, together);
  std::vector<float> steps;
  for (std::int64_t t = 0; t < 70; ++t) {
    const std::vector<float> row = problem.run(
        *cpu, {{.token = t, .rows = 1, .start_pos = t, .origin = Origin::kGenerated}}, apart);
    steps.insert(steps.end(), row.begin(), row.end());
  }
  EXPECT_TRUE(same_bits(whole, steps));
  EXPECT_TRUE(same_bits(together.state, apart.state));
  EXPECT_TRUE(same_bits(together.conv, apart.conv));
}

TEST_P(CpuDeterminism, CutsOfTheInputChangeNoBitOfMla) {
  for (const Activations activations : {Activations::kF32, Activations::kBf16}) {
    const auto cpu = backend(activations, 2);
    for (const Origin origin : {Origin::kPrompt, Origin::kGenerated}) {
      MlaProblem problem({MlaKind::kLatent, 3, 0, 12, 6, 10, 20}, 140, activations);
      problem.rope_theta = 10000.0f;
      std::vector<std::byte> cache = problem.empty_cache(*cpu, 3);
      const std::vector<float> whole =
          problem.run(*cpu, {{.rows = 140, .origin = origin, .pages = {0, 1, 2}}}, cache);
      for (std::int64_t chunk : {1, 2, 3, 5, 27, 63, 64, 65}) {
        std::vector<std::byte> cut_cache = problem.empty_cache(*cpu, 5);
        std::vector<float> out;
        for (std::int64_t t = 0; t < 140; t += chunk) {
          const std::int64_t rows = std::min<std::int64_t>(chunk, 140 - t);
          const std::vector<float> part = problem.run(
              *cpu,
              {{.token = t, .rows = rows, .start_pos = t, .origin = origin, .pages = {4, 0, 3}}},
              cut_cache);
          out.insert(out.end(), part.begin(), part.end());
        }
        EXPECT_TRUE(same_bits(whole, out)) << chunk;
      }
    }
  }
}

TEST_P(CpuDeterminism, NeighboursChangeNoBitOfMla) {
  const auto cpu = backend(Activations::kBf16, 3);
  const MlaProblem problem({MlaKind::kLatent, 3, 0, 12, 6, 10, 20}, 120, Activations::kBf16);
  const std::vector<Piece> pieces = {
      {.token = 0, .rows = 70, .pages = {5, 2}},
      {.token = 70, .rows = 1, .origin = Origin::kGenerated, .pages = {1}},
      {.token = 71, .rows = 48, .pages = {0}},
      {.token = 119, .rows = 1, .origin = Origin::kGenerated, .pages = {4}}};
  std::vector<std::byte> cache = problem.empty_cache(*cpu, 6);
  const std::vector<float> batch = problem.run(*cpu, pieces, cache);
  std::vector<float> solo;
  for (const Piece& piece : pieces) {
    std::vector<std::byte> own = problem.empty_cache(*cpu, 6);
    const std::vector<float> rows = problem.run(*cpu, {piece}, own);
    solo.insert(solo.end(), rows.begin(), rows.end());
  }
  EXPECT_TRUE(same_bits(batch, solo));
}

}  // namespace
}  // namespace baltoro
