// MLA and mix_norm of the CUDA backend in the sizes of the released models, which their fast
// kernels are made for: parity with the reference, and what must not change a bit.
#include <gtest/gtest.h>

#include <bit>
#include <deque>
#include <numeric>
#include <vector>

#include "core/buffer.h"
#include "cuda/backend.h"
#include "cuda/gpu.h"
#include "ops/parity/cases.h"
#include "ops/parity/compare.h"
#include "ops/reference/reference_backend.h"

namespace baltoro {
namespace {

constexpr Origin kPrompt = Origin::kPrompt;
constexpr Origin kGenerated = Origin::kGenerated;

MlaCase released_heads(std::int64_t heads, std::vector<SequenceCase> batch) {
  MlaCase spec;
  spec.name = "released heads";
  spec.shape = {MlaKind::kLatent, heads, 0, 128, 64, 128, 512};
  spec.batch = std::move(batch);
  return spec;
}

template <typename Case>
void expect_parity(const Case& spec, bool deterministic = false) {
  const auto reference = make_reference_backend(Activations::kBf16);
  const auto cuda =
      make_cuda_backend({.activations = Activations::kBf16, .deterministic = deterministic});
  EXPECT_EQ(check_parity(make_case(spec), *reference, *cuda), "");
}

TEST(CudaMla, NumbersOfHeads) {
  BALTORO_NEEDS_GPU();
  for (const std::int64_t heads : {1, 12, 16, 32, 40, 64, 96, 100}) {
    expect_parity(released_heads(heads, {{1, 200, kGenerated, false}, {2, 62, kGenerated, false}}));
  }
}

TEST(CudaMla, PromptsAndGeneratedRowsTogether) {
  BALTORO_NEEDS_GPU();
  for (const bool deterministic : {false, true}) {
    expect_parity(released_heads(3, {{100, 0, kPrompt, false},
                                     {1, 63, kGenerated, false},
                                     {1, 5, kPrompt, false},
                                     {2, 130, kGenerated, false},
                                     {270, 37, kPrompt, false},
                                     {64, 64, kPrompt, false},
                                     {1, 0, kGenerated, false}}),
                  deterministic);
  }
}

// Scores so far apart that the running maxima rise again behind the first page.
TEST(CudaMla, ScoresFarApart) {
  BALTORO_NEEDS_GPU();
  for (const bool deterministic : {false, true}) {
    MlaCase spec = released_heads(60, {{1, 5000, kGenerated, false}, {2, 900, kGenerated, false}});
    spec.query_scale = 16;
    expect_parity(spec, deterministic);
  }
}

TEST(CudaMla, LengthsAroundPagesAndTiles) {
  BALTORO_NEEDS_GPU();
  std::vector<SequenceCase> batch;
  for (const std::int64_t rows : {1, 2, 15, 17, 63, 64, 65, 127, 128, 129, 257}) {
    batch.push_back({rows, 0, kPrompt, false});
    batch.push_back({1, rows - 1, kGenerated, false});
  }
  expect_parity(released_heads(2, batch));
}

TEST(CudaMla, LongCachesAndManySequences) {
  BALTORO_NEEDS_GPU();
  for (const bool deterministic : {false, true}) {
    MlaCase spec = released_heads(
        2,
        {{1, 20000, kGenerated, false}, {1, 500, kGenerated, false}, {40, 6000, kPrompt, false}});
    spec.gate = false;
    expect_parity(spec, deterministic);
    std::vector<SequenceCase> many;
    for (int i = 0; i < 700; ++i) {
      many.push_back({1 + i % 3, i % 5 * 61, i % 7 == 0 ? kPrompt : kGenerated, false});
    }
    expect_parity(released_heads(1, many), deterministic);
  }
}

MlaCase in_fp8(MlaCase spec) {
  spec.fp8_latents = true;
  return spec;
}

TEST(CudaMlaFp8, NumbersOfHeads) {
  BALTORO_NEEDS_GPU();
  for (const std::int64_t heads : {1, 12, 32, 40, 96}) {
    expect_parity(
        in_fp8(released_heads(heads, {{1, 200, kGenerated, false}, {2, 62, kGenerated, false}})));
    expect_parity(in_fp8(released_heads(heads, {{1, 700, kGenerated, false}})));
  }
}

TEST(CudaMlaFp8, PromptsAndGeneratedRowsTogether) {
  BALTORO_NEEDS_GPU();
  for (const bool deterministic : {false, true}) {
    expect_parity(in_fp8(released_heads(3, {{100, 0, kPrompt, false},
                                            {1, 63, kGenerated, false},
                                            {1, 5, kPrompt, false},
                                            {2, 130, kGenerated, false},
                                            {270, 37, kPrompt, false},
                                            {64, 64, kPrompt, false},
                                            {1, 0, kGenerated, false}})),
                  deterministic);
  }
}

TEST(CudaMlaFp8, ScoresFarApart) {
  BALTORO_NEEDS_GPU();
  for (const bool deterministic : {false, true}) {
    MlaCase spec = released_heads(60, {{1, 2500, kGenerated, false}, {2, 900, kGenerated, false}});
    spec.query_scale = 16;
    expect_parity(in_fp8(spec), deterministic);
  }
}

TEST(CudaMlaFp8, LengthsAroundPagesAndTiles) {
  BALTORO_NEEDS_GPU();
  std::vector<SequenceCase> batch;
  for (const std::int64_t rows : {1, 2, 63, 64, 65, 127, 128, 129}) {
    batch.push_back({rows, 0, kPrompt, false});
    batch.push_back({1, rows - 1, kGenerated, false});
  }
  expect_parity(in_fp8(released_heads(2, batch)));
}

TEST(CudaMlaFp8, LongCachesAndManySequences) {
  BALTORO_NEEDS_GPU();
  for (const bool deterministic : {false, true}) {
    expect_parity(in_fp8(released_heads(2, {{1, 20000, kGenerated, false},
                                            {1, 500, kGenerated, false},
                                            {40, 6000, kPrompt, false}})),
                  deterministic);
    std::vector<SequenceCase> many;
    for (int i = 0; i < 300; ++i) {
      many.push_back({1 + i % 3, i % 5 * 61, i % 7 == 0 ? kPrompt : kGenerated, false});
    }
    expect_parity(in_fp8(released_heads(1, many)), deterministic);
  }
}

TEST(CudaMixNorm, SizesOfTheFastKernels) {
  BALTORO_NEEDS_GPU();
  for (const std::int64_t rows : {1, 3, 700}) {
    for (const int banked : {0, 1, 4, 8}) {
      expect_parity(MixNormCase{rows, 264, banked, true, true});
      expect_parity(MixNormCase{rows, rows < 10 ? 7168 : 1024, banked, rows == 3, false});
    }
    // 48 KB of shared memory, and some more that the kernel declares.
    expect_parity(MixNormCase{rows, 4096, 0, true, true});
  }
}

// One layer on the device with random content of `rows` rows and a cache of its own.
class Layer {
 public:
  static constexpr std::int64_t kHeads = 3;

