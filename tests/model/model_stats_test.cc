// Counts and sizes against the published ones: absolute numbers, so that two wrong shapes which
// agree are seen.
#include "model/model_stats.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>

#include "paths.h"

namespace baltoro {
namespace {

const std::filesystem::path kConfigs = test_data_dir() / "configs";

ModelConfig k3() { return load_config(kConfigs / "kimi_k3.json"); }

TEST(PublishedSizes, KimiK3) {
  const ModelStats s = compute_model_stats(k3());
  EXPECT_EQ(s.num_tensors, 497'220);
  EXPECT_EQ(s.total_bytes, 1'560'860'324'864);
  EXPECT_EQ(s.text_parameters, 2'779'484'478'208);
  EXPECT_EQ(s.vision_parameters, 447'358'976);
  EXPECT_EQ(s.active_parameters, 104'189'614'848);
  EXPECT_EQ(s.expert_bytes, 17'547'264);
  EXPECT_EQ(s.active_expert_bytes, 25'829'572'608);
  EXPECT_EQ(s.mla_cache_bytes_per_token, 27'648);
  EXPECT_EQ(s.kda_state_bytes, 434'110'464);
  EXPECT_EQ(s.kda_conv_bytes, 69 * 3 * 12288 * 3 * 2);
}

TEST(PublishedSizes, ComponentsOfKimiK3) {
  const ModelStats s = compute_model_stats(k3());
  const auto expect = [&s](Component component, std::int64_t parameters, std::int64_t bytes) {
    EXPECT_EQ(s[component].parameters, parameters) << component_name(component);
    EXPECT_EQ(s[component].bytes, bytes) << component_name(component);
  };
  expect(Component::kEmbedding, 1'174'405'120, 2'348'810'240);
  expect(Component::kHead, 1'174'405'120, 2'348'810'240);
  expect(Component::kKda, 69 * 443'740'416ll, 69 * 887'800'832ll);
  expect(Component::kMla, 24 * 232'196'096ll, 24 * 464'392'192ll);
  expect(Component::kDenseFfn, 726'663'168, 1'453'326'336);
  expect(Component::kMoeFixed, 92 * 189'927'808ll, 92 * 379'857'408ll);
  expect(Component::kExperts, 2'722'740'830'208, 1'446'456'066'048);
  // 43,008 a layer, and the output mix and the final norm: three vectors.
  expect(Component::kNorms, 93 * 43'008 + 3 * 7168, 93 * 86'016 + 3 * 14336);
  expect(Component::kVisionTower, 401'214'464, 802'428'928);
  expect(Component::kProjector, 46'144'512, 92'289'024);
}

TEST(PublishedSizes, KimiLinear48B) {
  const ModelStats s = compute_model_stats(load_config(kConfigs / "kimi_linear_48b.json"));
  EXPECT_EQ(s.text_parameters, 49'122'681'728);
  EXPECT_EQ(s.vision_parameters, 0);
  EXPECT_NEAR(static_cast<double>(s.active_parameters), 3.11e9, 0.005e9);
  EXPECT_EQ(s.mla_cache_bytes_per_token, 7 * 576 * 2);
  EXPECT_EQ(s.kda_state_bytes, 20ll * 32 * 128 * 128 * 4);
}

// Absolute shapes of the decay gate's bottleneck and of the score vectors (not [D, D], not
// [block, D]).
TEST(ReleasedShapes, OfLayer4) {
  std::map<std::string, TensorSpec> tensors;
  for (const TensorSpec& tensor : layer_tensors(k3(), 4, 0, 1)) tensors[tensor.name] = tensor;
  const std::string layer = "language_model.model.layers.4.";
  const auto shape = [&](const char* name) {
    const auto found = tensors.find(layer + name);
    EXPECT_NE(found, tensors.end()) << name;
    return found == tensors.end() ? Shape{} : found->second.shape;
  };
  EXPECT_EQ(shape("self_attn.f_a_proj.weight"), (Shape{128, 7168}));
  EXPECT_EQ(shape("self_attn.f_b_proj.weight"), (Shape{12288, 128}));
  EXPECT_EQ(shape("self_attn.A_log"), (Shape{128}));
  EXPECT_EQ(shape("self_attn.q_conv1d.weight"), (Shape{12288, 1, 4}));
  EXPECT_EQ(shape("self_attention_res_proj.weight"), (Shape{1, 7168}));
  EXPECT_EQ(shape("block_sparse_moe.gate.weight"), (Shape{896, 7168}));
  EXPECT_EQ(shape("block_sparse_moe.experts.0.w1.weight_packed"), (Shape{3072, 1792}));
  EXPECT_EQ(shape("block_sparse_moe.experts.0.w1.weight_scale"), (Shape{3072, 112}));
  EXPECT_EQ(shape("block_sparse_moe.experts.0.w2.weight_packed"), (Shape{3584, 1536}));
  EXPECT_EQ(tensors[layer + "self_attn.q_conv1d.weight"].dtype, DType::kF32);
}

// The closed-form counts equal a walk over every tensor, whose names are distinct.
TEST(ReleasedShapes, WalkEqualsStats) {
  for (const char* name : {"k3", "kimi_linear", "gqa", "mqa", "gdn", "gate_none", "no_shared"}) {
    const ModelConfig config = load_config(test_data_dir() / "fixtures" / name);
    const ModelStats stats = compute_model_stats(config);
    std::set<std::string> names;
    std::int64_t bytes = 0;
    for_each_tensor(config, [&](const TensorSpec& tensor) {
      names.insert(tensor.name);
      bytes += tensor.bytes();
    });
    EXPECT_EQ(static_cast<std::int64_t>(names.size()), stats.num_tensors) << name;
    EXPECT_EQ(bytes, stats.total_bytes) << name;
  }
}

}  // namespace
}  // namespace baltoro
