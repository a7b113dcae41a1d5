// What arrives on a device is what the files hold, for any size of chunk, and a buffer is not filled
// again before the device has read it.
#include "model/staged_copy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <vector>

#include "io/test_files.h"
#include "model/loader.h"
#include "model/place_weights.h"
#include "ops/forwarding_backend.h"
#include "ops/reference/reference_backend.h"
#include "paths.h"

namespace baltoro {
namespace {

// Copies in order happen as late as they may: when they are waited for.
class LateCopies final : public ForwardingBackend {
 public:
  explicit LateCopies(Backend& inner) : ForwardingBackend(inner) {}
  void copy_in_order(void* to, const void* from, std::size_t bytes) override {
    copies_.push_back([=] { std::memcpy(to, from, bytes); });
  }
  void synchronize() override {
    for (const auto& copy : copies_) copy();
    copies_.clear();
  }

 private:
  std::vector<std::function<void()>> copies_;
};

class StagedCopyTest : public testing::Test {
 protected:
  std::unique_ptr<Backend> host_ = make_reference_backend(Activations::kF32);
  LateCopies device_{*host_};
};

std::vector<std::byte> pattern(std::size_t bytes) {
  std::vector<std::byte> values(bytes);
  for (std::size_t i = 0; i < bytes; ++i) values[i] = static_cast<std::byte>(i * 131 + i / 251);
  return values;
}

TEST_F(StagedCopyTest, ContentArrivesForEverySizeOfChunk) {
  const std::vector<std::byte> source = pattern(10'000);
  for (const std::size_t chunk : {1u, 7u, 256u, 1000u, 4096u, 100'000u}) {
    std::vector<std::byte> target(20'000);
    std::uint64_t sent = 0;
    StagedCopy staged(
        device_, nullptr, target.size(), [&](std::uint64_t bytes) { sent += bytes; }, chunk);
    // Ascending with a gap, then back to the start, as another allocation would be.
    staged.add(target.data() + 9000, source.data(), 3000);
    staged.add(target.data() + 12'100, source.data() + 3000, 2000);
    staged.add(target.data(), source.data() + 5000, 5000);
    staged.finish();
    EXPECT_EQ(0, std::memcmp(target.data() + 9000, source.data(), 3000)) << chunk;
    EXPECT_EQ(0, std::memcmp(target.data() + 12'100, source.data() + 3000, 2000)) << chunk;
    EXPECT_EQ(0, std::memcmp(target.data(), source.data() + 5000, 5000)) << chunk;
    EXPECT_GE(sent, 10'000u) << chunk;
  }
}

TEST_F(StagedCopyTest, PlacedWeightsAreThoseOfTheFiles) {
  for (const char* model : {"k3", "kimi_linear"}) {
    LoadOptions options;
    options.mode = LoadMode::kMap;
    const auto dir = test_data_dir() / "fixtures" / model;
    LoadedModel expected = load_model(dir, options);
    for (const std::size_t chunk : {std::size_t{777}, StagedCopy::kChunk}) {
      LoadedModel loaded = load_model(dir, options);
      std::uint64_t done = 0, total = 0;
      const PlacedWeights placed = place_weights(device_, loaded.weights,
                                                 {.progress =
                                                      [&](std::uint64_t d, std::uint64_t t) {
                                                        EXPECT_GE(d, done);
                                                        done = d;
                                                        total = t;
                                                      },
                                                  .store = loaded.store.get(),
                                                  .chunk_bytes = chunk});
      EXPECT_EQ(done, total);
      const auto same = [&](const WeightView& a, const WeightView& b) {
        if (!a) return;
        EXPECT_NE(a.data, b.data);
        EXPECT_EQ(0, std::memcmp(a.data, b.data, static_cast<std::size_t>(a.rows * a.row_bytes())));
        if (a.scales == nullptr) return;
        EXPECT_EQ(
            0, std::memcmp(a.scales, b.scales, static_cast<std::size_t>(a.rows * a.scale_cols())));
      };
      const auto all_of = [](ModelWeights& weights) {
        std::vector<WeightView> views{weights.embed, weights.lm_head};
        for (LayerWeights& layer : weights.layers) {
          for_each_trunk_matrix(layer, [&](WeightView& view) { views.push_back(view); });
          if (const auto* moe = std::get_if<MoeWeights>(&layer.ffn)) {
            for (const ExpertWeights& e : moe->experts) {
              views.insert(views.end(), {e.w1, e.w2, e.w3});
            }
          }
        }
        return views;
      };
      const std::vector<WeightView> a = all_of(expected.weights), b = all_of(loaded.weights);
      ASSERT_EQ(a.size(), b.size());
      for (std::size_t i = 0; i < a.size(); ++i) same(a[i], b[i]);
    }
  }
}

TEST_F(StagedCopyTest, AFileThatWasCutShortIsNamed) {
  TempDir dir;
  const auto from = test_data_dir() / "fixtures" / "k3";
  for (const char* name : {"config.json", "model.safetensors"}) {
    std::filesystem::copy_file(from / name, dir.path() / name);
  }
  LoadOptions options;
  options.mode = LoadMode::kMap;
  LoadedModel loaded = load_model(dir.path(), options);
  std::filesystem::resize_file(dir.path() / "model.safetensors", 4096);
  const Error error =
      catch_error([&] { place_weights(device_, loaded.weights, {.store = loaded.store.get()}); });
  EXPECT_EQ(error.code(), ErrorCode::kIo);
  EXPECT_NE(std::string(error.what()).find("model.safetensors"), std::string::npos) << error.what();
}

TEST_F(StagedCopyTest, AScaleThatIsNotANumberIsRefused) {
  std::vector<std::byte> scales(5000, std::byte{127});
  scales[4321] = std::byte{255};
  std::vector<std::byte> target(scales.size());
  StagedCopy staged(device_, nullptr, scales.size(), {});
  staged.add(target.data(), scales.data(), scales.size());
  staged.flush();
  const Error error = catch_error([&] {
    staged.add(target.data(), scales.data(), scales.size(), StagedCopy::Bytes::kE8m0Scales);
    staged.finish();
  });
  EXPECT_EQ(error.code(), ErrorCode::kBadModel);
  EXPECT_NE(std::string(error.what()).find("4321"), std::string::npos) << error.what();
}

}  // namespace
}  // namespace baltoro
