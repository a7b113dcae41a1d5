// Tokens drawn on the GPU are those that the sampler chooses from the same logits.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>

#include "baltoro/generate.h"
#include "baltoro/scheduler.h"
#include "baltoro/session.h"
#include "cuda/backend.h"
#include "cuda/gpu.h"
#include "io/test_files.h"
#include "ops/head.h"
#include "ops/linear.h"
#include "ops/parity/memory.h"
#include "paths.h"

namespace baltoro {
namespace {

SamplingParams setting(std::size_t i) {
  const float temperatures[] = {1, 0, 0.3f, 1.7f, 0.05f};
  const std::int64_t top_ks[] = {0, 0, 50, 1, 256, 0, 5};
  const float top_ps[] = {1, 0.95f, 1, 0.5f, 1, 0.01f, 0.999f, 1, 1};
  const float min_ps[] = {0, 0, 0.05f, 0, 0, 0, 1, 0, 0, 0, 1e-4f};
  return {.temperature = temperatures[i % 5],
          .top_k = top_ks[i % 7],
          .top_p = top_ps[i % 9],
          .min_p = min_ps[i % 11],
          .seed = i};
}

// The head of rows on the GPU, whose logits spread differently; hidden sizes of 1 give many equal ones.
class HeadRows {
 public:
  HeadRows(std::int64_t vocab, std::int64_t hidden, std::size_t count,
           Activations activations = Activations::kF32)
      : backend_(make_cuda_backend({.activations = activations})),
        memory_(*backend_),
        vocab_(static_cast<std::size_t>(vocab)),
        rows_(count) {
    std::iota(rows_.begin(), rows_.end(), 0);
    std::vector<float> x = random_values(3, "x", static_cast<std::int64_t>(count) * hidden, 1);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float scales[] = {4, 0.5f, 20, 0};
      x[i] *= scales[i / static_cast<std::size_t>(hidden) % 4];
    }
    memory_.align_weights();
    args_.x = memory_.input("x", x, hidden);
    args_.weight = memory_.weight(5, "weight", WeightFormat::kBf16, vocab, hidden);
    args_.rows = rows_;
    drawn_ = backend_->allocate_shared(count * sizeof(Drawn), "drawn");
    args_.drawn = static_cast<Drawn*>(drawn_.data());
    mask_ = backend_->allocate(vocab_, "banned");
    if (vocab > 1) {
      std::vector<std::uint8_t> mask(vocab_);
      for (std::size_t i = 0; i < vocab_; i += 7) {
        mask[i] = 1;
        banned_.push_back(static_cast<TokenId>(i));
      }
      backend_->copy(mask_.data(), mask.data(), mask.size());
    }
    run(std::vector<Draw>(count));
    for (std::size_t i = 0; i < count; ++i) {
      backend_->fetch_logits(i, logits_.emplace_back(vocab_));
    }
  }

