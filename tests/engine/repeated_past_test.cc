// A past that is copied in place of being read: what benchmarks of deep contexts stand on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/session_impl.h"
#include "engine/sessions.h"
#include "io/test_files.h"
#include "model/synth.h"

namespace baltoro {
namespace {

std::vector<float> next_logits(Session& session, TokenId token) {
  session.decode(token);
  return {session.logits().begin(), session.logits().end()};
}

// Cached keys of the first layer depend on their token alone: there, and in no deeper layer, a past
// that repeats is the past of a prompt that repeats.
TEST(RepeatedPast, IsThatOfARepeatingPrompt) {
  const TempDir dir;
  nlohmann::json config = nlohmann::json::parse(read_file(fixture("mla_only") / "config.json"));
  nlohmann::json& text = config["text_config"];
  text["num_hidden_layers"] = 1;
  text["linear_attn_config"]["full_attn_layers"] = {1};
  write_file(dir / "config.json", config.dump());
  synthesize(dir / "config.json", dir / "model");
  const auto engine = Engine::load(dir / "model", {.num_threads = 1});

  const std::vector<TokenId> once = prompt(128);
  Session repeated = engine->new_session();
  repeated.prefill(once);
  SessionAccess::repeat_past(repeated, 320);  // two and a half times
  EXPECT_EQ(repeated.position(), 320);

  std::vector<TokenId> read = once;
  read.insert(read.end(), once.begin(), once.end());
  read.insert(read.end(), once.begin(), once.begin() + 64);
  EXPECT_EQ(std::vector(repeated.tokens().begin(), repeated.tokens().end()), read);
  Session whole = engine->new_session();
  whole.prefill(read);
  EXPECT_TRUE(same_bits(next_logits(repeated, 5), next_logits(whole, 5)));
}

TEST(RepeatedPast, ACopySharesNoPageAndGoesOnWithTheSameBits) {
  const auto engine = Engine::load(fixture("k3"), {.num_threads = 1});
  Session first = engine->new_session();
  first.prefill(prompt(64));
  SessionAccess::repeat_past(first, 192);
  Session copy = SessionAccess::copy(first);
  for (const std::int32_t page : SessionAccess::pages(copy)) {
    EXPECT_THAT(SessionAccess::pages(first), ::testing::Not(::testing::Contains(page)));
  }
  EXPECT_TRUE(same_bits(next_logits(copy, 5), next_logits(first, 5)));
  EXPECT_EQ(copy.position(), 193);
}

}  // namespace
}  // namespace baltoro