  Layer(Backend& backend, std::int64_t rows, DType cached = DType::kBf16)
      : backend_(backend), rows_(rows) {
    args_.shape = {MlaKind::kLatent, kHeads, 0, 128, 64, 128, 512};
    args_.q = input("q", kHeads * 192, 2);
    args_.kv = input("kv", 576, 1.5f);
    args_.gate = input("gate", kHeads * 128, 2);
    args_.kv_b = {input("kv_b", 512, 0.07f, kHeads * 256).data, nullptr, WeightFormat::kBf16,
                  kHeads * 256, 512};
    const std::vector<float> norm(512, 1.0f);
    buffers_.push_back(backend_.allocate(norm.size() * sizeof(float), "kv_norm"));
    backend_.copy(buffers_.back().data(), norm.data(), norm.size() * sizeof(float));
    args_.kv_norm = buffers_.back().f32();
    args_.kv_norm_eps = 1e-6f;
    pages_.resize(static_cast<std::size_t>(rows / kBlockTokens + 1));
    std::iota(pages_.rbegin(), pages_.rend(), 0);
    args_.cache = {
        const_cast<void*>(input("cache", 576, 1, 2 * std::ssize(pages_) * kBlockTokens).data),
        cached, 2 * std::ssize(pages_)};
    args_.out = {
        const_cast<void*>(input("out", kHeads * 128, 1).data), DType::kBf16, {rows_, kHeads * 128}};
  }

