// Many users at once: random arrivals, cancels, deadlines, shared prefixes, chats, requests of NaN,
// memory that holds NaN where it is new or free. Each request's tokens are those of its solo run, hit
// or cold, as docs/scheduling.md says.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <random>
#include <thread>

#include "baltoro/scheduler.h"
#include "engine/scheduled.h"
#include "engine/sessions.h"
#include "fault/syscalls.h"
#include "io/test_files.h"

namespace baltoro {
namespace {

constexpr std::int64_t kTokens = 12;
constexpr int kChoices = 3;

// A question with its answers, of a solo run each, and for a chat what comes after.
struct Case {
  std::vector<TokenId> prompt;
  std::vector<TokenId> answers[kChoices];
  // The second turn, whose answer depends on whether the first one's own state is continued.
  std::vector<TokenId> second_prompt;
  std::vector<TokenId> second_live, second_cold;
};

GenerationRequest request_of(Answer& answer, const std::vector<TokenId>& ids, int num_choices = 1) {
  return answer.request(ids, kTokens, num_choices);
}

Case make_case(Engine& engine, const std::vector<TokenId>& ids) {
  Case result;
  result.prompt = ids;
  Answer unused;
  for (int i = 0; i < kChoices; ++i) result.answers[i] = solo(engine, request_of(unused, ids), i);
  return result;
}

void add_second_turn(Engine& engine, Case& chat, const std::vector<TokenId>& news) {
  chat.second_prompt = chat.prompt + chat.answers[0] + news;
  Answer unused;
  const GenerationRequest request = request_of(unused, chat.second_prompt);
  chat.second_cold = solo(engine, request);
  Session whole = engine.new_session();
  whole.prefill(chat.prompt);
  for (const TokenId id : chat.answers[0]) whole.decode(id);
  whole.prefill(news);
  chat.second_live = ids_of(answer_of(whole, request));
}

// What all tests ask, answered once by an engine of its own.
struct Cases {
  std::vector<Case> plain, chats;

  Cases() {
    const auto alone = Engine::load(fixture("k3"), {.num_threads = 1});
    for (std::size_t i = 0; i < 16; ++i) {
      const int salt = static_cast<int>(i);
      const std::vector<TokenId> ids =
          i % 3 == 0 ? prompt(1 + i * 29, salt) : prompt(200) + prompt(10 + i * 13, salt);
      plain.push_back(make_case(*alone, ids));
    }
    for (std::size_t i = 0; i < 6; ++i) {
      // The second turn crosses no end of a block, at which another state would be kept.
      Case chat = make_case(*alone, prompt(100, static_cast<int>(20 + i)));
      add_second_turn(*alone, chat, prompt(10, static_cast<int>(i)));
      chats.push_back(chat);
    }
  }
};

class Load : public ::testing::TestWithParam<PrefixReuse> {
 protected:
  Load() { copy_with_nan_row("k3", damaged_.path() / "model"); }

  void run(int num_users, std::uint64_t num_steps) {
    const testing::PoisonedMemory poisoned;
    const auto engine = Engine::load(damaged_.path() / "model", {.num_threads = 1});
    Scheduler scheduler(engine, {.max_running = 14,
                                 .prompt_rows = 128,
                                 .reuse = GetParam(),
                                 .state_bytes = std::uint64_t{16} << 20,
                                 .prefix_bytes = 12 * std::uint64_t(engine->info().state_bytes)});
    scheduler_ = &scheduler;
    std::vector<std::thread> users;
    for (int user = 0; user < num_users; ++user) {
      users.emplace_back([this, user, num_steps] {
        std::mt19937 random(static_cast<unsigned>(user) + 1);
        while (scheduler_->stats().steps < num_steps && !HasFailure()) act(random, user);
      });
    }
    for (std::thread& user : users) user.join();
    EXPECT_TRUE(scheduler.drain(std::chrono::seconds(60)));
    const SchedulerStats stats = scheduler.stats();
    EXPECT_EQ(stats.running, 0);
    EXPECT_EQ(stats.waiting, 0);
    EXPECT_GE(stats.steps, num_steps);
    EXPECT_GT(stats.prefix_hits, 0);
    EXPECT_GT(stats.prefix_evictions, 0);
    EXPECT_EQ(stats.failed, nan_choices_.load());
    RecordProperty("hits", std::to_string(stats.prefix_hits));
  }

