#include "baltoro/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "baltoro/error.h"
#include "engine/allocation_counter.h"

namespace baltoro {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TokenId greedy(const std::vector<float>& logits, const std::vector<TokenId>& banned = {}) {
  return Sampler({.temperature = 0}, banned).choose(logits, 0).token;
}

ErrorCode failure(const std::vector<float>& logits, const std::vector<TokenId>& banned = {}) {
  for (float temperature : {0.0f, 1.0f}) {
    try {
      Sampler({.temperature = temperature}, banned).choose(logits, 0);
      return ErrorCode::kInternal;
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kNonFinite) return e.code();
    }
  }
  return ErrorCode::kNonFinite;
}

// Draws of steps [0, n).
std::map<TokenId, int> draws(const SamplingParams& params, const std::vector<float>& logits, int n,
                             const std::vector<TokenId>& banned = {}) {
  Sampler sampler(params, banned);
  std::map<TokenId, int> counts;
  for (int step = 0; step < n; ++step) {
    ++counts[sampler.choose(logits, static_cast<std::uint64_t>(step)).token];
  }
  return counts;
}

// Pearson's statistic of the counts against probabilities that sum to 1.
double chi_squared(const std::map<TokenId, int>& counts, const std::vector<double>& p, int n) {
  double sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    if (p[i] == 0) continue;
    const auto it = counts.find(static_cast<TokenId>(i));
    const double expected = p[i] * n, seen = it == counts.end() ? 0 : it->second;
    sum += (seen - expected) * (seen - expected) / expected;
  }
  return sum;
}

std::vector<double> softmax(const std::vector<float>& logits, double temperature) {
  std::vector<double> p;
  double sum = 0;
  for (float x : logits) sum += p.emplace_back(std::exp(static_cast<double>(x) / temperature));
  for (double& x : p) x /= sum;
  return p;
}

TEST(SamplerNonFinite, NanRowsAreErrorsNotTokenZero) {
  EXPECT_EQ(failure({kNan, kNan, kNan}), ErrorCode::kNonFinite);
  EXPECT_EQ(failure({1, 2, kNan}), ErrorCode::kNonFinite);
  EXPECT_EQ(failure({1, 2, kNan}, {2}),
            ErrorCode::kNonFinite);  // a sign of a broken row all the same
}

TEST(SamplerNonFinite, NothingAboveMinusInfinityIsAnError) {
  EXPECT_EQ(failure({-kInf, -kInf}), ErrorCode::kNonFinite);
  EXPECT_EQ(failure({-kInf, 3}, {1}), ErrorCode::kNonFinite);
  EXPECT_EQ(failure({1, 2}, {0, 1}), ErrorCode::kNonFinite);
  EXPECT_EQ(failure({}), ErrorCode::kNonFinite);
}

TEST(SamplerNonFinite, PlusInfinityIsChosenOutright) {
  for (float temperature : {0.0f, 1.0f}) {
    Sampler sampler({.temperature = temperature}, {});
    const Choice choice = sampler.choose(std::vector<float>{1, kInf, 5, kInf}, 7);
    EXPECT_EQ(choice.token, 1);
    EXPECT_EQ(choice.logprob, 0.0f);
  }
  EXPECT_EQ(greedy({1, kInf, 5}, {1}), 2);
}

TEST(SamplerNonFinite, PlusInfinityHasAllProbabilityAmongTheAlternatives) {
  Sampler sampler({.temperature = 0, .num_logprobs = 3}, {});
  const Choice choice = sampler.choose(std::vector<float>{1, kInf, 5, kInf}, 0);
  ASSERT_EQ(choice.top.size(), 3u);
  EXPECT_EQ(choice.top[0].token, 1);
  EXPECT_EQ(choice.top[0].logprob, 0.0f);
  EXPECT_EQ(choice.top[1].logprob, -kInf);
  EXPECT_EQ(choice.top[2].token, 2);
}

TEST(SamplerNonFinite, ErrorNamesTheToken) {
  try {
    greedy({1, 2, kNan});
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("token 2 of 3"), std::string::npos) << e.what();
  }
}

TEST(SamplerGreedy, TiesGoToTheLowestId) {
  EXPECT_EQ(greedy({1, 3, 3, 3}), 1);
  EXPECT_EQ(greedy({1, 3, 3, 3}, {1}), 2);
  EXPECT_EQ(greedy({-0.0f, 0.0f}), 0);
}

