// A model whose first layers the CPU computes, because the GPU has room for the last ones alone: with
// f32 the tokens of the CPU wherever the cut is; recorded passes; sessions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "baltoro/engine.h"
#include "baltoro/session.h"
#include "cuda/backend.h"
#include "cuda/gpu.h"
#include "engine/device_load.h"
#include "paths.h"

namespace baltoro {
namespace {

namespace fs = std::filesystem;

fs::path model_dir(const std::string& name) {
  return name == "story" ? source_dir() / "models/story" : test_data_dir() / "fixtures" / name;
}

EngineOptions options_of(Activations activations) {
  EngineOptions options;
  options.device = "cuda";
  options.activations = activations;
  options.max_batch_rows = 128;
  return options;
}

std::shared_ptr<Engine> load_split(const fs::path& dir, Activations activations,
                                   std::int64_t host_layers) {
  EngineOptions options = options_of(activations);
  const ModelConfig config = load_config(dir);
  {
    const auto device = make_cuda_backend({.activations = activations});
    options.device_memory = device_demand(dir, config, working_memory(options, config, *device))
                                .trunk_from(static_cast<std::size_t>(host_layers));
  }
  auto engine = Engine::load(dir, options);
  EXPECT_EQ(engine->info().memory.host_layers, host_layers) << dir;
  return engine;
}

std::shared_ptr<Engine> load_on_cpu(const fs::path& dir, Activations activations) {
  EngineOptions options = options_of(activations);
  options.device = "cpu";
  return Engine::load(dir, options);
}

std::vector<TokenId> prompt(std::size_t count, std::size_t seed = 0) {
  std::vector<TokenId> ids(count);
  for (std::size_t i = 0; i < count; ++i) {
    ids[i] = static_cast<TokenId>((i * 29 + i * i * 7 + seed * 11) % 90);
  }
  return ids;
}

std::vector<float> logits_of(const Session& session) {
  return {session.logits().begin(), session.logits().end()};
}

double relative_error(const std::vector<float>& reference, const std::vector<float>& values) {
  double error = 0, power = 0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const double d = static_cast<double>(reference[i]) - static_cast<double>(values[i]);
    error += d * d;
    power += static_cast<double>(reference[i]) * static_cast<double>(reference[i]);
  }
  return std::sqrt(error / power);
}

// Two prompts, the second within an open block, tokens behind both, and a fork.
struct Transcript {
  std::vector<TokenId> tokens;
  std::vector<float> logits;
};

Transcript transcript(Engine& engine) {
  Transcript t;
  Session session = engine.new_session();
  const auto go_on = [&](Session& timeline, int count) {
    for (int i = 0; i < count; ++i) {
      const std::vector<float> logits = logits_of(timeline);
      t.logits.insert(t.logits.end(), logits.begin(), logits.end());
      t.tokens.push_back(static_cast<TokenId>(std::ranges::max_element(logits) - logits.begin()));
      timeline.decode(t.tokens.back());
    }
  };
  session.prefill(prompt(140));
  go_on(session, 6);
  session.prefill(prompt(70, 1));
  Session fork = session.fork();
  go_on(session, 6);
  fork.prefill(prompt(20, 2));
  go_on(fork, 3);
  return t;
}

class CudaSegments : public testing::TestWithParam<const char*> {};

TEST_P(CudaSegments, F32GivesTheTokensOfTheCpuWhereverTheCutIs) {
  BALTORO_NEEDS_GPU();
  const fs::path dir = model_dir(GetParam());
  const Transcript cpu = transcript(*load_on_cpu(dir, Activations::kF32));
  const std::int64_t layers = load_config(dir).num_layers;
  for (std::int64_t cut = 1; cut < layers; ++cut) {
    const Transcript split = transcript(*load_split(dir, Activations::kF32, cut));
    EXPECT_EQ(cpu.tokens, split.tokens) << cut;
    EXPECT_LT(relative_error(cpu.logits, split.logits), 2e-5) << cut;
  }
}

TEST_P(CudaSegments, Bf16StaysNearF32) {
  BALTORO_NEEDS_GPU();
  const fs::path dir = model_dir(GetParam());
  const std::vector<TokenId> ids = prompt(200);
  const auto logits = [&](const std::shared_ptr<Engine>& engine) {
    Session session = engine->new_session();
    return session.prefill_all_logits(ids);
  };
  const std::vector<float> exact = logits(load_on_cpu(dir, Activations::kF32));
  const double cpu = relative_error(exact, logits(load_on_cpu(dir, Activations::kBf16)));
  const std::int64_t cut = load_config(dir).num_layers / 2;
  const double split = relative_error(exact, logits(load_split(dir, Activations::kBf16, cut)));
  EXPECT_LT(split, 1.5 * cpu + 1e-3) << "CPU: " << cpu;
}

INSTANTIATE_TEST_SUITE_P(Models, CudaSegments,
                         testing::Values("k3", "kimi_linear", "story", "dense_only", "gqa",
                                         "attnres_full"),
                         [](const auto& model) { return std::string(model.param); });

TEST(CudaSegmentsOfK3, RecordedPassesGiveTheBitsOfTheFirst) {
  BALTORO_NEEDS_GPU();
  // The first decoding pass of a form runs op by op, the second records, later ones repeat.
  const auto engine = load_split(model_dir("k3"), Activations::kBf16, 2);
  Session session = engine->new_session();
  session.prefill(prompt(100));
  const Snapshot start = session.snapshot();
  std::vector<std::vector<float>> runs;
  for (int run = 0; run < 4; ++run) {
    session.rewind(start);
    session.decode(3);
    session.decode(4);
    runs.push_back(logits_of(session));
  }
  for (const std::vector<float>& logits : runs) EXPECT_EQ(logits, runs.front());
}

TEST(CudaSegmentsOfK3, ASavedSessionGoesOnWithTheSameBits) {
  BALTORO_NEEDS_GPU();
  const auto engine = load_split(model_dir("k3"), Activations::kBf16, 2);
  Session session = engine->new_session();
  session.prefill(prompt(100));
  const fs::path file = fs::temp_directory_path() / "baltoro_cuda_segments_test";
  session.save(file);
  Session restored = Session::restore(*engine, file);
  fs::remove(file);
  session.decode(5);
  restored.decode(5);
  EXPECT_EQ(logits_of(session), logits_of(restored));
}

TEST(CudaSegmentsOfK3, TooLittleForOneLayerIsRefused) {
  BALTORO_NEEDS_GPU();
  EngineOptions options = options_of(Activations::kBf16);
  options.device_memory = 1 << 20;
  try {
    Engine::load(model_dir("k3"), options);
    FAIL() << "loaded into 1 MiB";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDoesNotFit);
    EXPECT_THAT(error.what(), testing::HasSubstr("last layer"));
    EXPECT_THAT(error.what(), testing::HasSubstr("--device cpu"));
  }
}

}  // namespace
}  // namespace baltoro
