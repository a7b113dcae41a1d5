// Decoding allocates nothing and waits for the device once a step, for the logits or the tokens.
#include <gtest/gtest.h>

#include <vector>

#include "baltoro/engine.h"
#include "baltoro/session.h"
#include "cuda/backend.h"
#include "cuda/cuda_calls.h"
#include "cuda/gpu.h"
#include "engine/device_load.h"
#include "paths.h"

namespace baltoro {
namespace {

constexpr int kSteps = 200;

struct Setting {
  const char* model;
  std::size_t sessions;
  ExpertPlace experts;
  bool draws = false;  // tokens are drawn in the pass
  std::size_t host_layers = 0;
};

class CudaDecodeCalls : public testing::TestWithParam<Setting> {};

std::shared_ptr<Engine> load(const Setting& setting) {
  const std::string name = setting.model;
  const auto dir =
      name == "story" ? source_dir() / "models/story" : test_data_dir() / "fixtures" / name;
  EngineOptions options;
  options.device = "cuda";
  options.experts = setting.experts;
  options.max_batch_rows = 128;
  if (setting.host_layers > 0) {
    const ModelConfig config = load_config(dir);
    const auto device = make_cuda_backend({});
    options.device_memory = device_demand(dir, config, working_memory(options, config, *device))
                                .trunk_from(setting.host_layers);
  }
  auto engine = Engine::load(dir, options);
  EXPECT_EQ(engine->info().memory.host_layers, std::int64_t(setting.host_layers));
  return engine;
}

// Every session decodes the same number of tokens, in one batch a step.
void decode(Engine& engine, std::vector<Session>& sessions, bool draws) {
  const TokenId token = 5;
  const DrawRequest draw{.temperature = 1, .top_k = 50, .part = 0.3};
  std::vector<BatchItem> items(sessions.size());
  for (int step = 0; step < kSteps; ++step) {
    for (std::size_t i = 0; i < sessions.size(); ++i) {
      items[i] = {.session = &sessions[i],
                  .tokens = {&token, 1},
                  .origin = Origin::kGenerated,
                  .draw = draws ? &draw : nullptr};
    }
    engine.forward(items);
  }
}

TEST_P(CudaDecodeCalls, AllocateNothingAndWaitOnceAStep) {
  BALTORO_NEEDS_GPU();
  const auto engine = load(GetParam());
  std::vector<Session> sessions;
  std::vector<Snapshot> starts;
  for (std::size_t i = 0; i < GetParam().sessions; ++i) {
    sessions.push_back(engine->new_session());
    const std::vector<TokenId> prompt(40 + 7 * i, 3);
    sessions.back().prefill(prompt);
    starts.push_back(sessions.back().snapshot());
  }
  const auto rewind = [&] {
    for (std::size_t i = 0; i < sessions.size(); ++i) sessions[i].rewind(starts[i]);
  };
  // Pools, scratch and graphs of these positions are made in the first run.
  decode(*engine, sessions, GetParam().draws);
  rewind();
  decode(*engine, sessions, GetParam().draws);
  rewind();
  const std::size_t free_before = free_device_bytes();
  const CudaCallCounter counter;
  decode(*engine, sessions, GetParam().draws);
  const CudaCalls calls = counter.calls();
  EXPECT_EQ(calls.allocations, 0);
  EXPECT_LE(calls.waits, kSteps);
  EXPECT_GE(calls.waits, kSteps) << "the counter does not see the wait for what the step gives";
  EXPECT_GE(calls.free_bytes, free_before);
}

INSTANTIATE_TEST_SUITE_P(Models, CudaDecodeCalls,
                         testing::Values(Setting{"k3", 1, ExpertPlace::kAuto},
                                         Setting{"k3", 8, ExpertPlace::kAuto},
                                         Setting{"k3", 8, ExpertPlace::kAuto, true},
                                         Setting{"story", 1, ExpertPlace::kAuto, true},
                                         Setting{"kimi_linear", 1, ExpertPlace::kAuto},
                                         Setting{"story", 1, ExpertPlace::kAuto},
                                         Setting{"story", 8, ExpertPlace::kHost},
                                         Setting{"k3", 4, ExpertPlace::kAuto, false, 2}),
                         [](const auto& setting) {
                           return std::string(setting.param.model) + "_" +
                                  std::to_string(setting.param.sessions) +
                                  (setting.param.experts == ExpertPlace::kHost ? "_split" : "") +
                                  (setting.param.draws ? "_drawn" : "") +
                                  (setting.param.host_layers > 0 ? "_layers" : "");
                         });

TEST(CudaCallCounter, SeesWhatAnEngineDoes) {
  BALTORO_NEEDS_GPU();
  const CudaCallCounter counter;
  const auto engine = load({"k3", 1, ExpertPlace::kAuto});
  const CudaCalls calls = counter.calls();
  EXPECT_GT(calls.allocations, 10);
  EXPECT_GT(calls.waits, 10);
}

}  // namespace
}  // namespace baltoro
