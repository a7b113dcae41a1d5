// Attention Residuals at the level of the stream: what is banked, what is added, what is mixed
// (pitfalls P-20, P-42 to P-46).
#include "model/residual_stream.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "core/dtype.h"
#include "ops/forwarding_backend.h"
#include "ops/reference/reference_backend.h"

namespace baltoro {
namespace {

constexpr std::int64_t kHidden = 4;

ModelConfig toy_config(std::int64_t layers, std::int64_t block_sublayers) {
  ModelConfig config;
  config.hidden_size = kHidden;
  config.num_layers = layers;
  config.rms_norm_eps = 1e-5f;
  config.attn_res_sublayers = block_sublayers;
  config.layers.resize(static_cast<std::size_t>(layers));
  return config;
}

// A stream whose sub-layers return constants; the mix weights are arbitrary, so that any leak of
// the mix shows.
class ToyStream {
 public:
  ToyStream(std::int64_t layers, std::int64_t block_sublayers, std::int64_t rows = 1)
      : config_(toy_config(layers, block_sublayers)),
        backend_(make_reference_backend(Activations::kF32)),
        workspace_(*backend_, config_, rows),
        stream_(std::in_place, *backend_, config_, workspace_, rows),
        rows_(rows) {
    mix_.norm = std::vector<float>{1.0f, 0.5f, 2.0f, -1.0f};
    mix_.proj = std::vector<float>{0.3f, -0.2f, 0.1f, 0.7f};
    float* embedding = stream_->embedding().f32();
    for (std::int64_t i = 0; i < rows * kHidden; ++i) embedding[i] = value(i);
  }

  static float value(std::int64_t i) { return 0.25f * static_cast<float>(i % 7) - 0.6f; }

  // Runs one layer: the mixer returns `mixer`, the FFN returns `ffn`, everywhere.
  void layer(float mixer, float ffn) {
    for (float constant : {mixer, ffn}) {
      const ConstTensorView x = stream_->enter(mix(), norm_);
      inputs_.assign(x.f32(), x.f32() + rows_ * kHidden);
      fill(stream_->output(), constant);
    }
  }

  // Becomes the stream behind the first layers of `before`.
  void go_on_from(ToyStream& before, std::int64_t layers) {
    workspace_.expect_arrivals(*backend_, config_);
    std::memset(workspace_.arriving.data(), 0xff, workspace_.arriving.bytes());
    before.stream().hand_over(workspace_, DType::kF32);
    stream_.emplace(*backend_, config_, workspace_, rows_, layers);
  }

  std::vector<float> finish() {
    const ConstTensorView x = stream_->finish(mix(), norm_);
    return {x.f32(), x.f32() + rows_ * kHidden};
  }

  const std::vector<ConstTensorView>& bank() const { return workspace_.bank; }
  const std::vector<float>& inputs() const { return inputs_; }
  Workspace& workspace() { return workspace_; }
  TensorView output() { return stream_->output(); }
  const AttnResWeights* mix() const { return config_.has_attn_res() ? &mix_ : nullptr; }
  const std::vector<float>& norm() const { return norm_; }
  ResidualStream& stream() { return *stream_; }

 private:
  void fill(const TensorView& view, float constant) {
    std::fill_n(view.f32(), view.shape.count(), constant);
  }

