// What a smaller type of state or of the experts' activations costs in exactness: one text through
// two engines, token by token.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "baltoro/engine.h"
#include "baltoro/sampler.h"
#include "baltoro/session.h"
#include "cuda/gpu.h"
#include "paths.h"

namespace baltoro {
namespace {

constexpr std::size_t kPrompt = 64, kGenerated = 1200;

std::shared_ptr<Engine> load(const std::string& model, Activations activations,
                             KdaState state = KdaState::kF32,
                             ExpertActivations expert_activations = ExpertActivations::kSame,
                             Latents latents = Latents::kAuto) {
  const std::filesystem::path dir =
      model == "story" ? source_dir() / "models/story" : test_data_dir() / "fixtures" / model;
  return Engine::load(dir, {.device = "cuda",
                            .activations = activations,
                            .kda_state = state,
                            .expert_activations = expert_activations,
                            .latents = latents});
}

// Drawn from the model itself at temperature 1.
std::vector<TokenId> text_of(Engine& engine) {
  std::vector<TokenId> ids;
  for (std::size_t i = 0; i < kPrompt; ++i) ids.push_back(static_cast<TokenId>(3 + i % 7));
  Session session = engine.new_session();
  session.prefill(ids);
  Sampler sampler({.seed = 7}, {});
  while (ids.size() < kPrompt + kGenerated) {
    const auto step = static_cast<std::uint64_t>(session.position());
    ids.push_back(sampler.choose(session.logits(), step).token);
    session.decode(ids.back());
  }
  return ids;
}

std::vector<double> log_probabilities(std::span<const float> logits) {
  const double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - max);
  std::vector<double> result;
  for (const float x : logits) result.push_back(static_cast<double>(x) - max - std::log(sum));
  return result;
}

struct Effect {
  double mean_kl = 0, max_kl = 0, max_difference = 0;
  int same_best = 0;
};

// Both read the text; every token behind the prompt is a generated one.
Effect effect_of(Engine& exact, Engine& other, const std::vector<TokenId>& ids) {
  Session a = exact.new_session(), b = other.new_session();
  a.prefill(std::span(ids).first(kPrompt));
  b.prefill(std::span(ids).first(kPrompt));
  Effect effect;
  for (std::size_t i = kPrompt; i < ids.size(); ++i) {
    a.decode(ids[i]);
    b.decode(ids[i]);
    const std::vector<double> p = log_probabilities(a.logits()), q = log_probabilities(b.logits());
    double kl = 0;
    for (std::size_t t = 0; t < p.size(); ++t) {
      kl += std::exp(p[t]) * (p[t] - q[t]);
      const auto x = static_cast<double>(a.logits()[t]), y = static_cast<double>(b.logits()[t]);
      effect.max_difference = std::max(effect.max_difference, std::fabs(x - y));
    }
    effect.mean_kl += kl / static_cast<double>(kGenerated);
    effect.max_kl = std::max(effect.max_kl, kl);
    effect.same_best += std::max_element(p.begin(), p.end()) - p.begin() ==
                        std::max_element(q.begin(), q.end()) - q.begin();
  }
  return effect;
}

void tell(const char* model, const char* what, const Effect& effect) {
  std::printf(
      "%-12s %-40s KL mean %.2e max %.2e, logits differ by at most %.2e, best token %d of %d\n",
      model, what, effect.mean_kl, effect.max_kl, effect.max_difference, effect.same_best,
      static_cast<int>(kGenerated));
}

TEST(SlowCudaStates, EffectOnLogits) {
  BALTORO_NEEDS_GPU();
  for (const char* model : {"story", "k3", "kimi_linear"}) {
    const auto f32 = load(model, Activations::kF32);
    const auto bf16 = load(model, Activations::kBf16);
    const std::vector<TokenId> ids = text_of(*f32);
    const Effect floor = effect_of(*f32, *bf16, ids);
    tell(model, "bf16 activations against f32", floor);
    const Effect state = effect_of(*f32, *load(model, Activations::kF32, KdaState::kBf16), ids);
    tell(model, "bf16 KDA state, f32 activations", state);
    const Effect both = effect_of(*f32, *load(model, Activations::kBf16, KdaState::kBf16), ids);
    tell(model, "bf16 KDA state and activations, to f32", both);
    const Effect latents = effect_of(
        *f32,
        *load(model, Activations::kF32, KdaState::kF32, ExpertActivations::kSame, Latents::kFp8),
        ids);
    tell(model, "fp8 latents, f32 activations", latents);
    const Effect fp8_and_bf16 = effect_of(
        *f32,
        *load(model, Activations::kBf16, KdaState::kF32, ExpertActivations::kSame, Latents::kFp8),
        ids);
    tell(model, "fp8 latents, bf16 activations, to f32", fp8_and_bf16);
    EXPECT_GT(state.mean_kl, 0);
    EXPECT_LT(state.mean_kl, 1e-2) << model;
    EXPECT_GT(state.same_best, 0.9 * kGenerated) << model;
    EXPECT_GT(latents.mean_kl, 0);
    EXPECT_LT(latents.mean_kl, 1e-2) << model;
    EXPECT_GT(latents.same_best, 0.9 * kGenerated) << model;
  }
}

TEST(SlowCudaExperts, EffectOnLogits) {
  BALTORO_NEEDS_GPU();
  for (const char* model : {"story", "k3"}) {
    const auto f32 = load(model, Activations::kF32);
    const std::vector<TokenId> ids = text_of(*f32);
    const auto with_fp8 = [&](Activations activations) {
      const auto engine = load(model, activations, KdaState::kF32, ExpertActivations::kFp8);
      return effect_of(*f32, *engine, ids);
    };
    tell(model, "bf16 activations against f32",
         effect_of(*f32, *load(model, Activations::kBf16), ids));
    const Effect fp8 = with_fp8(Activations::kF32);
    tell(model, "fp8 into the experts, f32 elsewhere", fp8);
    tell(model, "fp8 into the experts, bf16 elsewhere", with_fp8(Activations::kBf16));
    EXPECT_GT(fp8.mean_kl, 0);
    EXPECT_LT(fp8.mean_kl, 0.1) << model;
    EXPECT_GT(fp8.same_best, 0.8 * kGenerated) << model;
  }
}

}  // namespace
}  // namespace baltoro