TEST(SamplerGreedy, TinyTemperatureIsGreedyNotNan) {
  for (float temperature : {1e-6f, 1e-30f, std::numeric_limits<float>::denorm_min()}) {
    const auto counts = draws({.temperature = temperature}, {5, 7, 6}, 50);
    EXPECT_EQ(counts, (std::map<TokenId, int>{{1, 50}})) << temperature;
  }
}

TEST(SamplerBanned, ReservedIdsAreNeverChosenHoweverLikely) {
  const std::vector<float> logits = {10, 0, 10, 0.5f, 10};
  const std::vector<TokenId> banned = {4, 0, 2, 0, 99};
  EXPECT_EQ(greedy(logits, banned), 3);
  const auto counts = draws({.temperature = 2}, logits, 2000, banned);
  for (TokenId id : {0, 2, 4}) EXPECT_EQ(counts.count(id), 0u);
  Sampler sampler({.temperature = 0, .num_logprobs = 5}, banned);
  const Choice choice = sampler.choose(logits, 0);
  ASSERT_EQ(choice.top.size(), 2u);
  EXPECT_EQ(choice.top[0].token, 3);
  EXPECT_EQ(choice.top[1].token, 1);
}

// 0.999 quantiles of chi-squared for the degrees of freedom used.
TEST(SamplerDistribution, MatchesTheTemperedSoftmax) {
  const std::vector<float> logits = {0, 1, 2, -1, 0.5f, 1.5f};
  const int n = 60000;
  for (float temperature : {0.5f, 1.0f, 1.7f}) {
    const auto counts = draws({.temperature = temperature, .seed = 3}, logits, n);
    EXPECT_LT(chi_squared(counts, softmax(logits, static_cast<double>(temperature)), n), 20.5)
        << temperature;
  }
}

TEST(SamplerDistribution, DetectsAWrongTemperature) {
  const std::vector<float> logits = {0, 1, 2, -1, 0.5f, 1.5f};
  const int n = 60000;
  const auto counts = draws({.temperature = 1.1f, .seed = 3}, logits, n);
  EXPECT_GT(chi_squared(counts, softmax(logits, 1.0), n), 20.5);
}

TEST(SamplerDistribution, TopKKeepsTheLargestAndRenormalises) {
  const std::vector<float> logits = {0, 1, 2, -1, 1, 1};  // ties at the border: ids 1, 4, 5
  const int n = 60000;
  const auto counts = draws({.top_k = 3, .seed = 4}, logits, n);
  EXPECT_EQ(counts.size(), 3u);
  const double e = std::exp(1.0), sum = e * e + 2 * e;
  EXPECT_LT(chi_squared(counts, {0, e / sum, e * e / sum, 0, e / sum, 0}, n), 13.8);
}

TEST(SamplerDistribution, TopPKeepsTheSmallestSufficientSet) {
  // Probabilities .5, .25, .125, .125.
  const std::vector<float> logits = {std::log(2.0f), std::log(8.0f), std::log(4.0f),
                                     std::log(2.0f)};
  const auto kept = [&](float top_p) { return draws({.top_p = top_p}, logits, 4000).size(); };
  EXPECT_EQ(kept(0.3f), 1u);
  EXPECT_EQ(kept(0.49f), 1u);
  EXPECT_EQ(kept(0.51f), 2u);
  EXPECT_EQ(kept(0.76f), 3u);
  EXPECT_EQ(kept(0.88f), 4u);
  const auto counts = draws({.top_p = 0.76f}, logits, 4000);
  EXPECT_EQ(counts.count(3), 0u);  // of the two equal ones the lower id stays
}

TEST(SamplerDistribution, TopPCountsWithinTopK) {
  // top-k leaves .5 and .25, that is 2/3 and 1/3.
  const std::vector<float> logits = {std::log(8.0f), std::log(4.0f), std::log(2.0f),
                                     std::log(2.0f)};
  EXPECT_EQ(draws({.top_k = 2, .top_p = 0.6f}, logits, 1000).size(), 1u);
  EXPECT_EQ(draws({.top_k = 2, .top_p = 0.7f}, logits, 1000).size(), 2u);
}

