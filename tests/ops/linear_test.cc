// Linear layers, embedding and head: stored forms, rounding, rows by themselves, 64-bit offsets.
#include "ops/linear.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

#include "op_test_util.h"
#include "ops/embed.h"
#include "ops/head.h"
#include "ops/kda.h"
#include "ops/mla.h"
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

// Address space without memory behind it: pages appear where they are touched.
class SparseMemory {
 public:
  explicit SparseMemory(std::size_t bytes) : bytes_(bytes) {
    void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data != MAP_FAILED) data_ = data;
  }
  ~SparseMemory() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }
  SparseMemory(const SparseMemory&) = delete;
  SparseMemory& operator=(const SparseMemory&) = delete;
  void* data() const { return data_; }
  float* f32() const { return static_cast<float*>(data_); }

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
};

constexpr std::int64_t kTwo31 = std::int64_t{1} << 31;

#define SKIP_WITHOUT(memory) \
  if ((memory).data() == nullptr) GTEST_SKIP() << "no address space of this size"

TEST(IndexWidth, EmbeddingRowsBeyondTwoToThe31Elements) {
  constexpr std::int64_t kHidden = 12288, kRows = 174764;
  const SparseMemory table(static_cast<std::size_t>(kRows * kHidden * 2));
  SKIP_WITHOUT(table);
  const WeightView weight{table.data(), nullptr, WeightFormat::kBf16, kRows, kHidden};
  for (const std::int32_t id : {174761, 174762, 174763}) {
    auto* row = static_cast<std::uint16_t*>(table.data()) + id * kHidden;
    row[kHidden - 1] = f32_to_bf16(static_cast<float>(id - 174700));
    Floats out(kHidden);
    embed(*test::reference_f32(), {weight, {&id, 1}, test::mutable_view(out, kHidden)});
    EXPECT_EQ(out.back(), static_cast<float>(id - 174700));
  }
}

TEST(IndexWidth, ActivationRowsBeyondTwoToThe31Elements) {
  constexpr std::int64_t kHidden = 12288;
  constexpr std::int32_t kRows = 174764;
  const SparseMemory x(static_cast<std::size_t>(kRows * kHidden * 4));
  SKIP_WITHOUT(x);
  const Floats weight(kHidden, 1.0f);
  for (const std::int32_t row : {174761, 174762, 174763}) {
    x.f32()[row * kHidden + 5] = static_cast<float>(row);
    float logit = test::kNan;
    HeadArgs args{{x.data(), DType::kF32, {kRows, kHidden}},
                  {&row, 1},
                  test::f32_weight(weight, kHidden),
                  &logit};
    head(*test::reference_f32(), args);
    EXPECT_EQ(logit, static_cast<float>(row));
  }
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

TEST(IndexWidth, StateSlotsBeyondTwoToThe31Elements) {
  const KdaShape shape{1, 1024, 1024, 2, false};
  const std::int64_t slots = kTwo31 / shape.state_elements() + 2;
  const SparseMemory state(static_cast<std::size_t>(slots * shape.state_elements() * 4));
  SKIP_WITHOUT(state);
  Floats conv(static_cast<std::size_t>(slots * shape.conv_elements()), 0.0f);
  const Floats ones(2048, 1.0f), row(1024, 0.5f), beta(1, 1.0f);
  Floats out(1024, test::kNan);
  const std::int32_t id = 0;
  for (const std::int64_t slot : {slots - 3, slots - 2, slots - 1}) {
    const SequenceRows sequence{0, 1, 0, static_cast<std::int32_t>(slot), -1, Origin::kGenerated,
                                {}};
    KdaMixArgs args;
    args.shape = shape;
    args.batch = {{&id, 1}, {&sequence, 1}};
    args.q = args.k = args.v = args.decay_logits = test::view(row, 1024);
    args.beta_logits = test::view(beta, 1);
    args.q_conv = args.k_conv = args.v_conv = args.dt_bias = args.o_norm = ones.data();
    args.a_log = ones.data();
    args.pool = {state.f32(), conv.data(), slots};
    args.out = test::mutable_view(out, 1024);
    kda_mix(*test::reference_f32(), args);
    EXPECT_NE(state.f32()[slot * shape.state_elements() + 1], 0) << slot;
    EXPECT_EQ(conv[static_cast<std::size_t>(slot * shape.conv_elements())], 0.5f);
    std::fill(conv.begin(), conv.end(), 0.0f);
  }
}

TEST(IndexWidth, CachePagesBeyondTwoToThe31Elements) {
  const MlaShape shape{MlaKind::kLatent, 1, 0, 4, 64, 4, 512};
  const std::int64_t page_elements = kBlockTokens * shape.cache_width();
  const std::int64_t pages = kTwo31 / page_elements + 2;
  const SparseMemory cache(static_cast<std::size_t>(pages * page_elements * 4));
  SKIP_WITHOUT(cache);
  const Floats q(68, 1.0f), kv(576, 2.0f), norm(512, 1.0f), kv_b(8 * 512, 1.0f);
  Floats out(4, test::kNan);
  const std::int32_t id = 0;
  for (const std::int64_t page : {pages - 3, pages - 2, pages - 1}) {
    const auto page_id = static_cast<std::int32_t>(page);
    const SequenceRows sequence{0, 1, 0, 0, -1, Origin::kPrompt, {&page_id, 1}};
    MlaArgs args;
    args.shape = shape;
    args.batch = {{&id, 1}, {&sequence, 1}};
    args.q = test::view(q, 68);
    args.kv = test::view(kv, 576);
    args.kv_norm = norm.data();
    args.kv_b = test::f32_weight(kv_b, 512);
    args.cache = {cache.data(), DType::kF32, pages};
    args.out = test::mutable_view(out, 4);
    mla_prefill(*test::reference_f32(), args);
    EXPECT_EQ(cache.f32()[page * page_elements + 575], 2) << page;
    EXPECT_FLOAT_EQ(out[0], 512);
  }
}

}  // namespace
}  // namespace baltoro