  std::span<const Drawn> run(const std::vector<Draw>& draws) {
    args_.draws = draws;
    for (std::size_t i = 0; i < rows_.size(); ++i) args_.drawn[i] = {.token = -7, .bad = -7};
    head_draw(*backend_, args_);
    backend_->synchronize();
    return {args_.drawn, rows_.size()};
  }
  // How many of the rows were decided with settings from `first` on.
  std::size_t compare(std::size_t first) {
    std::vector<Draw> draws;
    std::vector<Sampler> samplers;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const bool bans = (first + i) % 3 == 1;
      samplers.emplace_back(setting(first + i), bans ? banned_ : std::vector<TokenId>());
      const DrawRequest request = *samplers.back().draw_request(first);
      draws.push_back({.banned = bans ? static_cast<const std::uint8_t*>(mask_.data()) : nullptr,
                       .part = request.part,
                       .top_k = static_cast<std::int32_t>(request.top_k),
                       .temperature = request.temperature,
                       .top_p = request.top_p,
                       .min_p = request.min_p});
    }
    const std::vector<Drawn> drawn = [&] {
      const auto seen = run(draws);
      return std::vector<Drawn>(seen.begin(), seen.end());
    }();
    std::size_t decided = 0;
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      EXPECT_EQ(drawn[i].bad, 0);
      if (drawn[i].token == -1) continue;
      ++decided;
      const Choice whole = samplers[i].choose(logits_[i], first);
      EXPECT_EQ(drawn[i].token, whole.token)
          << "vocabulary " << vocab_ << " row " << i << " T " << draws[i].temperature << " k "
          << draws[i].top_k << " p " << draws[i].top_p << " min_p " << draws[i].min_p;
      EXPECT_NEAR(drawn[i].logprob, whole.logprob, 1e-6f + 2e-7f * std::fabs(whole.logprob));
    }
    return decided;
  }
  void time(const char* what, const Draw& draw) {
    const std::vector<Draw> draws(rows_.size(), draw);
    args_.draws = draws;
    time(what, [&] { head_draw(*backend_, args_); });
  }
  // The product alone, with outputs of half the size.
  void time_product() {
    const auto count = static_cast<std::int64_t>(rows_.size());
    LinearArgs args{.x = args_.x};
    args.add(args_.weight, memory_.output("out", count, static_cast<std::int64_t>(vocab_)));
    time("product", [&] { linear(*backend_, args); });
  }

 private:
  void time(const char* what, const std::function<void()>& op) {
    constexpr int kTimes = 200;
    std::chrono::steady_clock::time_point begin;
    for (int i = -50; i < kTimes; ++i) {
      if (i == 0) {
        backend_->synchronize();
        begin = std::chrono::steady_clock::now();
      }
      op();
    }
    backend_->synchronize();
    const std::chrono::duration<double, std::micro> us = std::chrono::steady_clock::now() - begin;
    std::printf("%zu rows, %s: %.1f us\n", rows_.size(), what, us.count() / kTimes);
  }

  std::unique_ptr<Backend> backend_;
  OpMemory memory_;
  std::size_t vocab_;
  std::vector<std::int32_t> rows_;
  HeadDrawArgs args_;
  Buffer drawn_, mask_;
  std::vector<TokenId> banned_;
  std::vector<std::vector<float>> logits_;
};

TEST(CudaDraw, ChoosesWhatTheSamplerChooses) {
  BALTORO_NEEDS_GPU();
  std::size_t tried = 0, decided = 0;
  for (const std::int64_t vocab : {1, 5, 256, 257, 1000, 1025, 5000, 163840}) {
    for (const std::int64_t hidden : {1, 16}) {
      HeadRows rows(vocab, hidden, 9);
      for (std::size_t first = 0; first < 40; ++first) {
        decided += rows.compare(9 * first);
        tried += 9;
      }
    }
  }
  std::printf("%zu of %zu draws decided\n", decided, tried);
  EXPECT_GT(decided, tried * 6 / 10);
}

TEST(CudaDraw, ChoosesForAnyNumberOfRows) {
  BALTORO_NEEDS_GPU();
  for (const std::size_t count :
       {std::size_t{1}, std::size_t{2}, std::size_t{33}, std::size_t{128}}) {
    HeadRows rows(163840, 16, count);
    std::size_t decided = 0;
    for (std::size_t first = 0; first < 4; ++first) decided += rows.compare(1000 + 131 * first);
    EXPECT_GE(decided, 4 * count / 2) << count;
  }
}

// What the sampler would draw from the flattest rows, no list of a few hundred tokens decides.
TEST(CudaDraw, DecidesWithoutAFilter) {
  BALTORO_NEEDS_GPU();
  HeadRows rows(163840, 16, 9);
  for (int i = 0; i < 20; ++i) {
    const auto drawn = rows.run(std::vector<Draw>(9, {.part = 0.05 * i + 0.013}));
    for (const Drawn& row : drawn) EXPECT_GE(row.token, 0);
  }
}

