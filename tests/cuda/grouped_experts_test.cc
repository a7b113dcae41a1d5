// Experts at aligned addresses, which the grouped kernels serve: against the reference backend, from
// one row to more than a group holds, and a row's bits beside others and alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <limits>

#include "core/rng.h"
#include "cuda/backend.h"
#include "cuda/gpu.h"
#include "ops/expert_mlp.h"
#include "ops/parity/compare.h"
#include "ops/parity/memory.h"
#include "ops/reference/reference_backend.h"

namespace baltoro {
namespace {

constexpr int kExperts = 6, kTopK = 3;
// Of a call: a race shows as other bits.
constexpr int kRepeats = 10;

struct Setting {
  WeightFormat format;
  ActivationKind kind;
  std::int64_t rows;
  std::int64_t width = 256, inner = 512;
  ExpertActivations expert_activations = ExpertActivations::kSame;
};

// Weights of a backend, each at the start of an allocation.
class Experts {
 public:
  Experts(Backend& backend, const Setting& setting) : backend_(backend), format_(setting.format) {
    const std::int64_t width = setting.width, inner = setting.inner;
    for (int e = 0; e < kExperts; ++e) {
      list.push_back({weight(inner, width), weight(inner, width), weight(width, inner)});
    }
  }
  std::vector<ExpertWeights> list;

 private:
  WeightView weight(std::int64_t rows, std::int64_t cols) {
    const Philox random(7, static_cast<std::uint64_t>(buffers_.size()));
    const auto word = [&](std::int64_t i) {
      return random.block(static_cast<std::uint64_t>(i / 4))[static_cast<std::size_t>(i % 4)];
    };
    WeightView view{nullptr, nullptr, format_, rows, cols};
    std::vector<std::uint8_t> data(static_cast<std::size_t>(view.rows * view.row_bytes()));
    std::vector<std::uint8_t> scales(static_cast<std::size_t>(view.rows * view.scale_cols()));
    std::uint32_t four = 0;
    for (std::size_t i = 0; i < data.size(); ++i) {
      // bf16 of magnitude 2^-7 to 2^-3, any code of MXFP4.
      const auto at = static_cast<std::int64_t>(i);
      if (at % 4 == 0) four = word(at / 4);
      const auto bits = static_cast<std::uint8_t>(four >> (8 * (at % 4)));
      const bool high = format_ == WeightFormat::kBf16 && i % 2 == 1;
      data[i] = high ? static_cast<std::uint8_t>((bits & 0x81u) | 0x3cu) : bits;
    }
    for (std::size_t i = 0; i < scales.size(); ++i) {
      scales[i] =
          static_cast<std::uint8_t>(119 + word(static_cast<std::int64_t>(data.size() + i)) % 5);
    }
    view.data = place(data);
    if (!scales.empty()) view.scales = static_cast<const std::uint8_t*>(place(scales));
    return view;
  }
  const void* place(const std::vector<std::uint8_t>& bytes) {
    buffers_.push_back(backend_.allocate(bytes.size(), "experts"));
    backend_.copy(buffers_.back().data(), bytes.data(), bytes.size());
    return buffers_.back().data();
  }

