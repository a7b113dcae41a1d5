// Routed experts with activations in fp8: logits move a little, prompts may be cut anywhere, and
// what cannot serve them is refused with the remedy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "engine/sessions.h"
#include "io/test_files.h"

namespace baltoro {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::shared_ptr<Engine> load(ExpertActivations expert_activations, const char* model = "k3",
                             const char* device = "reference") {
  return Engine::load(fixture(model), {.device = device,
                                       .activations = Activations::kF32,
                                       .expert_activations = expert_activations,
                                       .max_batch_rows = 64});
}

std::vector<float> logits_of(const Session& session) {
  return {session.logits().begin(), session.logits().end()};
}

TEST(ExpertActivationsOption, MovesLogitsALittle) {
  const auto read = [](ExpertActivations expert_activations) {
    Session session = load(expert_activations)->new_session();
    session.prefill(prompt(40));
    session.decode(3);
    return logits_of(session);
  };
  const std::vector<float> x = read(ExpertActivations::kSame), y = read(ExpertActivations::kFp8);
  double error = 0, power = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    error += std::pow(static_cast<double>(x[i] - y[i]), 2);
    power += std::pow(static_cast<double>(x[i]), 2);
  }
  EXPECT_GT(std::sqrt(error / power), 1e-4);
  EXPECT_LT(std::sqrt(error / power), 0.2);
}

TEST(ExpertActivationsOption, CutsOfThePromptDoNotChangeABit) {
  const auto engine = load(ExpertActivations::kFp8);
  const std::vector<TokenId> ids = prompt(100);
  const auto read = [&](std::size_t chunk) {
    Session session = engine->new_session();
    for (std::size_t begin = 0; begin < ids.size(); begin += chunk) {
      session.prefill(std::span(ids).subspan(begin, std::min(chunk, ids.size() - begin)));
    }
    return logits_of(session);
  };
  EXPECT_EQ(read(1000), read(27));
}

TEST(ExpertActivationsOption, SavedSessionsOfTheOtherKindAreRefused) {
  const auto same = load(ExpertActivations::kSame), fp8 = load(ExpertActivations::kFp8);
  TempDir dir;
  Session session = fp8->new_session();
  session.prefill(prompt(10));
  session.save(dir.path() / "fp8");
  EXPECT_EQ(logits_of(session), logits_of(Session::restore(*fp8, dir.path() / "fp8")));
  const Error error = catch_error([&] { Session::restore(*same, dir.path() / "fp8"); });
  EXPECT_THAT(error.what(), HasSubstr("saved with another"));
}

TEST(ExpertActivationsOption, WhatCannotServeItIsRefused) {
  const auto refusal = [](const char* model, const char* device) {
    const Error error = catch_error([&] { load(ExpertActivations::kFp8, model, device); });
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    return std::string(error.what());
  };
  const auto remedy = HasSubstr("--expert-activations same");
  EXPECT_THAT(refusal("k3", "cpu"), AllOf(HasSubstr("--device cuda"), remedy));
  EXPECT_THAT(refusal("kimi_linear", "reference"), AllOf(HasSubstr("these are bf16"), remedy));
  EXPECT_THAT(refusal("dense_only", "reference"), AllOf(HasSubstr("no routed experts"), remedy));
}

}  // namespace
}  // namespace baltoro