  // Rows [begin, begin + count) as the rows of one call, behind `other` rows of another sequence.
  void run(std::int64_t begin, std::int64_t count, std::int64_t other, Origin origin) {
    std::vector<SequenceRows> sequences;
    std::vector<std::int32_t> other_pages = pages_;
    for (std::int32_t& page : other_pages) page += static_cast<std::int32_t>(pages_.size());
    if (other > 0) sequences.push_back({0, other, 0, 0, -1, origin, other_pages});
    sequences.push_back({other, count, begin, 0, -1, origin, pages_});
    const std::vector<std::int32_t> ids(static_cast<std::size_t>(count + other), 0);
    MlaArgs call = args_;
    for (ConstTensorView* view : {&call.q, &call.kv, &call.gate}) {
      *view = rows_of(*view, begin - other, count + other);
    }
    const ConstTensorView out = rows_of(args_.out, begin - other, count + other);
    call.out = {const_cast<void*>(out.data), out.dtype, out.shape};
    call.batch = {ids, sequences};
    origin == kPrompt ? mla_prefill(backend_, call) : mla_decode(backend_, call);
  }

  std::vector<std::byte> out(std::int64_t begin, std::int64_t count) {
    const ConstTensorView view = rows_of(args_.out, begin, count);
    std::vector<std::byte> to(view.bytes());
    backend_.copy(to.data(), view.data, to.size());
    return to;
  }

 private:
  static ConstTensorView rows_of(const ConstTensorView& view, std::int64_t begin,
                                 std::int64_t count) {
    const auto skipped = static_cast<std::size_t>(begin * view.cols()) * 2;
    return {static_cast<const std::byte*>(view.data) + skipped, view.dtype, {count, view.cols()}};
  }
  ConstTensorView input(const char* name, std::int64_t cols, float scale, std::int64_t rows = 0) {
    if (rows == 0) rows = rows_;
    std::vector<std::uint16_t> halves;
    for (const float value : random_values(3, name, rows * cols, scale)) {
      halves.push_back(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16));
    }
    buffers_.push_back(backend_.allocate(halves.size() * 2, name));
    backend_.copy(buffers_.back().data(), halves.data(), halves.size() * 2);
    return {buffers_.back().data(), DType::kBf16, {rows, cols}};
  }

  Backend& backend_;
  std::int64_t rows_;
  MlaArgs args_;
  std::vector<std::int32_t> pages_;
  std::deque<Buffer> buffers_;
};

// Bits of prompts do not change with their cuts, nor with neighbours.
void expect_equal_splits(DType cached) {
  const auto cuda = make_cuda_backend({.activations = Activations::kBf16, .deterministic = true});
  constexpr std::int64_t kRows = 400;
  Layer whole(*cuda, kRows, cached), split(*cuda, kRows, cached);
  whole.run(0, kRows, 0, kPrompt);
  split.run(0, 70, 0, kPrompt);
  split.run(70, 130, 0, kPrompt);
  split.run(200, kRows - 200, 40, kPrompt);
  // The neighbour of the last call wrote over rows [160, 200).
  EXPECT_EQ(whole.out(0, 160), split.out(0, 160));
  EXPECT_EQ(whole.out(200, kRows - 200), split.out(200, kRows - 200));
}

void expect_equal_rows(DType cached) {
  const auto cuda = make_cuda_backend({.activations = Activations::kBf16, .deterministic = true});
  constexpr std::int64_t kRows = 140;
  Layer together(*cuda, kRows, cached), single(*cuda, kRows, cached);
  together.run(0, kRows, 0, kGenerated);
  for (std::int64_t row = 0; row < kRows; ++row) {
    single.run(row, 1, row > 100 ? 50 : 0, kGenerated);
    if (row > 100) {
      EXPECT_EQ(together.out(row, 1), single.out(row, 1)) << row;
    }
  }
  EXPECT_EQ(together.out(0, 51), single.out(0, 51));
}

TEST(CudaMla, SplitAndNeighbourDoNotChangeABit) {
  BALTORO_NEEDS_GPU();
  expect_equal_splits(DType::kBf16);
}

TEST(CudaMla, GeneratedRowsOneByOneOrTogether) {
  BALTORO_NEEDS_GPU();
  expect_equal_rows(DType::kBf16);
}

TEST(CudaMlaFp8, SplitAndNeighbourDoNotChangeABit) {
  BALTORO_NEEDS_GPU();
  expect_equal_splits(DType::kE4m3);
}

TEST(CudaMlaFp8, GeneratedRowsOneByOneOrTogether) {
  BALTORO_NEEDS_GPU();
  expect_equal_rows(DType::kE4m3);
}

}  // namespace
}  // namespace baltoro
