// What prompts go on from, and that the bits are those of the rule: of a cold run where only read
// states are reused, of the uninterrupted transcript where the answer's own state is.
#include "engine/reuse.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "engine/scheduled.h"
#include "engine/sessions.h"
#include "fault/syscalls.h"
#include "io/test_files.h"

namespace baltoro {
namespace {

constexpr int kAllLogprobs = 100;  // more than the fixture's vocabulary

class Reusing : public ::testing::TestWithParam<const char*> {
 protected:
  void start(PrefixReuse reuse, std::optional<std::uint64_t> prefix_bytes = std::nullopt) {
    scheduler_.emplace(engine_, SchedulerOptions{.reuse = reuse,
                                                 .state_bytes = std::uint64_t{64} << 20,
                                                 .prefix_bytes = prefix_bytes});
  }

  struct Asked {
    Answer answer;
    GenerationRequest request;
    std::shared_ptr<Ticket> ticket;
  };
  // Asks and waits for the answer.
  Asked& ask(std::vector<TokenId> ids, std::int64_t max_tokens = 6) {
    Asked& asked = asked_.emplace_back();
    asked.request = asked.answer.request(std::move(ids), max_tokens);
    asked.request.sampling.num_logprobs = kAllLogprobs;
    asked.ticket = scheduler_->submit(asked.request).ticket;
    asked.answer.end();
    return asked;
  }

  std::int64_t reused(Asked& asked) { return asked.answer.end().reused_tokens; }
  // Prompt tokens that this and nothing else has made the scheduler read.
  std::int64_t read_by(const std::function<void()>& action) {
    const std::uint64_t before = scheduler_->stats().prompt_tokens;
    action();
    return static_cast<std::int64_t>(scheduler_->stats().prompt_tokens - before);
  }
  void expect_cold_bits(Asked& asked) {
    EXPECT_TRUE(same_choices(asked.answer.choices(), cold(*engine_, asked.request)));
  }