TEST(SamplerDistribution, MinPIsRelativeToTheLargest) {
  const std::vector<float> logits = {std::log(8.0f), std::log(4.0f), std::log(2.0f)};
  EXPECT_EQ(draws({.min_p = 0.2f}, logits, 1000).size(), 3u);
  EXPECT_EQ(draws({.min_p = 0.3f}, logits, 1000).size(), 2u);
  EXPECT_EQ(draws({.min_p = 1.0f}, logits, 1000).size(), 1u);
}

TEST(SamplerSeed, ChoiceDependsOnSeedStepAndLogitsAlone) {
  std::vector<float> logits(64);
  for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i % 7);
  Sampler a({.seed = 9}, {}), b({.seed = 9}, {}), other({.seed = 10}, {});
  std::vector<TokenId> forward, backward(40), different;
  for (std::uint64_t step = 0; step < 40; ++step) forward.push_back(a.choose(logits, step).token);
  for (std::uint64_t step = 40; step-- > 0;) backward[step] = b.choose(logits, step).token;
  for (std::uint64_t step = 0; step < 40; ++step) {
    different.push_back(other.choose(logits, step).token);
  }
  EXPECT_EQ(forward, backward);
  EXPECT_NE(forward, different);
}

TEST(SamplerLogprobs, AreUntemperedAndSorted) {
  const std::vector<float> logits = {0, 2, 1, 2};
  Sampler sampler({.temperature = 0.5f, .top_k = 1, .num_logprobs = 3}, {});
  const Choice choice = sampler.choose(logits, 0);
  const auto p = softmax(logits, 1.0);
  EXPECT_EQ(choice.token, 1);
  EXPECT_NEAR(choice.logprob, std::log(p[1]), 1e-6);
  ASSERT_EQ(choice.top.size(), 3u);
  EXPECT_EQ(choice.top[0].token, 1);
  EXPECT_EQ(choice.top[1].token, 3);
  EXPECT_EQ(choice.top[2].token, 2);
  EXPECT_NEAR(choice.top[2].logprob, std::log(p[2]), 1e-6);
}

TEST(SamplerLogprobs, LargeLogitsDoNotOverflow) {
  Sampler sampler({.temperature = 1, .num_logprobs = 2}, {});
  const Choice choice = sampler.choose(std::vector<float>{3e38f, -3e38f, 3e38f}, 0);
  EXPECT_NEAR(choice.logprob, -std::log(2.0), 1e-6);
}

TEST(SamplerParameters, EachOutOfRangeValueNamesItself) {
  const std::vector<std::pair<SamplingParams, std::string>> cases = {
      {{.temperature = -1}, "temperature"},
      {{.temperature = kNan}, "temperature"},
      {{.temperature = kInf}, "temperature"},
      {{.top_k = -1}, "top_k"},
      {{.top_p = 0}, "top_p"},
      {{.top_p = 1.5f}, "top_p"},
      {{.top_p = kNan}, "top_p"},
      {{.min_p = -0.1f}, "min_p"},
      {{.min_p = 1.1f}, "min_p"},
      {{.repetition_penalty = 0}, "repetition_penalty"},
      {{.repetition_penalty = 101}, "repetition_penalty"},
      {{.repetition_penalty = kNan}, "repetition_penalty"},
      {{.presence_penalty = 2.1f}, "presence_penalty"},
      {{.presence_penalty = kNan}, "presence_penalty"},
      {{.frequency_penalty = -2.1f}, "frequency_penalty"},
      {{.frequency_penalty = -kInf}, "frequency_penalty"},
      {{.logit_bias = {{3, 100.5f}}}, "logit_bias of token 3"},
      {{.logit_bias = {{3, kNan}}}, "logit_bias of token 3"},
      {{.logit_bias = {{-3, 1}}}, "logit_bias of token -3"},
      {{.logit_bias = {{7, 1}, {3, 1}, {7, 1}}}, "logit_bias names token 7 twice"},
      {{.num_logprobs = -1}, "num_logprobs"},
      {{.num_logprobs = 100000}, "num_logprobs"},
  };
  for (const auto& [params, name] : cases) {
    try {
      Sampler sampler(params, {});
      FAIL() << name;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kUsage);
      EXPECT_EQ(std::string(e.what()).find(name), 0u) << e.what();
    }
  }
  EXPECT_THROW(Sampler({}, std::vector<TokenId>{-1}), Error);
}

