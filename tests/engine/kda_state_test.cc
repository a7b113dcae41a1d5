// KDA states in bf16: half the memory, an error that stays small, the same bits for any split of the
// prompt, and no way into an engine that keeps them otherwise.
#include <gtest/gtest.h>

#include <filesystem>

#include "engine/option_effect.h"
#include "engine/sessions.h"
#include "io/test_files.h"

namespace baltoro {
namespace {

std::shared_ptr<Engine> load(KdaState state, const char* device = "reference") {
  return Engine::load(fixture("k3"), {.device = device,
                                      .activations = Activations::kF32,
                                      .kda_state = state,
                                      .max_batch_rows = 64});
}

TEST(KdaStateOption, HalvesTheStateAndMovesLogitsALittle) {
  const auto exact = load(KdaState::kF32), half = load(KdaState::kBf16);
  EXPECT_LT(half->info().state_bytes, exact->info().state_bytes);
  Session a = exact->new_session(), b = half->new_session();
  a.prefill(prompt(70));
  b.prefill(prompt(70));
  for (int i = 0; i < 6; ++i) {
    a.decode(static_cast<TokenId>(i));
    b.decode(static_cast<TokenId>(i));
  }
  const std::vector<float> x = logits_of(a), y = logits_of(b);
  const double error = logits_error(x, y);
  EXPECT_GT(error, 0);
  EXPECT_LT(error, 2e-2);
}

TEST(KdaStateOption, CutsOfThePromptDoNotChangeABit) {
  const auto engine = load(KdaState::kBf16);
  const std::vector<TokenId> ids = prompt(150);
  const auto read = [&](std::size_t chunk) {
    Session session = read_in_pieces(engine, ids, chunk);
    session.decode(7);
    return logits_of(session);
  };
  const std::vector<float> whole = read(1000);
  EXPECT_EQ(whole, read(27));
  EXPECT_EQ(whole, read(64));
}

TEST(KdaStateOption, SavedSessionsOfTheOtherTypeAreRefused) {
  const auto exact = load(KdaState::kF32), half = load(KdaState::kBf16);
  TempDir dir;
  Session session = half->new_session();
  session.prefill(prompt(10));
  session.save(dir.path() / "half");
  Session restored = Session::restore(*half, dir.path() / "half");
  EXPECT_EQ(logits_of(session), logits_of(restored));
  const Error error = catch_error([&] { Session::restore(*exact, dir.path() / "half"); });
  EXPECT_EQ(error.code(), ErrorCode::kBadModel);
  EXPECT_NE(std::string(error.what()).find("saved with another"), std::string::npos);
  EXPECT_EQ(catch_error([&] { session.rewind(exact->new_session().snapshot()); }).code(),
            ErrorCode::kUsage);
}

TEST(KdaStateOption, TheCpuRefusesIt) {
  const Error error = catch_error([] { load(KdaState::kBf16, "cpu"); });
  EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  EXPECT_NE(std::string(error.what()).find("--kda-state f32"), std::string::npos);
}

}  // namespace
}  // namespace baltoro