TEST(CudaDraw, MarksRowsThatAreNotFinite) {
  BALTORO_NEEDS_GPU();
  const auto cuda = make_cuda_backend({.activations = Activations::kF32});
  OpMemory memory(*cuda);
  constexpr std::int64_t kHidden = 8, kVocab = 1000;
  std::vector<float> x = random_values(1, "x", 3 * kHidden, 1);
  x[kHidden + 3] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::int32_t> rows{0, 1, 2};
  const std::vector<Draw> draws{{.top_p = 0.5f}, {.top_p = 0.5f}, {.temperature = 0}};
  Buffer drawn = cuda->allocate_shared(3 * sizeof(Drawn), "drawn");
  auto* const seen = static_cast<Drawn*>(drawn.data());
  head_draw(*cuda, {.x = memory.input("x", x, kHidden),
                    .rows = rows,
                    .weight = memory.weight(1, "weight", WeightFormat::kBf16, kVocab, kHidden),
                    .draws = draws,
                    .drawn = seen});
  cuda->synchronize();
  EXPECT_EQ(seen[0].bad, 0);
  EXPECT_NE(seen[1].bad, 0);
  EXPECT_EQ(seen[2].bad, 0);
  EXPECT_GE(seen[2].token, 0);
}

const std::vector<TokenId> kPrompt{5, 6, 7, 8, 9};
const std::vector<TokenId> kBanned{0, 1, 2, 11};
constexpr std::int64_t kTokens = 60;

// Chosen by the host from whole rows.
std::vector<TokenId> from_rows(Engine& engine, const SamplingParams& params) {
  Session session = engine.new_session();
  session.prefill(kPrompt);
  Sampler sampler(params, kBanned);
  std::vector<TokenId> ids;
  for (std::int64_t i = 0; i < kTokens; ++i) {
    if (i > 0) session.decode(ids.back());
    const auto step = static_cast<std::uint64_t>(session.position());
    ids.push_back(sampler.choose(session.logits(), step).token);
  }
  return ids;
}

std::vector<std::vector<TokenId>> scheduled(const std::shared_ptr<Engine>& engine,
                                            const std::vector<SamplingParams>& settings) {
  std::vector<std::vector<TokenId>> ids(settings.size());
  Scheduler scheduler(engine, {.max_running = 256, .max_waiting = 256});
  for (std::size_t i = 0; i < settings.size(); ++i) {
    GenerationRequest request;
    request.prompt = kPrompt;
    request.sampling = settings[i];
    request.banned = kBanned;
    request.max_tokens = kTokens;
    request.on_token = [&list = ids[i]](int, const GeneratedToken& token) {
      list.push_back(token.choice.token);
      return true;
    };
    EXPECT_NE(scheduler.submit(std::move(request)).ticket, nullptr);
  }
  EXPECT_TRUE(scheduler.drain(std::chrono::seconds(120)));
  return ids;
}

std::shared_ptr<Engine> story() {
  return Engine::load(source_dir() / "models/story",
                      {.device = "cuda", .deterministic = true, .max_batch_rows = 256});
}

// Recorded passes with draws, such with draws behind them (more rows than are drawn at a time, or one
// that wants its logits), and a session of its own.
TEST(CudaDraw, TokensOfEveryWayAreThoseOfWholeRows) {
  BALTORO_NEEDS_GPU();
  const auto engine = story();
  std::vector<SamplingParams> settings{
      {.temperature = 0},
      {.temperature = 1, .top_k = 40, .seed = 3},
      {.temperature = 0.8f, .top_p = 0.9f, .seed = 4},
      {.temperature = 1.2f, .min_p = 0.05f, .seed = 5},
      {.temperature = 1, .top_k = 100, .top_p = 0.95f, .min_p = 0.01f, .seed = 6},
      {.temperature = 1.5f, .top_p = 0.999f, .seed = 7},
      {.temperature = 1, .seed = 8}};
  std::vector<std::vector<TokenId>> expected;
  for (const SamplingParams& params : settings) {
    expected.push_back(from_rows(*engine, params));
    Session session = engine->new_session();
    session.prefill(kPrompt);
    GenerateOptions options;
    options.sampling = params;
    options.banned = kBanned;
    options.max_tokens = kTokens;
    EXPECT_EQ(generate(session, nullptr, options, {}).ids, expected.back()) << expected.size();
  }
  EXPECT_EQ(scheduled(engine, settings), expected);
  settings.push_back({.temperature = 1, .seed = 9, .num_logprobs = 2});
  expected.push_back(from_rows(*engine, settings.back()));
  EXPECT_EQ(scheduled(engine, settings), expected);
  while (settings.size() < 140) {
    settings.push_back(settings[settings.size() % 7]);
    expected.push_back(expected[(expected.size()) % 7]);
  }
  settings.erase(settings.begin() + 7);
  expected.erase(expected.begin() + 7);
  EXPECT_EQ(scheduled(engine, settings), expected);
}

