// Latents in fp8: less memory, an error that stays small, the same bits for any split of the prompt,
// and no way into an engine that keeps them otherwise.
#include <gtest/gtest.h>

#include <filesystem>

#include "engine/option_effect.h"
#include "engine/sessions.h"
#include "io/test_files.h"

namespace baltoro {
namespace {

std::shared_ptr<Engine> load(Latents latents, const char* device = "reference",
                             const char* model = "k3") {
  return Engine::load(fixture(model), {.device = device,
                                       .activations = Activations::kF32,
                                       .latents = latents,
                                       .max_batch_rows = 64});
}

TEST(LatentsOption, ShrinkTheCacheAndMoveLogitsALittle) {
  for (const char* model : {"k3", "kimi_linear", "rope", "mqa", "unified"}) {
    SCOPED_TRACE(model);
    const auto exact = load(Latents::kAuto, "reference", model);
    const auto small = load(Latents::kFp8, "reference", model);
    EXPECT_LT(small->info().cache_bytes_per_token, exact->info().cache_bytes_per_token);
    Session a = exact->new_session(), b = small->new_session();
    a.prefill(prompt(70));
    b.prefill(prompt(70));
    for (int i = 0; i < 6; ++i) {
      a.decode(static_cast<TokenId>(i));
      b.decode(static_cast<TokenId>(i));
    }
    const std::vector<float> x = logits_of(a), y = logits_of(b);
    const double error = logits_error(x, y);
    EXPECT_GT(error, 0);
    EXPECT_LT(error, 3e-2);
  }
}

TEST(LatentsOption, CutsOfThePromptDoNotChangeABit) {
  const auto engine = load(Latents::kFp8);
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

// Also in the middle of a page, whose parts are of three kinds.
TEST(LatentsOption, SavedSessionsGoOnAndNotWithTheOtherKind) {
  const auto exact = load(Latents::kAuto), small = load(Latents::kFp8);
  TempDir dir;
  Session session = small->new_session();
  session.prefill(prompt(75));
  session.save(dir.path() / "small");
  Session restored = Session::restore(*small, dir.path() / "small");
  EXPECT_EQ(logits_of(session), logits_of(restored));
  session.decode(3);
  restored.decode(3);
  EXPECT_EQ(logits_of(session), logits_of(restored));
  const Error error = catch_error([&] { Session::restore(*exact, dir.path() / "small"); });
  EXPECT_EQ(error.code(), ErrorCode::kBadModel);
  EXPECT_NE(std::string(error.what()).find("saved with another"), std::string::npos);
  EXPECT_EQ(catch_error([&] { session.rewind(exact->new_session().snapshot()); }).code(),
            ErrorCode::kUsage);
}

TEST(LatentsOption, ForksShareAndRewindsReturn) {
  const auto engine = load(Latents::kFp8);
  Session session = engine->new_session();
  session.prefill(prompt(70));
  const Snapshot mark = session.snapshot();
  Session fork = session.fork();
  session.decode(1);
  fork.decode(1);
  EXPECT_EQ(logits_of(session), logits_of(fork));
  const std::vector<float> first = logits_of(session);
  session.decode(2);
  session.rewind(mark);
  session.decode(1);
  EXPECT_EQ(logits_of(session), first);
}

TEST(LatentsOption, WhoDoesNotServeItSaysSo) {
  const Error cpu = catch_error([] { load(Latents::kFp8, "cpu"); });
  EXPECT_EQ(cpu.code(), ErrorCode::kUnsupported);
  EXPECT_NE(std::string(cpu.what()).find("--latents auto"), std::string::npos);
  const Error gqa = catch_error([] { load(Latents::kFp8, "reference", "gqa"); });
  EXPECT_EQ(gqa.code(), ErrorCode::kUnsupported);
  EXPECT_NE(std::string(gqa.what()).find("--latents auto"), std::string::npos);
}

}  // namespace
}  // namespace baltoro
