// The most likely tokens of a row, found on the GPU, are those of the row; the scheduler's tokens then
// are those that a session of its own chooses from whole rows.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>

#include "baltoro/generate.h"
#include "baltoro/scheduler.h"
#include "baltoro/session.h"
#include "cuda/backend.h"
#include "cuda/gpu.h"
#include "io/test_files.h"
#include "ops/head.h"
#include "ops/parity/memory.h"
#include "paths.h"

namespace baltoro {
namespace {

TEST(CudaTopLogits, AreThoseOfTheRow) {
  BALTORO_NEEDS_GPU();
  const auto cuda = make_cuda_backend({.activations = Activations::kF32});
  constexpr std::int64_t kHidden = 16;
  constexpr std::size_t kRows = 9;
  for (const std::int64_t vocab : {1, 5, 256, 257, 1000, 1025, 5000, 163840}) {
    for (const bool equal : {false, true}) {
      OpMemory memory(*cuda);
      std::vector<float> x = random_values(3, "x", kRows * kHidden, equal ? 0.0f : 4.0f);
      HeadTopArgs args;
      args.x = memory.input("x", x, kHidden);
      args.weight = memory.weight(5, "weight", WeightFormat::kBf16, vocab, kHidden);
      std::vector<std::int32_t> rows(kRows);
      std::iota(rows.begin(), rows.end(), 0);
      args.rows = rows;
      std::vector<std::uint8_t> mask(static_cast<std::size_t>(vocab));
      for (std::size_t i = 0; i < mask.size(); i += 7) mask[i] = i == 0 && vocab == 1 ? 0 : 1;
      Buffer banned = cuda->allocate(mask.size(), "banned");
      cuda->copy(banned.data(), mask.data(), mask.size());
      args.banned = static_cast<const std::uint8_t*>(banned.data());
      const std::vector<float> temperatures(kRows, 0.7f);
      args.temperatures = temperatures;
      Buffer top = cuda->allocate_shared(kRows * sizeof(TopRow), "top");
      Buffer bad = cuda->allocate_shared(kRows * sizeof(std::int32_t), "bad");
      args.top = static_cast<TopRow*>(top.data());
      args.bad = static_cast<std::int32_t*>(bad.data());
      head_top(*cuda, args);
      for (std::size_t i = 0; i < kRows; ++i) {
        std::vector<float> logits(static_cast<std::size_t>(vocab));
        cuda->fetch_logits(i, logits);
        TopRow expected;
        find_top(logits, mask.data(), 0.7f, expected);
        const TopRow& seen = args.top[i];
        SCOPED_TRACE(vocab);
        // Many equal logits may be more than there is room for.
        if (equal && seen.count == 0) continue;
        ASSERT_EQ(seen.count, expected.count);
        EXPECT_EQ(seen.whole, expected.whole);
        for (int k = 0; k < seen.count; ++k) {
          ASSERT_EQ(seen.ids[k], expected.ids[k]) << k;
          ASSERT_EQ(seen.logits[k], expected.logits[k]) << k;
        }
        EXPECT_NEAR(seen.total, expected.total, 1e-6 * expected.total);
        EXPECT_NEAR(seen.tempered_total, expected.tempered_total, 1e-6 * expected.tempered_total);
        EXPECT_EQ(args.bad[i], 0);
      }
    }
  }
}

TEST(CudaTopLogits, TheSchedulersTokensAreThoseOfWholeRows) {
  BALTORO_NEEDS_GPU();
  const auto engine =
      Engine::load(source_dir() / "models/story",
                   {.device = "cuda", .deterministic = true, .max_batch_rows = 128});
  const std::vector<SamplingParams> settings{
      {.temperature = 0},
      {.temperature = 1, .top_k = 40, .seed = 3},
      {.temperature = 0.8f, .top_p = 0.9f, .seed = 4},
      {.temperature = 1.2f, .min_p = 0.05f, .seed = 5},
      {.temperature = 1, .top_k = 100, .top_p = 0.95f, .min_p = 0.01f, .seed = 6},
      {.temperature = 1.5f, .top_p = 0.999f, .seed = 7},
      {.temperature = 1, .seed = 8}};
  std::vector<std::vector<TokenId>> together(settings.size());
  {
    Scheduler scheduler(engine, {});
    for (std::size_t i = 0; i < settings.size(); ++i) {
      GenerationRequest request;
      request.prompt = {5, 6, 7, 8, 9};
      request.sampling = settings[i];
      request.banned = {0, 1, 2, 11};
      request.max_tokens = 60;
      request.on_token = [&ids = together[i]](int, const GeneratedToken& token) {
        ids.push_back(token.choice.token);
        return true;
      };
      ASSERT_NE(scheduler.submit(std::move(request)).ticket, nullptr);
    }
    ASSERT_TRUE(scheduler.drain(std::chrono::seconds(60)));
  }
  for (std::size_t i = 0; i < settings.size(); ++i) {
    Session session = engine->new_session();
    const std::vector<TokenId> prompt{5, 6, 7, 8, 9};
    session.prefill(prompt);
    GenerateOptions options;
    options.sampling = settings[i];
    options.banned = {0, 1, 2, 11};
    options.max_tokens = 60;
    const Generation alone = generate(session, nullptr, options, {});
    EXPECT_EQ(together[i], alone.ids) << i;
  }
}

// A step of the scheduler over a vocabulary of 163,840, with requests that the most likely tokens
// decide and with such that want all logits.
TEST(SlowCudaTopLogits, WhatAStepTakes) {
  BALTORO_NEEDS_GPU();
  TempDir dir;
  nlohmann::json config =
      nlohmann::json::parse(read_file(test_data_dir() / "configs" / "kimi_linear_48b.json"));
  config["num_hidden_layers"] = 2;
  config["linear_attn_config"]["kda_layers"] = {1, 2};
  config["linear_attn_config"]["full_attn_layers"] = nlohmann::json::array();
  write_file(dir.path() / "config.json", config.dump());
  const auto engine = Engine::load(dir.path(), {.device = "cuda", .random_weights = true});
  for (const int requests : {1, 32, 128}) {
    for (const std::int64_t top_k : {50, 0, 50, 0}) {
      Scheduler scheduler(engine, {.max_running = requests});
      for (int i = 0; i < requests; ++i) {
        GenerationRequest request;
        request.prompt = {5, 6, 7, static_cast<TokenId>(i)};
        request.sampling = {
            .temperature = 1, .top_k = top_k, .seed = static_cast<std::uint64_t>(i)};
        request.max_tokens = 64;
        ASSERT_NE(scheduler.submit(std::move(request)).ticket, nullptr);
      }
      ASSERT_TRUE(scheduler.drain(std::chrono::seconds(60)));
      const SchedulerStats stats = scheduler.stats();
      const double steps = static_cast<double>(stats.steps);
      std::printf("%d requests, top_k %d: %.3f ms a step, %.3f of them in forward\n", requests,
                  static_cast<int>(top_k), 1e3 * stats.step_seconds / steps,
                  1e3 * stats.forward_seconds / steps);
    }
  }
}

}  // namespace
}  // namespace baltoro
