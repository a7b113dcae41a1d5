// Routed experts with activations in fp8: logits move a little, prompts may be cut anywhere, and
// what cannot serve them is refused with the remedy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "engine/option_effect.h"
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

TEST(ExpertActivationsOption, MovesLogitsALittle) {
  const auto read = [](ExpertActivations expert_activations) {
    Session session = load(expert_activations)->new_session();
    session.prefill(prompt(40));
    session.decode(3);
    return logits_of(session);
  };
  const std::vector<float> x = read(ExpertActivations::kSame), y = read(ExpertActivations::kFp8);
  const double error = logits_error(x, y);
  EXPECT_GT(error, 1e-4);
  EXPECT_LT(error, 0.2);
}

TEST(ExpertActivationsOption, CutsOfThePromptDoNotChangeABit) {
  const auto engine = load(ExpertActivations::kFp8);
  const std::vector<TokenId> ids = prompt(100);
  const auto read = [&](std::size_t chunk) {
    Session session = read_in_pieces(engine, ids, chunk);
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
