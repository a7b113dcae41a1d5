// Logits of engines that are not ours, on checkpoints that tools/make_checkpoint.py writes.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "cpu/backend.h"
#include "e2e/checkpoint.h"
#include "paths.h"

namespace baltoro {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct Golden {
  const char* file;
  const char* arguments;  // of make_checkpoint.py
  float latent_norm_eps;
};

constexpr Golden kGoldens[] = {
    {"tiny-logits.json", "--preset tiny --seed 1", 1e-5f},
    {"tiny-linear-logits.json", "--preset tiny-linear --seed 3", 1e-6f},
};

class GoldenLogits : public ::testing::TestWithParam<Golden> {
 protected:
  void SetUp() override {
    expected_ = testing::read_json(test_data_dir() / "goldens" / GetParam().file);
    std::string output;
    if (testing::run_shell("/usr/bin/python3 -c 'import numpy'", &output) != 0) {
      GTEST_SKIP() << "NumPy is not installed (package python3-numpy): " << output;
    }
    const std::string command = "/usr/bin/python3 " +
                                (source_dir() / "tools/make_checkpoint.py").string() + " " +
                                GetParam().arguments + " --out " + dir_.path().string();
    ASSERT_EQ(testing::run_shell(command, &output), 0) << output;
    for (const auto& [shard, sha256] : expected_["sha256"].items()) {
      ASSERT_EQ(testing::run_shell("sha256sum " + (dir_.path() / shard).string(), &output), 0);
      ASSERT_EQ(output.substr(0, 64), sha256.get<std::string>()) << shard;
    }
  }

  std::shared_ptr<Engine> load(const std::string& device, const std::string& isa) {
    EngineOptions options;
    options.device = device;
    options.activations = Activations::kF32;
    options.latent_norm_eps = GetParam().latent_norm_eps;
    if (!isa.empty()) options.isa = isa;
    return Engine::load(dir_.path(), options);
  }

  void check(const std::string& device, const std::string& isa) {
    SCOPED_TRACE(device + " " + isa);
    const auto engine = load(device, isa);
    Session session = engine->new_session();
    const auto ids = expected_["prompt_ids"].get<std::vector<TokenId>>();
    const std::vector<float> logits = session.prefill_all_logits(ids);
    const auto vocab = static_cast<std::size_t>(engine->info().vocab_size);
    const auto row = [&](std::size_t i) { return std::span(logits).subspan(i * vocab, vocab); };

    std::vector<float> kept, wanted;
    const json& rows = expected_["logits"];
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::size_t position =
          expected_.contains("rows") ? expected_["rows"][i].get<std::size_t>() : i;
      const auto values = rows[i].get<std::vector<float>>();
      ASSERT_EQ(values.size(), vocab);
      wanted.insert(wanted.end(), values.begin(), values.end());
      kept.insert(kept.end(), row(position).begin(), row(position).end());
    }
    const double error = testing::nmse(kept, wanted);
    RecordProperty(device + isa + "_nmse", std::to_string(error));
    std::printf("%s %s %s: NMSE %.2e\n", GetParam().file, device.c_str(), isa.c_str(), error);
    EXPECT_LE(error, 1e-9);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      EXPECT_EQ(testing::argmax(row(i)), expected_["argmax"][i].get<TokenId>()) << "position " << i;
    }
    const auto greedy_ids = expected_["greedy_ids"].get<std::vector<TokenId>>();
    EXPECT_EQ(testing::greedy(session, static_cast<int>(greedy_ids.size())), greedy_ids);
  }

  testing::TempDir dir_;
  json expected_;
};

TEST_P(GoldenLogits, ReferenceBackendEqualsTheOtherEngine) { check("reference", ""); }

TEST_P(GoldenLogits, EveryInstructionSetEqualsTheOtherEngine) {
  for (const std::string& isa : supported_isas()) check("cpu", isa);
}

// The other eps is a plausible mistake; these goldens must notice it.
TEST_P(GoldenLogits, AnotherLatentNormEpsIsNoticed) {
  EngineOptions options;
  options.activations = Activations::kF32;
  options.latent_norm_eps = 1e-3f;
  const auto engine = Engine::load(dir_.path(), options);
  Session session = engine->new_session();
  const auto ids = expected_["prompt_ids"].get<std::vector<TokenId>>();
  session.prefill(std::span(ids).first(1));
  const auto wanted = expected_["logits"][0].get<std::vector<float>>();
  EXPECT_GT(testing::nmse(session.logits(), wanted), 1e-9);
}

INSTANTIATE_TEST_SUITE_P(OtherEngines, GoldenLogits, ::testing::ValuesIn(kGoldens),
                         [](const auto& test) {
                           const std::string name = test.param.file;
                           return name.find("linear") != std::string::npos ? "KimiLinear"
                                                                           : "KimiK3";
                         });

}  // namespace
}  // namespace baltoro
