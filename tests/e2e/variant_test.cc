// Variants against each other, from files to logits: a key that selects another form changes the result, and where two forms are
// one function the results are equal.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "e2e/checkpoint.h"
#include "io/checkpoint_files.h"
#include "io/safetensors_writer.h"
#include "paths.h"

namespace baltoro {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::TempDir;

fs::path fixture(const std::string& name) { return test_data_dir() / "fixtures" / name; }

json& text_config(json& config) {
  return config.contains("text_config") ? config["text_config"] : config;
}

void write_config(const fs::path& dir, const json& config) {
  std::ofstream(dir / "config.json") << config.dump(1);
}

// Logits of 70 tokens in f32.
std::vector<float> logits_of(const fs::path& dir) {
  EngineOptions options;
  options.activations = Activations::kF32;
  std::vector<TokenId> ids(70);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<TokenId>((i * 29 + 3) % 80);
  return Engine::load(dir, options)->new_session().prefill_all_logits(ids);
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::fabs(double{a[i]} - double{b[i]}));
  }
  return largest;
}

struct Switch {
  const char* name;
  const char* fixture;
  std::function<void(json&)> edit;  // of the object that holds the model's keys
};

class VariantSwitch : public ::testing::TestWithParam<Switch> {};

// The same weights under another configuration.
TEST_P(VariantSwitch, ChangesTheLogits) {
  const TempDir dir;
  fs::copy(fixture(GetParam().fixture), dir.path(), fs::copy_options::recursive);
  json config = testing::read_json(dir.path() / "config.json");
  GetParam().edit(text_config(config));
  write_config(dir.path(), config);
  EXPECT_GT(largest_difference(logits_of(fixture(GetParam().fixture)), logits_of(dir.path())),
            1e-3);
}

INSTANTIATE_TEST_SUITE_P(
    Keys, VariantSwitch,
    ::testing::Values(
        Switch{"SwiGluForSitu", "k3", [](json& c) { c["hidden_act"] = "silu"; }},
        Switch{"SoftplusForBoundedGate", "k3",
               [](json& c) { c["linear_attn_config"].erase("gate_lower_bound"); }},
        Switch{"AnotherBound", "k3",
               [](json& c) { c["linear_attn_config"]["gate_lower_bound"] = -3.0; }},
        Switch{"RotatedSideBranch", "k3",
               [](json& c) {
                 c["mla_use_nope"] = false;
                 c["rope_theta"] = 10000.0;
               }},
        Switch{"BlocksOfOneLayer", "k3", [](json& c) { c["attn_res_block_size"] = 1; }},
        Switch{"FullAttentionResiduals", "k3",
               [](json& c) {
                 c.erase("attn_res_block_size");
                 c["baltoro"]["attn_res_sublayers"] = 1;
               }},
        Switch{"OtherCaps", "k3", [](json& c) { c["activation_situ_beta"] = 2.0; }},
        Switch{"FewerExperts", "k3", [](json& c) { c["num_experts_per_token"] = 1; }},
        Switch{"NotRenormalised", "kimi_linear", [](json& c) { c["moe_renormalize"] = false; }},
        Switch{"AnotherScale", "kimi_linear", [](json& c) { c["routed_scaling_factor"] = 1.0; }},
        Switch{"BoundedGateForSoftplus", "kimi_linear",
               [](json& c) { c["linear_attn_config"]["gate_lower_bound"] = -5.0; }}),
    [](const auto& param_info) { return std::string(param_info.param.name); });

// A form with other tensors is refused over these weights, never approximated.
TEST(VariantSwitch, WithOtherTensorsIsRefused) {
  const std::vector<std::function<void(json&)>> edits = {
      [](json& c) { c["latent_moe_use_norm"] = false; },
      [](json& c) { c["num_shared_experts"] = 0; },
      [](json& c) { c["mla_use_output_gate"] = false; },
      [](json& c) { c["baltoro"]["decay"] = "per_head"; },
      [](json& c) { c["baltoro"]["router_input"] = "latent"; },
  };
  for (std::size_t i = 0; i < edits.size(); ++i) {
    const TempDir dir;
    fs::copy(fixture("k3"), dir.path(), fs::copy_options::recursive);
    json config = testing::read_json(dir.path() / "config.json");
    edits[i](text_config(config));
    write_config(dir.path(), config);
    EXPECT_THROW(Engine::load(dir.path()), Error) << "edit " << i;
  }
}

// [E, Z] times [Z, D].
std::vector<float> product(const std::vector<float>& a, const std::vector<float>& b,
                           std::int64_t inner, std::int64_t cols) {
  const auto rows = static_cast<std::int64_t>(a.size()) / inner;
  std::vector<float> out(static_cast<std::size_t>(rows * cols));
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      double sum = 0;
      for (std::int64_t k = 0; k < inner; ++k) {
        sum += double{a[static_cast<std::size_t>(r * inner + k)]} *
               double{b[static_cast<std::size_t>(k * cols + c)]};
      }
      out[static_cast<std::size_t>(r * cols + c)] = static_cast<float>(sum);
    }
  }
  return out;
}

TEST(VariantIdentity, ARouterInTheLatentIsAModelSpaceRouterThroughTheDownProjection) {
  const TempDir dir;
  const fs::path source = fixture("router_latent");
  const CheckpointFiles files(source / "model.safetensors");
  std::vector<TensorToWrite> tensors;
  std::vector<std::vector<std::byte>> contents;
  for (const TensorInfo& tensor : files.tensors()) {
    std::vector<std::byte> bytes(tensor.bytes);
    files.files()[tensor.file].read(tensor.offset, bytes);
    TensorToWrite written{tensor.name, tensor.dtype, tensor.shape};
    constexpr std::string_view kRouter = "gate.weight";
    if (tensor.name.ends_with(kRouter)) {
      const std::string prefix = tensor.name.substr(0, tensor.name.size() - kRouter.size());
      const std::string down = prefix + "routed_expert_down_proj.weight";
      const TensorInfo* shape = files.find(down);
      ASSERT_NE(shape, nullptr) << down;
      const std::vector<float> gate =
          product(testing::read_tensor(source / "model.safetensors", tensor.name),
                  testing::read_tensor(source / "model.safetensors", down), shape->shape[0],
                  shape->shape[1]);
      written.dtype = DType::kF32;
      written.shape = {tensor.shape[0], shape->shape[1]};
      const auto raw = std::as_bytes(std::span(gate));
      bytes.assign(raw.begin(), raw.end());
    }
    tensors.push_back(std::move(written));
    contents.push_back(std::move(bytes));
  }
  SafetensorsWriter writer(dir.path() / "model.safetensors", tensors);
  for (const auto& bytes : contents) writer.write(bytes);
  writer.finish();
  json config = testing::read_json(source / "config.json");
  text_config(config)["baltoro"].erase("router_input");
  write_config(dir.path(), config);

  EXPECT_LT(largest_difference(logits_of(source), logits_of(dir.path())), 1e-5);
}

}  // namespace
}  // namespace baltoro