 private:
  std::shared_ptr<Ticket> submit(GenerationRequest request, int user) {
    request.client = std::to_string(user % 5);
    return scheduler_->submit(std::move(request)).ticket;
  }

  void act(std::mt19937& random, int user) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
    const Case& one = cases_.plain[random() % cases_.plain.size()];
    switch (random() % 10) {
      case 0:
        return ask_for_nan(one, user);
      case 1:
        return leave_early(one, random() % kTokens, user);
      case 2:
        return be_late(one, std::chrono::milliseconds(random() % 20), user);
      case 3:
        return ask_for_choices(one, user);
      case 4:
      case 5:
        return chat(cases_.chats[random() % cases_.chats.size()], user);
      default:
        Answer answer;
        submit(request_of(answer, one.prompt), user);
        EXPECT_EQ(answer.ids(), one.answers[0]);
    }
  }

  void ask_for_nan(const Case& one, int user) {
    Answer answer;
    submit(request_of(answer, one.prompt + std::vector<TokenId>{kNanToken}), user);
    EXPECT_EQ(answer.end().reason, EndReason::kFailed);
    EXPECT_EQ(answer.end().error->code(), ErrorCode::kNonFinite);
    ++nan_choices_;
  }

  void expect_beginning(Answer& answer, const Case& one) {
    const std::vector<TokenId>& ids = answer.ids();
    ASSERT_LE(ids.size(), one.answers[0].size());
    EXPECT_TRUE(std::equal(ids.begin(), ids.end(), one.answers[0].begin()));
  }

  void leave_early(const Case& one, std::size_t tokens, int user) {
    Answer answer;
    const auto ticket = submit(request_of(answer, one.prompt), user);
    answer.wait_for_tokens(tokens);
    ticket->cancel();
    expect_beginning(answer, one);
  }

  void be_late(const Case& one, std::chrono::milliseconds within, int user) {
    Answer answer;
    GenerationRequest request = request_of(answer, one.prompt);
    request.deadline = std::chrono::steady_clock::now() + within;
    submit(std::move(request), user);
    expect_beginning(answer, one);
  }

  void ask_for_choices(const Case& one, int user) {
    Answer answer;
    submit(request_of(answer, one.prompt, kChoices), user);
    for (std::size_t i = 0; i < kChoices; ++i) EXPECT_EQ(answer.ids(i), one.answers[i]);
  }

  void chat(const Case& one, int user) {
    Answer first, second;
    submit(request_of(first, one.prompt), user);
    EXPECT_EQ(first.ids(), one.answers[0]);
    submit(request_of(second, one.second_prompt), user);
    const auto transcript = std::ssize(one.prompt) + std::ssize(one.answers[0]);
    const bool live = second.end().reused_tokens == transcript;
    EXPECT_FALSE(live && GetParam() == PrefixReuse::kExact);
    EXPECT_EQ(second.ids(), live ? one.second_live : one.second_cold);
  }

  static const Cases& cases() {
    static const Cases all;
    return all;
  }

  const Cases& cases_ = cases();
  TempDir damaged_;
  Scheduler* scheduler_ = nullptr;
  std::atomic<std::uint64_t> nan_choices_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Reuse, Load, ::testing::Values(PrefixReuse::kLive, PrefixReuse::kExact),
                         [](const auto& reuse) {
                           return reuse.param == PrefixReuse::kLive ? "Live" : "Exact";
                         });

TEST_P(Load, ThirtyTwoUsers) { run(32, 250); }

class SlowLoad : public Load {};
INSTANTIATE_TEST_SUITE_P(Slow, SlowLoad, ::testing::Values(PrefixReuse::kLive, PrefixReuse::kExact),
                         [](const auto& reuse) {
                           return reuse.param == PrefixReuse::kLive ? "Live" : "Exact";
                         });

TEST_P(SlowLoad, ThirtyTwoUsersForTenThousandSteps) { run(32, 10000); }

}  // namespace
}  // namespace baltoro
