// The most likely tokens choose what the whole row chooses, or say that they cannot.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "baltoro/sampler.h"
#include "core/rng.h"
#include "engine/sessions.h"
#include "ops/head.h"

namespace baltoro {
namespace {

struct Row {
  std::vector<float> logits;
  std::vector<TokenId> banned;
  TopRow top{};

  TopLogits find(float temperature) {
    std::vector<std::uint8_t> mask(logits.size());
    for (const TokenId token : banned) mask[static_cast<std::size_t>(token)] = 1;
    find_top(logits, mask.data(), temperature, top);
    const auto count = static_cast<std::size_t>(top.count);
    // A device's sums may be off in their last digits.
    return {.ids = {top.ids, count},
            .logits = {top.logits, count},
            .whole = top.whole != 0,
            .total = top.total * (1 + 9e-7),
            .tempered_total = top.tempered_total * (1 + 9e-7)};
  }
};

// Rows as of models: steep or flat, and some with many equal logits.
Row row_of(int i) {
  const Philox random(11, static_cast<std::uint64_t>(i));
  const std::size_t sizes[] = {3, 40, 255, 256, 257, 2000, 9000};
  const float scales[] = {0.5f, 3, 12, 200};
  Row row;
  row.logits.resize(sizes[i % 7]);
  const float scale = scales[i / 7 % 4];
  for (std::size_t t = 0; t < row.logits.size(); ++t) {
    const float u = 2 * random.uniform(t) - 1;
    row.logits[t] = scale * u * u * u;
    if (i % 5 == 0) row.logits[t] = std::round(row.logits[t]);
    if (i % 3 == 0 && t % 11 == 4) row.banned.push_back(static_cast<TokenId>(t));
  }
  return row;
}

TEST(SamplerTop, ChoosesWhatTheWholeRowChooses) {
  std::vector<SamplingParams> settings;
  for (const float temperature : {0.0f, 0.3f, 1.0f, 1.7f}) {
    for (const std::int64_t k : {0, 1, 5, 50, 256}) {
      for (const float p : {1.0f, 0.95f, 0.5f, 0.01f}) {
        for (const float min_p : {0.0f, 0.05f, 1.0f}) {
          settings.push_back(
              {.temperature = temperature, .top_k = k, .top_p = p, .min_p = min_p, .seed = 5});
        }
      }
    }
  }
  int tried = 0, decided = 0;
  for (int i = 0; i < 84; ++i) {
    Row row = row_of(i);
    for (const SamplingParams& params : settings) {
      Sampler sampler(params, row.banned);
      if (!sampler.decides_by_top()) {
        EXPECT_TRUE(params.temperature > 0 && params.top_k == 0 && params.top_p == 1 &&
                    params.min_p == 0);
        continue;
      }
      const TopLogits top = row.find(params.temperature > 0 ? params.temperature : 1);
      for (std::uint64_t step = 0; step < 3; ++step) {
        const Choice whole = sampler.choose(row.logits, step);
        const std::optional<Choice> choice = sampler.choose(top, step);
        ++tried;
        if (!choice) continue;
        ++decided;
        ASSERT_EQ(choice->token, whole.token)
            << "row " << i << " T " << params.temperature << " k " << params.top_k << " p "
            << params.top_p << " min_p " << params.min_p;
        EXPECT_NEAR(choice->logprob, whole.logprob, 2e-5f + 2e-7f * std::fabs(whole.logprob));
      }
    }
  }
  EXPECT_GT(decided, 0.8 * tried);
  EXPECT_LT(decided, tried) << "flat rows cannot be decided";
}

TEST(SamplerTop, WhatChangesOtherLogitsWantsTheWholeRow) {
  for (const SamplingParams& params :
       {SamplingParams{.temperature = 0, .presence_penalty = 1},
        SamplingParams{.temperature = 0, .logit_bias = {{1, 2.0f}}},
        SamplingParams{.temperature = 0, .num_logprobs = 2}, SamplingParams{.temperature = 1},
        SamplingParams{.temperature = 1, .top_k = 257}}) {
    EXPECT_FALSE(Sampler(params, {}).decides_by_top());
  }
}

// A pass in which some look at the most likely and others at all, and of the first one is content.
TEST(EngineTop, NeighboursGetWhatEachAskedFor) {
  const auto engine = Engine::load(fixture("k3"), {.num_threads = 1});
  std::vector<Session> sessions;
  for (int i = 0; i < 5; ++i) {
    sessions.push_back(engine->new_session());
    sessions.back().prefill(prompt(20 + i));
  }
  std::vector<std::vector<float>> expected;
  for (Session& session : sessions) {
    Session alone = session.fork();
    alone.decode(3);
    expected.emplace_back(alone.logits().begin(), alone.logits().end());
  }
  const TokenId token = 3;
  const std::vector<TokenId> banned{1, 2}, others{7};
  std::vector<TopLogits> seen(5);
  std::vector<TokenId> best(5, -1);
  std::vector<TopLogitsRequest> requests(5);
  std::vector<BatchItem> items;
  for (std::size_t i = 0; i < 5; ++i) {
    requests[i] = {.temperature = 1,
                   .banned = i == 4 ? others : banned,
                   .decide = [&best, i](const TopLogits& top) {
                     best[i] = top.ids.front();
                     return i != 3;
                   }};
    items.push_back({.session = &sessions[i],
                     .tokens = {&token, 1},
                     .origin = Origin::kGenerated,
                     .top = i == 0 ? nullptr : &requests[i]});
  }
  engine->forward(items);
  const auto without = [&](std::size_t i, const std::vector<TokenId>& left_out) {
    std::vector<float> row = expected[i];
    for (const TokenId id : left_out) row[static_cast<std::size_t>(id)] = -1e30f;
    return static_cast<TokenId>(std::max_element(row.begin(), row.end()) - row.begin());
  };
  int whole = 0;
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_FALSE(items[i].error);
    // Of two lists of banned tokens one is served; the items of the other have all logits.
    if (best[i] < 0 || i == 3) {
      ++whole;
      EXPECT_EQ(expected[i],
                std::vector<float>(sessions[i].logits().begin(), sessions[i].logits().end()));
    } else {
      EXPECT_EQ(best[i], without(i, i == 4 ? others : banned));
      EXPECT_THROW(sessions[i].logits(), Error);
    }
  }
  EXPECT_GE(whole, 2);
  EXPECT_LT(whole, 5);
}

}  // namespace
}  // namespace baltoro
