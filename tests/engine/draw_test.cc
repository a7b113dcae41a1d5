// A token drawn where the logits are is the one that the sampler chooses from them, or none.
#include "ops/draw.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "baltoro/sampler.h"
#include "core/rng.h"
#include "engine/sessions.h"

namespace baltoro {
namespace {

struct Row {
  std::vector<float> logits;
  std::vector<TokenId> banned;

  Drawn draw(const DrawRequest& request) const {
    std::vector<std::uint8_t> mask(logits.size());
    for (const TokenId token : request.banned) mask[static_cast<std::size_t>(token)] = 1;
    return draw_token(logits, {.banned = mask.data(),
                               .part = request.part,
                               .top_k = static_cast<std::int32_t>(request.top_k),
                               .temperature = request.temperature,
                               .top_p = request.top_p,
                               .min_p = request.min_p});
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

TEST(Draw, ChoosesWhatTheSamplerChooses) {
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
  std::uint64_t step = 0;
  for (int i = 0; i < 84; ++i, ++step) {
    const Row row = row_of(i);
    for (const SamplingParams& params : settings) {
      if (++step % 3 != 0) continue;  // others with the next row
      Sampler sampler(params, row.banned);
      const Choice whole = sampler.choose(row.logits, step);
      const std::optional<DrawRequest> request = sampler.draw_request(step);
      ASSERT_TRUE(request);
      const Drawn drawn = row.draw(*request);
      EXPECT_EQ(drawn.bad, 0);
      ++tried;
      if (drawn.token < 0) continue;
      ++decided;
      ASSERT_EQ(drawn.token, whole.token)
          << "row " << i << " T " << params.temperature << " k " << params.top_k << " p "
          << params.top_p << " min_p " << params.min_p;
      EXPECT_NEAR(drawn.logprob, whole.logprob, 1e-6f + 2e-7f * std::fabs(whole.logprob));
    }
  }
  // Equal weights put a nucleus of a round part within the last digits of a sum.
  EXPECT_GT(decided, 0.99 * tried);
}

TEST(Draw, WhatHangsOnTheLastDigitsOfASumIsLeftOpen) {
  Row row{.logits = std::vector<float>(8, 1.5f), .banned = {}};
  DrawRequest request{.temperature = 1, .part = 0.25};
  EXPECT_EQ(row.draw(request).token, -1);
  request.part = 0.26;
  EXPECT_EQ(row.draw(request).token, 2);
  request.top_p = 0.5f;
  EXPECT_EQ(row.draw(request).token, -1);
  request.top_p = 0.51f;
  EXPECT_EQ(row.draw(request).token, 3) << "the least likely first: 4, 3, 2, 1, 0";
}

TEST(Draw, ABadRowAndOneWithoutTokensGiveNone) {
  Row row{.logits = {1, std::numeric_limits<float>::infinity(), 0}, .banned = {}};
  EXPECT_EQ(row.draw({.temperature = 0}).bad, 1);
  row.logits[1] = 2;
  const std::vector<TokenId> all{0, 1, 2};
  EXPECT_EQ(row.draw({.temperature = 0}).token, 1);
  EXPECT_EQ(row.draw({.temperature = 0, .banned = all}).token, -1);
}

TEST(Draw, WhatHangsOnMoreThanTheRowIsNotForAPass) {
  for (const SamplingParams& params : {SamplingParams{.temperature = 0, .presence_penalty = 1},
                                       SamplingParams{.temperature = 0, .logit_bias = {{1, 2.0f}}},
                                       SamplingParams{.temperature = 0, .num_logprobs = 2},
                                       SamplingParams{.temperature = 1, .top_k = 257}}) {
    EXPECT_FALSE(Sampler(params, {}).draw_request(0));
  }
  EXPECT_TRUE(Sampler({.temperature = 0, .top_k = 257}, {}).draw_request(0));
}

// Passes that draw for all (the first), for some beside others, and for none.
TEST(EngineDraw, NeighboursGetWhatEachAskedFor) {
  const auto engine = Engine::load(fixture("k3"), {.num_threads = 1});
  const std::vector<TokenId> banned{1, 2}, others{7};
  const TokenId token = 3;
  for (const bool all : {true, false}) {
    std::vector<Session> sessions;
    std::vector<std::vector<float>> expected;
    for (int i = 0; i < 5; ++i) {
      sessions.push_back(engine->new_session());
      sessions.back().prefill(prompt(20 + i));
      Session alone = sessions.back().fork();
      alone.decode(token);
      expected.emplace_back(alone.logits().begin(), alone.logits().end());
    }
    // Of two lists of banned tokens one is served, and 3 hangs on the last digits.
    const auto drawn_here = [&](std::size_t i) { return i != 3 && (all || (i != 0 && i != 4)); };
    std::vector<Sampler> samplers;
    std::vector<DrawRequest> requests;
    std::vector<BatchItem> items;
    for (std::size_t i = 0; i < 5; ++i) {
      samplers.emplace_back(SamplingParams{.temperature = 1, .top_k = i == 2 ? 4 : 0, .seed = i},
                            !all && i == 4 ? others : banned);
      requests.push_back(*samplers.back().draw_request(9));
    }
    requests[3].part = 0;
    for (std::size_t i = 0; i < 5; ++i) {
      items.push_back({.session = &sessions[i],
                       .tokens = {&token, 1},
                       .origin = Origin::kGenerated,
                       .draw = !all && i == 0 ? nullptr : &requests[i]});
    }
    engine->forward(items);
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_FALSE(items[i].error);
      ASSERT_EQ(items[i].drawn.has_value(), drawn_here(i)) << i;
      if (drawn_here(i)) {
        EXPECT_EQ(items[i].drawn->token, samplers[i].choose(expected[i], 9).token);
        EXPECT_THROW(static_cast<void>(sessions[i].logits()), Error);
      } else {
        EXPECT_TRUE(same_bits(expected[i], sessions[i].logits()));
      }
    }
  }
}

TEST(EngineDraw, OfAWrongKindIsRefused) {
  const auto engine = Engine::load(fixture("k3"), {.num_threads = 1});
  Session session = engine->new_session();
  const TokenId token = 3;
  for (const DrawRequest& draw : {DrawRequest{.top_k = 257}, DrawRequest{.top_k = -1},
                                  DrawRequest{.part = 1}, DrawRequest{.temperature = -1}}) {
    BatchItem item{.session = &session, .tokens = {&token, 1}, .draw = &draw};
    EXPECT_THROW(engine->forward({&item, 1}), Error);
  }
}

}  // namespace
}  // namespace baltoro
