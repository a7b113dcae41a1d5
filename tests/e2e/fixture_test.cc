// Every variant of the family against the float64 reference, from files to logits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "cpu/backend.h"
#include "e2e/checkpoint.h"
#include "e2e/route_recorder.h"
#include "model/loader.h"
#include "model/model.h"
#include "ops/batch.h"
#include "paths.h"

namespace baltoro {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Absolute, of logits of size 1 to 10.
constexpr double kF32Error = 1e-5;
// A bf16 run may be this much further from float64 than the reference with the same roundings.
constexpr double kBf16Factor = 1.5;

std::vector<std::string> fixtures() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(test_data_dir() / "fixtures")) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

class Fixture : public ::testing::TestWithParam<std::string> {
 protected:
  Fixture()
      : dir_(test_data_dir() / "fixtures" / GetParam()),
        expected_(testing::read_json(dir_ / "expected.json")),
        ids_(expected_["ids"].get<std::vector<TokenId>>()),
        logits_(testing::read_tensor(dir_ / "expected.safetensors", "logits")) {}

  std::shared_ptr<Engine> load(Activations activations, const std::string& device,
                               const std::string& isa = {}) {
    EngineOptions options;
    options.device = device;
    options.activations = activations;
    if (!isa.empty()) options.isa = isa;
    return Engine::load(dir_, options);
  }

  void check_f32(const std::string& device, const std::string& isa = {}) {
    SCOPED_TRACE(device + " " + isa);
    const auto engine = load(Activations::kF32, device, isa);
    Session session = engine->new_session();
    const std::vector<float> logits = session.prefill_all_logits(ids_);
    ASSERT_EQ(logits.size(), logits_.size());
    double largest = 0;
    for (std::size_t i = 0; i < logits.size(); ++i) {
      largest = std::max(
          largest, std::fabs(static_cast<double>(logits[i]) - static_cast<double>(logits_[i])));
    }
    std::printf("%s %s%s: largest error %.2e\n", GetParam().c_str(), device.c_str(), isa.c_str(),
                largest);
    EXPECT_LE(largest, kF32Error);
    const auto greedy_ids = expected_["greedy"].get<std::vector<TokenId>>();
    EXPECT_EQ(testing::greedy(session, static_cast<int>(greedy_ids.size())), greedy_ids);
  }

  // NMSE of each row of `logits` against float64.
  std::vector<double> row_errors(std::span<const float> logits) const {
    const std::size_t vocab = logits_.size() / ids_.size();
    std::vector<double> errors;
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      errors.push_back(testing::nmse(logits.subspan(i * vocab, vocab),
                                     std::span(logits_).subspan(i * vocab, vocab)));
    }
    return errors;
  }

  void check_bf16(const std::string& device, const std::string& isa = {}) {
    SCOPED_TRACE(device + " " + isa);
    const auto engine = load(Activations::kBf16, device, isa);
    Session session = engine->new_session();
    const double ours = testing::median(row_errors(session.prefill_all_logits(ids_)));
    const double theirs = testing::median(
        row_errors(testing::read_tensor(dir_ / "expected.safetensors", "logits_bf16")));
    std::printf("%s %s%s: median row NMSE %.2e, reference %.2e\n", GetParam().c_str(),
                device.c_str(), isa.c_str(), ours, theirs);
    EXPECT_LE(ours, kBf16Factor * theirs);
    EXPECT_GT(ours, 0.01 * theirs) << "nothing was rounded";
  }

  fs::path dir_;
  json expected_;
  std::vector<TokenId> ids_;
  std::vector<float> logits_;
};

TEST_P(Fixture, ReferenceBackendInF32EqualsFloat64) { check_f32("reference"); }

TEST_P(Fixture, EveryInstructionSetInF32EqualsFloat64) {
  for (const std::string& isa : supported_isas()) check_f32("cpu", isa);
}

TEST_P(Fixture, ReferenceBackendInBf16IsAsGoodAsTheReference) { check_bf16("reference"); }

TEST_P(Fixture, EveryInstructionSetInBf16IsAsGoodAsTheReference) {
  for (const std::string& isa : supported_isas()) check_bf16("cpu", isa);
}

// Runs the prompt on the CPU backend and returns the experts of each MoE layer, [T, A].
std::map<int, std::vector<std::int32_t>> route_prompt(const fs::path& dir, Activations activations,
                                                      std::span<const TokenId> ids) {
  const LoadedModel loaded = load_model(dir);
  const auto backend = make_cpu_backend({.activations = activations, .num_threads = 1, .isa = {}});
  testing::RouteRecorder recorder(*backend);
  const auto rows = static_cast<std::int64_t>(ids.size());
  const Model model(loaded.config, loaded.weights);
  SequenceState state(recorder, loaded.config);
  Workspace workspace(recorder, loaded.config, rows);
  std::vector<std::int32_t> pages((ids.size() + kBlockTokens - 1) / kBlockTokens);
  for (std::size_t i = 0; i < pages.size(); ++i) pages[i] = static_cast<std::int32_t>(i);
  state.reserve_slots(1);
  state.reserve_pages(static_cast<std::int32_t>(pages.size()));
  const SequenceRows sequence{.first_row = 0,
                              .num_rows = rows,
                              .start_pos = 0,
                              .state_slot = 0,
                              .boundary_slot = -1,
                              .origin = Origin::kPrompt,
                              .pages = pages};
  model.forward(recorder, {ids, {&sequence, 1}}, state, workspace);
  return recorder.chosen();
}

// Rows whose set of experts is not the expected one.
std::int64_t count_flips(const std::map<int, std::vector<std::int32_t>>& chosen,
                         const std::vector<float>& expected, std::size_t top_k) {
  std::int64_t flips = 0;
  std::size_t at = 0;
  for (const auto& [layer, ids] : chosen) {
    for (std::size_t row = 0; row < ids.size(); row += top_k, at += top_k) {
      flips += !std::is_permutation(ids.begin() + static_cast<std::ptrdiff_t>(row),
                                    ids.begin() + static_cast<std::ptrdiff_t>(row + top_k),
                                    expected.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }
  EXPECT_EQ(at, expected.size());
  return flips;
}

TEST_P(Fixture, RoutesAsFloat64InF32AndCountsTheFlipsOfBf16) {
  const ModelConfig config = load_config(dir_);
  const std::vector<float> routing = testing::read_tensor(dir_ / "expected.safetensors", "routing");
  if (config.num_layers_of(FfnKind::kMoe) == 0) {
    EXPECT_TRUE(routing.empty());
    return;
  }
  const auto top_k = static_cast<std::size_t>(config.moe.experts_per_token);
  EXPECT_EQ(count_flips(route_prompt(dir_, Activations::kF32, ids_), routing, top_k), 0);
  const std::int64_t flips =
      count_flips(route_prompt(dir_, Activations::kBf16, ids_), routing, top_k);
  const auto choices = static_cast<std::int64_t>(routing.size() / top_k);
  std::printf("%s: bf16 routes %lld of %lld rows to other experts, the reference %d\n",
              GetParam().c_str(), static_cast<long long>(flips), static_cast<long long>(choices),
              expected_["reference"]["bf16_rows_with_other_experts"].get<int>());
  EXPECT_LE(flips, choices / 10);
}

INSTANTIATE_TEST_SUITE_P(Variants, Fixture, ::testing::ValuesIn(fixtures()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace baltoro