  Backend& backend_;
  WeightFormat format_;
  std::deque<Buffer> buffers_;
};

struct Inputs {
  std::vector<float> z, weights;
  std::vector<std::int32_t> ids;
};

// Expert 0 gets a pair of every row, the last none.
Inputs make_inputs(const Setting& setting) {
  const std::int64_t rows = setting.rows;
  Inputs inputs;
  inputs.z = random_values(3, "z", rows * setting.width, 2);
  inputs.weights = random_values(3, "weights", rows * kTopK, 1);
  for (std::int64_t r = 0; r < rows; ++r) {
    inputs.ids.push_back(0);
    inputs.ids.push_back(static_cast<std::int32_t>(1 + r % 2));
    inputs.ids.push_back(static_cast<std::int32_t>(3 + r % 7 % 2));
  }
  return inputs;
}

// The output of the rows from `first` on; of `repeats` more calls the same.
std::vector<float> run(Backend& backend, const Setting& setting, const Inputs& inputs,
                       std::int64_t first, int repeats = 0) {
  const Experts experts(backend, setting);
  OpMemory memory(backend);
  ExpertMlpArgs args;
  args.z =
      memory.input("z", {inputs.z.begin() + first * setting.width, inputs.z.end()}, setting.width);
  args.ids = memory.input_i32("ids", {inputs.ids.begin() + first * kTopK, inputs.ids.end()});
  args.weights =
      memory.input_f32("weights", {inputs.weights.begin() + first * kTopK, inputs.weights.end()});
  args.top_k = kTopK;
  args.experts = experts.list;
  args.activation = setting.kind == ActivationKind::kSitu ? Activation{setting.kind, 4, 25}
                                                          : Activation{setting.kind, 0, 0};
  args.expert_activations = setting.expert_activations;
  args.out = memory.output("out", args.z.rows(), setting.width);
  expert_mlp(backend, args);
  EXPECT_EQ(memory.damage().value_or(""), "");
  const std::vector<float> out = memory.outputs().at(0).values;
  for (int i = 0; i < repeats; ++i) {
    expert_mlp(backend, args);
    EXPECT_EQ(memory.outputs().at(0).values, out) << "call " << i;
  }
  return out;
}

std::vector<Setting> settings() {
  std::vector<Setting> list;
  for (const std::int64_t rows : {1, 2, 5, 11, 30, 90, 200}) {
    list.push_back({WeightFormat::kMxfp4, ActivationKind::kSitu, rows});
    list.push_back({WeightFormat::kMxfp4, ActivationKind::kSwiglu, rows});
    list.push_back({WeightFormat::kBf16, ActivationKind::kSwiglu, rows});
  }
  // Parts of K3's widths, which the weight ring of Hopper serves, in each of its group sizes.
  for (const std::int64_t rows : {1, 11, 22, 30}) {
    list.push_back({WeightFormat::kMxfp4, ActivationKind::kSitu, rows, 1792, 768});
  }
  constexpr ExpertActivations kFp8 = ExpertActivations::kFp8;
  for (const std::int64_t rows : {1, 5, 30, 90, 200}) {
    list.push_back({WeightFormat::kMxfp4, ActivationKind::kSitu, rows, 256, 512, kFp8});
    list.push_back({WeightFormat::kMxfp4, ActivationKind::kSwiglu, rows, 256, 512, kFp8});
  }
  list.push_back({WeightFormat::kMxfp4, ActivationKind::kSitu, 22, 1792, 768, kFp8});
  return list;
}

class GroupedExperts : public testing::TestWithParam<Setting> {};

TEST_P(GroupedExperts, AgreeWithTheReference) {
  BALTORO_NEEDS_GPU();
  const Inputs inputs = make_inputs(GetParam());
  const auto reference = make_reference_backend(Activations::kBf16);
  const std::vector<float> expected = run(*reference, GetParam(), inputs, 0);
  const bool fp8 = GetParam().expert_activations == ExpertActivations::kFp8;
  const Tolerance limit =
      op_tolerance(fp8 ? "expert_mlp, fp8 rows" : "expert_mlp", Activations::kBf16);
  for (const bool deterministic : {false, true}) {
    const auto cuda = make_cuda_backend({.deterministic = deterministic});
    const Agreement seen = compare_values(expected, run(*cuda, GetParam(), inputs, 0, kRepeats));
    EXPECT_LE(seen.max_rel, limit.max_rel) << deterministic;
    EXPECT_GE(seen.cosine, limit.min_cosine) << deterministic;
    EXPECT_EQ(seen.non_finite_mismatches, 0) << deterministic;
  }
}

TEST_P(GroupedExperts, ARowsBitsAreItsOwn) {
  BALTORO_NEEDS_GPU();
  const auto cuda = make_cuda_backend({.deterministic = true});
  Inputs inputs = make_inputs(GetParam());
  const std::vector<float> alone = run(*cuda, GetParam(), inputs, GetParam().rows - 1);
  // The other rows hold NaN.
  std::fill(inputs.z.begin(), inputs.z.end() - GetParam().width,
            std::numeric_limits<float>::quiet_NaN());
  const std::vector<float> together = run(*cuda, GetParam(), inputs, 0);
  EXPECT_TRUE(std::equal(alone.begin(), alone.end(), together.end() - GetParam().width));
}

INSTANTIATE_TEST_SUITE_P(Sizes, GroupedExperts, testing::ValuesIn(settings()));

}  // namespace
}  // namespace baltoro