// Allows a fixed list of tokens and counts what it is told.
class FixedConstraint : public TokenConstraint {
 public:
  explicit FixedConstraint(std::vector<TokenId> allowed) : allowed_(std::move(allowed)) {}
  void allow(std::span<std::uint64_t> mask) override {
    for (std::uint64_t word : mask) EXPECT_EQ(word, 0u);
    for (TokenId token : allowed_) mask[token / 64] |= std::uint64_t{1} << (token % 64);
  }
  void accept(TokenId token) override { accepted.push_back(token); }

  std::vector<TokenId> accepted;

 private:
  std::vector<TokenId> allowed_;
};

// The order and the formulas once more, over the whole history.
std::vector<double> plain_adjustment(const SamplingParams& p, const std::vector<float>& logits,
                                     const std::vector<TokenId>& prompt,
                                     const std::vector<TokenId>& answer) {
  std::vector<double> out(logits.begin(), logits.end());
  for (std::size_t t = 0; t < out.size(); ++t) {
    const auto id = static_cast<TokenId>(t);
    const auto in_answer = std::count(answer.begin(), answer.end(), id);
    const bool in_prompt = std::count(prompt.begin(), prompt.end(), id) > 0;
    if (in_answer > 0 || in_prompt) {
      out[t] *= out[t] > 0 ? 1 / static_cast<double>(p.repetition_penalty)
                           : static_cast<double>(p.repetition_penalty);
    }
    if (in_answer > 0) out[t] -= static_cast<double>(p.presence_penalty);
    out[t] -= static_cast<double>(p.frequency_penalty) * static_cast<double>(in_answer);
    for (const TokenBias& b : p.logit_bias) out[t] += b.token == id ? double{b.bias} : 0;
  }
  return out;
}

TEST(SamplerPenalties, EachStepMatchesAPlainComputation) {
  const std::vector<TokenId> prompt = {3, 5, 5, 64, 99, 3};
  for (int variant = 0; variant < 32; ++variant) {
    SamplingParams params{.temperature = 0};
    if (variant & 1) params.repetition_penalty = 1.3f;
    if (variant & 2) params.presence_penalty = 0.7f;
    if (variant & 4) params.frequency_penalty = -0.4f;
    if (variant & 8) params.logit_bias = {{70, 2.5f}, {5, -1.5f}, {64, 1.0f}};
    if (variant & 16) params.repetition_penalty = 0.8f;
    Sampler sampler(params, {});
    sampler.read_prompt(std::span(prompt).first(2));
    sampler.read_prompt(std::span(prompt).subspan(2));
    std::vector<TokenId> answer;
    std::vector<float> logits(100);
    for (int step = 0; step < 40; ++step) {
      for (std::size_t i = 0; i < logits.size(); ++i) {
        logits[i] =
            static_cast<float>((i * 7919 + static_cast<std::size_t>(step) / 4 * 31) % 101) / 20 -
            3.0f;
      }
      const auto expected = plain_adjustment(params, logits, prompt, answer);
      const TokenId token = sampler.choose(logits, static_cast<std::uint64_t>(step)).token;
      EXPECT_NEAR(expected[static_cast<std::size_t>(token)],
                  *std::max_element(expected.begin(), expected.end()), 1e-5)
          << "variant " << variant << " step " << step;
      answer.push_back(token);
    }
  }
}

TEST(SamplerPenalties, ShapeTheDistributionBeforeTheTemperature) {
  const std::vector<float> logits = {1, 1, -1, 0};
  SamplingParams params{.temperature = 0.5f, .repetition_penalty = 2, .seed = 5};
  params.logit_bias = {{3, 0.25f}};
  const int n = 60000;
  std::map<TokenId, int> counts;
  for (int step = 0; step < n; ++step) {
    Sampler sampler(params, {});
    sampler.read_prompt(std::vector<TokenId>{1, 2});
    ++counts[sampler.choose(logits, static_cast<std::uint64_t>(step)).token];
  }
  EXPECT_LT(chi_squared(counts, softmax({1, 0.5f, -2, 0.25f}, 0.5), n), 16.3);
}

TEST(SamplerPenalties, PresenceAndFrequencyDoNotSeeThePrompt) {
  Sampler sampler({.temperature = 0, .presence_penalty = 2, .frequency_penalty = 2}, {});
  sampler.read_prompt(std::vector<TokenId>{1, 1, 1});
  EXPECT_EQ(sampler.choose(std::vector<float>{0, 1, 0}, 0).token, 1);
  EXPECT_EQ(sampler.choose(std::vector<float>{0, 1, 0}, 1).token, 0);
}

