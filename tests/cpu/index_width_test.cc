// Offsets beyond 2^31 elements (pitfall P-62), on every backend and instruction set of this machine.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cpu/backend.h"
#include "ops/embed.h"
#include "ops/head.h"
#include "ops/kda.h"
#include "ops/mla.h"
#include "ops/op_test_util.h"
#include "ops/reference/reference_backend.h"

namespace baltoro {
namespace {

using test::Floats;

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

class IndexWidth : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Backend> backend_ =
      GetParam() == "reference"
          ? make_reference_backend(Activations::kF32)
          : make_cpu_backend(
                {.activations = Activations::kF32, .num_threads = 1, .isa = GetParam()});
};

std::vector<std::string> backends() {
  std::vector<std::string> names = supported_isas();
  names.push_back("reference");
  return names;
}

INSTANTIATE_TEST_SUITE_P(Backends, IndexWidth, ::testing::ValuesIn(backends()),
                         [](const auto& param_info) { return param_info.param; });

TEST_P(IndexWidth, EmbeddingRowsBeyondTwoToThe31Elements) {
  constexpr std::int64_t kHidden = 12288, kRows = 174764;
  const SparseMemory table(static_cast<std::size_t>(kRows * kHidden * 2));
  SKIP_WITHOUT(table);
  const WeightView weight{table.data(), nullptr, WeightFormat::kBf16, kRows, kHidden};
  for (const std::int32_t id : {174761, 174762, 174763}) {
    auto* row = static_cast<std::uint16_t*>(table.data()) + id * kHidden;
    row[kHidden - 1] = f32_to_bf16(static_cast<float>(id - 174700));
    Floats out(kHidden);
    embed(*backend_, {weight, {&id, 1}, test::mutable_view(out, kHidden)});
    EXPECT_EQ(out.back(), static_cast<float>(id - 174700));
  }
}

TEST_P(IndexWidth, ActivationRowsBeyondTwoToThe31Elements) {
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
    head(*backend_, args);
    EXPECT_EQ(logit, static_cast<float>(row));
  }
}

TEST_P(IndexWidth, StateSlotsBeyondTwoToThe31Elements) {
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
    kda_mix(*backend_, args);
    EXPECT_NE(state.f32()[slot * shape.state_elements() + 1], 0) << slot;
    EXPECT_EQ(conv[static_cast<std::size_t>(slot * shape.conv_elements())], 0.5f);
    std::fill(conv.begin(), conv.end(), 0.0f);
  }
}

TEST_P(IndexWidth, CachePagesBeyondTwoToThe31Elements) {
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
    mla_prefill(*backend_, args);
    EXPECT_EQ(cache.f32()[page * page_elements + 575], 2) << page;
    EXPECT_FLOAT_EQ(out[0], 512);
  }
}

}  // namespace
}  // namespace baltoro