  ModelConfig config_;
  std::unique_ptr<Backend> backend_;
  Workspace workspace_;
  std::optional<ResidualStream> stream_;
  std::int64_t rows_;
  AttnResWeights mix_;
  std::vector<float> norm_ = std::vector<float>(kHidden, 1.0f);
  std::vector<float> inputs_;
};

TEST(AttnResBank, HoldsTheRawPrefixAndReplacesInsteadOfAdding) {
  ToyStream toy(14, 24);
  for (int layer = 0; layer < 14; ++layer) toy.layer(1.0f, 0.0f);
  toy.finish();
  ASSERT_EQ(toy.bank().size(), 2u);
  for (std::int64_t i = 0; i < kHidden; ++i) {
    EXPECT_EQ(toy.bank()[0].f32()[i], ToyStream::value(i)) << "bank[0] is the embedding";
    EXPECT_EQ(toy.bank()[1].f32()[i], 12.0f) << "bank[1] is the sum of layers 0 to 11 alone";
  }
}

TEST(AttnResBank, K3HasEightSourcesAfterNinetyThreeLayersForEveryToken) {
  ToyStream toy(93, 24);
  for (int layer = 0; layer < 93; ++layer) toy.layer(1.0f, 0.0f);
  EXPECT_EQ(toy.bank().size(), 8u);
  // A second pass over the same workspace starts with an empty bank.
  auto backend = make_reference_backend(Activations::kF32);
  const ModelConfig config = toy_config(93, 24);
  ResidualStream second(*backend, config, toy.workspace(), 1);
  EXPECT_TRUE(toy.workspace().bank.empty());
}

// The output of a stream is a function of what sub-layers returned; computed here from the
// definition.
std::vector<double> mix_by_definition(const std::vector<std::vector<double>>& sources,
                                      const AttnResWeights& mix) {
  std::vector<double> scores;
  for (const auto& v : sources) {
    double square = 0, dot = 0;
    for (std::size_t d = 0; d < kHidden; ++d) {
      square += v[d] * v[d];
      dot += v[d] * double{mix.norm.values()[d]} * double{mix.proj.values()[d]};
    }
    scores.push_back(dot / std::sqrt(square / kHidden + double{1e-5f}));
  }
  double total = 0;
  for (double& s : scores) total += (s = std::exp(s));
  std::vector<double> out(kHidden, 0.0);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    for (std::size_t d = 0; d < kHidden; ++d) out[d] += scores[i] / total * sources[i][d];
  }
  double square = 0;
  for (double v : out) square += v * v;
  for (double& v : out) v /= std::sqrt(square / kHidden + double{1e-5f});
  return out;
}

class AttnResDepth : public testing::TestWithParam<std::tuple<int, int, int>> {};

// Each row is mixed from its own sources, at depths around the block border (P-46: strides swapped
// beyond one bank).
TEST_P(AttnResDepth, OutputEqualsTheDefinition) {
  const auto [layers, block_sublayers, rows] = GetParam();
  ToyStream toy(layers, block_sublayers, rows);
  for (int layer = 0; layer < layers; ++layer) toy.layer(0.5f, -0.25f);
  const std::vector<float> actual = toy.finish();

  for (int row = 0; row < rows; ++row) {
    std::vector<std::vector<double>> bank;
    std::vector<double> prefix(kHidden);
    for (std::int64_t d = 0; d < kHidden; ++d) {
      prefix[static_cast<std::size_t>(d)] = double{ToyStream::value(row * kHidden + d)};
    }
    bool none = false;
    for (int s = 0; s < 2 * layers; ++s) {
      if (s % block_sublayers == 0) {
        bank.push_back(prefix);
        none = true;
      }
      const double out = s % 2 == 0 ? 0.5 : -0.25;
      for (double& v : prefix) v = none ? out : v + out;
      none = false;
    }
    bank.push_back(prefix);
    const std::vector<double> expected = mix_by_definition(bank, *toy.mix());
    for (std::size_t d = 0; d < kHidden; ++d) {
      EXPECT_NEAR(actual[static_cast<std::size_t>(row) * kHidden + d], expected[d], 1e-5);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Depths, AttnResDepth,
                         testing::Combine(testing::Values(1, 11, 12, 13, 14, 25),
                                          testing::Values(1, 4, 24), testing::Values(1, 2, 7)));

TEST(PlainResidual, AddsEverySublayer) {
  ToyStream toy(3, 0);
  for (int layer = 0; layer < 3; ++layer) toy.layer(1.0f, 2.0f);
  const std::vector<float> actual = toy.finish();
  std::vector<double> sum(kHidden);
  double square = 0;
  for (std::size_t d = 0; d < kHidden; ++d) {
    sum[d] = double{ToyStream::value(static_cast<std::int64_t>(d))} + 9.0;
    square += sum[d] * sum[d];
  }
  for (std::size_t d = 0; d < kHidden; ++d) {
    EXPECT_NEAR(actual[d], sum[d] / std::sqrt(square / kHidden + 1e-5), 1e-6);
  }
}

// Layers before a cut on one workspace, those behind it on another: the same bits as in one piece.
std::vector<float> in_two_pieces(int layers, int block_sublayers, int cut, int rows) {
  ToyStream first(layers, block_sublayers, rows);
  for (int layer = 0; layer < cut; ++layer) first.layer(0.5f + static_cast<float>(layer), -0.25f);
  ToyStream second(layers, block_sublayers, rows);
  second.go_on_from(first, cut);
  for (int layer = cut; layer < layers; ++layer) {
    second.layer(0.5f + static_cast<float>(layer), -0.25f);
  }
  return second.finish();
}

TEST(HandedOverStream, GoesOnWithTheSameBitsWhereverTheCutIs) {
  constexpr int kLayers = 14, kRows = 3;
  for (const int block_sublayers : {0, 1, 3, 4, 24}) {
    ToyStream whole(kLayers, block_sublayers, kRows);
    for (int layer = 0; layer < kLayers; ++layer) {
      whole.layer(0.5f + static_cast<float>(layer), -0.25f);
    }
    const std::vector<float> expected = whole.finish();
    for (int cut = 1; cut < kLayers; ++cut) {
      EXPECT_EQ(in_two_pieces(kLayers, block_sublayers, cut, kRows), expected)
          << block_sublayers << " sub-layers a block, cut before layer " << cut;
    }
  }
}

TEST(HandedOverStream, TakesTheMarksOfBadRowsWithIt) {
  ToyStream first(2, 0, 3);
  first.layer(1.0f, 0.0f);
  first.workspace().first_bad()[1] = 2;
  ToyStream second(2, 0, 3);
  second.go_on_from(first, 1);
  EXPECT_EQ(second.workspace().first_bad()[0], -1);
  EXPECT_EQ(second.workspace().first_bad()[1], 2);
}

// A device that stores activations as bf16.
class Bf16Store final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  DType activation_dtype() const override { return DType::kBf16; }
};

TEST(HandedOverStream, IsStoredAsTheNextSegmentStoresIt) {
  ToyStream first(4, 4, 2);
  for (int layer = 0; layer < 3; ++layer) first.layer(1.5f, -0.25f);  // two blocks are banked
  const auto host = make_reference_backend(Activations::kF32);
  Bf16Store device(*host);
  const ModelConfig config = toy_config(4, 4);
  Workspace next(device, config, 2);
  next.expect_arrivals(device, config);
  first.stream().hand_over(next, DType::kBf16);
  const ResidualStream second(device, config, next, 2, 3);
  ASSERT_EQ(next.bank.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(next.bank[i].dtype, DType::kBf16);
    for (std::size_t j = 0; j < 2 * kHidden; ++j) {
      EXPECT_EQ(static_cast<const std::uint16_t*>(next.bank[i].data)[j],
                f32_to_bf16(first.bank()[i].f32()[j]));
    }
  }
}

TEST(NonFiniteRow, IsTaggedWithTheFirstBadSublayerAndLeavesOthersAlone) {
  ToyStream toy(2, 0, 3);
  toy.layer(1.0f, 0.0f);
  toy.stream().enter(toy.mix(), toy.norm());
  TensorView out = toy.output();
  std::fill_n(out.f32(), out.shape.count(), 0.0f);
  out.f32()[1 * kHidden + 2] = NAN;  // sub-layer 2: the mixer of layer 1, row 1
  toy.stream().enter(toy.mix(), toy.norm());
  std::fill_n(toy.output().f32(), out.shape.count(), 0.0f);
  const std::vector<float> actual = toy.finish();
  EXPECT_EQ(toy.workspace().first_bad()[0], -1);
  EXPECT_EQ(toy.workspace().first_bad()[1], 3);
  EXPECT_EQ(toy.workspace().first_bad()[2], -1);
  EXPECT_TRUE(std::isfinite(actual[0]));
  EXPECT_TRUE(std::isfinite(actual[2 * kHidden]));
}

}  // namespace
}  // namespace baltoro