TEST(SamplerPenalties, InfinitiesStayWhatTheyAre) {
  SamplingParams params{.temperature = 1, .repetition_penalty = 3, .frequency_penalty = 2};
  params.logit_bias = {{0, 100}, {1, -100}};
  Sampler sampler(params, {});
  for (std::uint64_t step = 0; step < 3; ++step) {
    EXPECT_EQ(sampler.choose(std::vector<float>{-kInf, kInf, 4}, step).token, 1);
  }
}

TEST(SamplerPenalties, TokensOutsideTheVocabularyAreErrors) {
  Sampler biased({.logit_bias = {{3, 1}}}, {});
  EXPECT_THROW(biased.choose(std::vector<float>{0, 1, 2}, 0), Error);
  for (TokenId token : {-1, 3, 2147483647}) {
    Sampler sampler({.repetition_penalty = 2}, {});
    sampler.read_prompt(std::vector<TokenId>{token});
    EXPECT_THROW(sampler.choose(std::vector<float>{0, 1, 2}, 0), Error);
  }
}

TEST(SamplerConstraint, OnlyAllowedTokensAreChosenAndAccepted) {
  std::vector<float> logits(130);
  for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i % 10);
  for (float temperature : {0.0f, 1.0f}) {
    const auto constraint = std::make_shared<FixedConstraint>(std::vector<TokenId>{0, 63, 64, 129});
    Sampler sampler({.temperature = temperature}, std::vector<TokenId>{129}, constraint);
    std::map<TokenId, int> counts;
    for (std::uint64_t step = 0; step < 400; ++step) ++counts[sampler.choose(logits, step).token];
    EXPECT_EQ(constraint->accepted.size(), 400u);
    EXPECT_EQ(counts[0] + counts[63] + counts[64], 400) << "129 is banned, all others not allowed";
    EXPECT_EQ(counts[64] == 400, temperature == 0);
  }
}

TEST(SamplerConstraint, NothingAllowedIsAnError) {
  const std::vector<float> logits = {1, 2, -kInf};
  for (const std::vector<TokenId>& allowed : {std::vector<TokenId>{}, {0}, {2}}) {
    Sampler sampler({}, std::vector<TokenId>{0}, std::make_shared<FixedConstraint>(allowed));
    EXPECT_THROW(sampler.choose(logits, 0), Error);
  }
}

TEST(SamplerLogprobs, AreTheModelsOwnWhateverIsDoneToTheChoice) {
  const std::vector<float> logits = {0, 2, 1, 2};
  SamplingParams params{.temperature = 0.5f, .repetition_penalty = 2, .num_logprobs = 2};
  params.logit_bias = {{2, -9}};
  Sampler sampler(params, {}, std::make_shared<FixedConstraint>(std::vector<TokenId>{2}));
  sampler.read_prompt(std::vector<TokenId>{1});
  const Choice choice = sampler.choose(logits, 0);
  const auto p = softmax(logits, 1.0);
  EXPECT_EQ(choice.token, 2);
  EXPECT_NEAR(choice.logprob, std::log(p[2]), 1e-6);
  ASSERT_EQ(choice.top.size(), 2u);
  EXPECT_EQ(choice.top[0].token, 1);
  EXPECT_NEAR(choice.top[0].logprob, std::log(p[1]), 1e-6);
}

TEST(SamplerAllocation, NoneAfterTheFirstCall) {
  std::vector<float> logits(5000);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    logits[i] = static_cast<float>((i * 2654435761u) % 1000) / 100;
  }
  SamplingParams params{.temperature = 0.8f, .top_k = 50, .top_p = 0.9f, .min_p = 0.01f};
  params.repetition_penalty = 1.1f;
  params.frequency_penalty = 0.5f;
  params.logit_bias = {{4000, 3}, {17, -2}};
  std::vector<TokenId> allowed(4500);
  std::iota(allowed.begin(), allowed.end(), 0);
  const auto constraint = std::make_shared<FixedConstraint>(allowed);
  constraint->accepted.reserve(64);
  Sampler sampler(params, std::vector<TokenId>{7, 8}, constraint);
  sampler.read_prompt(allowed);
  sampler.choose(logits, 0);
  const std::int64_t before = testing::allocation_count();
  for (std::uint64_t step = 1; step < 32; ++step) sampler.choose(logits, step);
  EXPECT_EQ(testing::allocation_count(), before);
}

}  // namespace
}  // namespace baltoro