  std::shared_ptr<Engine> engine_ = Engine::load(fixture(GetParam()), {.num_threads = 1});
  std::deque<Asked> asked_;
  std::optional<Scheduler> scheduler_;
};
INSTANTIATE_TEST_SUITE_P(Models, Reusing, ::testing::Values("k3", "kda_only"),
                         [](const auto& model) { return std::string(model.param); });

TEST_P(Reusing, ExactHitHasTheBitsOfAColdRun) {
  start(PrefixReuse::kExact);
  const std::vector<TokenId> shared = prompt(200);
  Asked& a = ask(shared + prompt(30, 1));
  EXPECT_EQ(reused(a), 0);
  Asked& b = ask(shared + prompt(40, 2));  // parts from the first at 200: its state is kept at 192
  EXPECT_EQ(reused(b), 192) << "and the first one's last block began there too";
  Asked& c = ask(shared + prompt(90, 3));
  EXPECT_EQ(reused(c), 192);
  Asked& again = ask(shared + prompt(30, 1));
  EXPECT_EQ(reused(again), 192);
  for (Asked* asked : {&a, &b, &c, &again}) expect_cold_bits(*asked);
  EXPECT_EQ(scheduler_->stats().prefix_hits, 3);
  EXPECT_EQ(scheduler_->stats().prefix_misses, 1);
}

TEST_P(Reusing, TheEndOfASharedPrefixIsKeptWhenTheSecondPromptComes) {
  start(PrefixReuse::kExact);
  const std::vector<TokenId> shared = prompt(150);
  EXPECT_EQ(reused(ask(shared + prompt(300, 1))), 0);
  EXPECT_EQ(reused(ask(shared + prompt(300, 2))), 0) << "nothing was kept at or before 150";
  Asked& third = ask(shared + prompt(300, 3));
  EXPECT_EQ(reused(third), 128);
  expect_cold_bits(third);
}

TEST_P(Reusing, ExactReadsTheLastAnswerAsAPrompt) {
  start(PrefixReuse::kExact);
  Asked& first = ask(prompt(150), 20);
  Asked& second = ask(prompt(150) + first.answer.ids() + prompt(30, 1));
  EXPECT_EQ(reused(second), 128);
  expect_cold_bits(second);
}

TEST_P(Reusing, LiveHasTheBitsOfTheUninterruptedTranscript) {
  start(PrefixReuse::kLive);
  Session whole = engine_->new_session();
  std::vector<TokenId> transcript;
  for (int turn = 0; turn < 4; ++turn) {
    const std::vector<TokenId> news = prompt(turn == 1 ? 70 : 11, turn);
    Asked* asked = nullptr;
    const std::int64_t read = read_by([&] { asked = &ask(transcript + news, 9); });
    EXPECT_EQ(read, std::ssize(news)) << "turn " << turn;
    EXPECT_EQ(reused(*asked), std::ssize(transcript));

    whole.prefill(news);
    const std::vector<Choice> expected = answer_of(whole, asked->request);
    EXPECT_TRUE(same_choices(asked->answer.choices(), expected)) << "turn " << turn;
    whole.decode(expected.back().token);
    transcript = transcript + news + ids_of(expected);
  }
}

TEST_P(Reusing, AnAnswerThatFailedIsNotKept) {
  start(PrefixReuse::kLive);
  Answer failing;
  std::vector<TokenId> generated;
  GenerationRequest request = failing.request(prompt(150), 9);
  request.on_token = [&](int /*choice*/, const GeneratedToken& token) -> bool {
    generated.push_back(token.choice.token);
    if (token.index == 4) throw std::runtime_error("bad consumer");
    return true;
  };
  scheduler_->submit(request);
  EXPECT_EQ(failing.end().reason, EndReason::kFailed);
  ASSERT_EQ(generated.size(), 5u);
  Asked& next = ask(prompt(150) + generated + prompt(5, 1));
  EXPECT_EQ(reused(next), 128) << "what was read before it failed is good";
}

TEST_P(Reusing, LiveGoesOnWithoutNewTokens) {
  start(PrefixReuse::kLive);
  Asked& first = ask(prompt(20), 5);
  Asked& second = ask(prompt(20) + first.answer.ids(), 5);
  EXPECT_EQ(reused(second), 25);
  Session whole = engine_->new_session();
  whole.prefill(prompt(20));
  GenerationRequest both = first.request;
  both.max_tokens = 10;
  const std::vector<Choice> expected = answer_of(whole, both);
  EXPECT_TRUE(same_choices(second.answer.choices(), {expected.begin() + 5, expected.end()}));
}

TEST_P(Reusing, AnAnswerMayComeBackAsOtherIds) {
  start(PrefixReuse::kLive);
  Asked& first = ask(prompt(100), 8);
  const std::vector<TokenId> as_rendered = prompt(100) + prompt(13, 5);
  scheduler_->remember(first.ticket, 0, as_rendered);
  Asked* second = nullptr;
  const std::int64_t read = read_by([&] { second = &ask(as_rendered + prompt(200, 1)); });
  EXPECT_EQ(read, 200);
  EXPECT_EQ(reused(*second), 113);

  Session whole = engine_->new_session();
  whole.prefill(prompt(100));
  for (const TokenId id : first.answer.ids()) whole.decode(id);
  whole.prefill(prompt(200, 1));
  EXPECT_TRUE(same_choices(second->answer.choices(), answer_of(whole, second->request)));
  // The states that were kept on the way stand at block ends of the sequence, not of the prompt.
  Asked& again = ask(as_rendered + prompt(200, 1));
  EXPECT_EQ(reused(again), 256 + 5) << "position 256 is token 261";
  EXPECT_TRUE(same_choices(second->answer.choices(), again.answer.choices()));
  // Both keys are good.
  EXPECT_EQ(reused(ask(prompt(100) + first.answer.ids() + prompt(5, 1))), 108);
}

TEST_P(Reusing, RememberingWhatIsNotKeptDoesNothing) {
  start(PrefixReuse::kLive, 0);
  Asked& first = ask(prompt(100), 8);
  scheduler_->remember(first.ticket, 0, prompt(110));
  scheduler_->remember(first.ticket, 7, prompt(110));
  EXPECT_EQ(reused(ask(prompt(110))), 0);
  EXPECT_THROW(scheduler_->remember(nullptr, 0, prompt(5)), Error);
  EXPECT_THROW(scheduler_->remember(first.ticket, -1, prompt(5)), Error);
}

// A chat template may leave the thinking of earlier turns out.
TEST_P(Reusing, WhereTheAnswerIsRewrittenTheLastBlockOfThePromptIsReadAgain) {
  start(PrefixReuse::kLive);
  Asked& first = ask(prompt(150), 20);
  std::vector<TokenId> other = {static_cast<TokenId>((first.answer.ids()[0] + 1) % 77)};
  const std::vector<TokenId> news = other + prompt(24, 1);
  Asked* second = nullptr;
  const std::int64_t read = read_by([&] { second = &ask(prompt(150) + news); });
  EXPECT_EQ(reused(*second), 128);
  EXPECT_EQ(read, 150 - 128 + std::ssize(news));
  expect_cold_bits(*second);
}

TEST_P(Reusing, AHitNeverGoesBeyondItsState) {
  start(PrefixReuse::kExact);
  ask(prompt(1000));
  Asked& longer = ask(prompt(1000) + prompt(50, 1));
  EXPECT_EQ(reused(longer), 960) << "though 1000 tokens are known";
  expect_cold_bits(longer);
  Asked& shorter = ask(prompt(960));
  EXPECT_EQ(reused(shorter), 0) << "the state at 960 has no logits for it";
  expect_cold_bits(shorter);
}

TEST_P(Reusing, OffReadsEverything) {
  start(PrefixReuse::kOff);
  ask(prompt(200));
  EXPECT_EQ(reused(ask(prompt(200))), 0);
  EXPECT_EQ(scheduler_->stats().prefix_entries, 0);
}

TEST_P(Reusing, EqualPromptsAtOnceAreReadOnce) {
  start(PrefixReuse::kExact);
  std::deque<Answer> answers(5);
  const std::int64_t read = read_by([&] {
    for (Answer& answer : answers) scheduler_->submit(answer.request(prompt(1500), 3));
    for (Answer& answer : answers) answer.end();
  });
  EXPECT_EQ(read, 1500 + 4 * (1500 - 1472));
  for (Answer& answer : answers) EXPECT_EQ(answer.ids(), answers[0].ids());
}

// Memory that was freed or is new holds NaN, and some requests fill the state with NaN.
TEST_P(Reusing, RandomOrdersWithEvictionGiveColdTokens) {
  const testing::PoisonedMemory poisoned;
  TempDir damaged;
  copy_with_nan_row(GetParam(), damaged.path() / "model");
  engine_ = Engine::load(damaged.path() / "model", {.num_threads = 1});
  std::vector<std::vector<TokenId>> prompts;
  const std::vector<TokenId> shared = prompt(200);
  for (int i = 0; i < 4; ++i) prompts.push_back(shared + prompt(20 + 40 * std::size_t(i), i));
  for (int i = 4; i < 6; ++i) prompts.push_back(prompt(90 * std::size_t(i), i));
  std::vector<std::vector<TokenId>> expected;
  for (const auto& ids : prompts) {
    Answer answer;
    expected.push_back(solo(*engine_, answer.request(ids, 4)));
  }
  // Room for about half of what the prompts would keep.
  const std::uint64_t budget =
      5 * static_cast<std::uint64_t>(engine_->info().state_bytes) +
      static_cast<std::uint64_t>(engine_->info().cache_bytes_per_token) * 700 + 40000;
  std::mt19937 random(1);
  std::uint64_t hits = 0, evictions = 0;
  for (int order = 0; order < 50; ++order) {
    start(order % 2 == 0 ? PrefixReuse::kExact : PrefixReuse::kLive, budget);
    for (int i = 0; i < 6; ++i) {
      const std::size_t which = random() % prompts.size();
      if (random() % 5 == 0) {
        Asked& bad = ask(shared + std::vector<TokenId>{kNanToken});
        EXPECT_EQ(bad.answer.end().reason, EndReason::kFailed);
      }
      EXPECT_EQ(ask(prompts[which], 4).answer.ids(), expected[which]) << order << " " << i;
      EXPECT_LE(scheduler_->stats().prefix_bytes, budget);
    }
    hits += scheduler_->stats().prefix_hits;
    evictions += scheduler_->stats().prefix_evictions;
  }
  EXPECT_GT(hits, 50);
  EXPECT_GT(evictions, 50);
}

}  // namespace
}  // namespace baltoro