std::shared_ptr<Engine> two_layers(const TempDir& dir) {
  nlohmann::json config =
      nlohmann::json::parse(read_file(test_data_dir() / "configs" / "kimi_linear_48b.json"));
  config["num_hidden_layers"] = 2;
  config["linear_attn_config"]["kda_layers"] = {1, 2};
  config["linear_attn_config"]["full_attn_layers"] = nlohmann::json::array();
  write_file(dir.path() / "config.json", config.dump());
  return Engine::load(dir.path(), {.device = "cuda", .random_weights = true});
}

// A step of the scheduler over a vocabulary of 163,840: draws, and requests that want all logits.
TEST(SlowCudaDraw, WhatAStepTakes) {
  BALTORO_NEEDS_GPU();
  const TempDir dir;
  const auto engine = two_layers(dir);
  const std::vector<std::pair<const char*, SamplingParams>> kinds{
      {"greedy", {.temperature = 0}},
      {"no filter", {.temperature = 1}},
      {"top_k 50", {.temperature = 1, .top_k = 50}},
      {"top_p 0.9 at 0.1", {.temperature = 0.1f, .top_p = 0.9f}},
      {"all logits", {.temperature = 1, .logit_bias = {{1, 0.0f}}}}};
  for (const int requests : {1, 32, 128}) {
    for (int turn = 0; turn < 2; ++turn) {
      for (const auto& [name, sampling] : kinds) {
        Scheduler scheduler(engine, {.max_running = requests});
        for (int i = 0; i < requests; ++i) {
          GenerationRequest request;
          request.prompt = {5, 6, 7, static_cast<TokenId>(i)};
          request.sampling = sampling;
          request.sampling.seed = static_cast<std::uint64_t>(i);
          request.max_tokens = 64;
          ASSERT_NE(scheduler.submit(std::move(request)).ticket, nullptr);
        }
        ASSERT_TRUE(scheduler.drain(std::chrono::seconds(60)));
        const SchedulerStats stats = scheduler.stats();
        const double steps = static_cast<double>(stats.steps);
        std::printf("%d requests, %s: %.3f ms a step, %.3f of them in forward\n", requests, name,
                    1e3 * stats.step_seconds / steps, 1e3 * stats.forward_seconds / steps);
      }
    }
  }
}

// The head over a vocabulary of 163,840 with a width of 64, so that little of it is the product.
TEST(SlowCudaDraw, WhatTheOpTakes) {
  BALTORO_NEEDS_GPU();
  for (const std::size_t count : {std::size_t{1}, std::size_t{32}, std::size_t{128}}) {
    HeadRows rows(163840, 64, count, Activations::kBf16);
    for (int turn = 0; turn < 2; ++turn) {
      rows.time_product();
      rows.time("greedy", {.temperature = 0});
      rows.time("no filter", {.part = 0.3});
      rows.time("no filter, T 0.7", {.part = 0.3, .temperature = 0.7f});
      rows.time("top_k 50", {.part = 0.3, .top_k = 50});
      rows.time("top_p 0.9", {.part = 0.3, .top_p = 0.9f});
    }
  }
}

}  // namespace
}  // namespace baltoro
