// Requests through the scheduler: each gets what it would get alone, whatever happens to others.
#include "baltoro/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <deque>
#include <future>
#include <optional>
#include <thread>

#include "engine/scheduled.h"
#include "engine/sessions.h"
#include "fault/syscalls.h"
#include "io/test_files.h"

namespace baltoro {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Holds the scheduler's thread in a callback, so that a test can line requests up behind it.
class Gate {
 public:
  // A request that generates two tokens, the first when the gate is open.
  GenerationRequest request() {
    GenerationRequest request = answer_.request(prompt(5), 2);
    request.client = "gate";
    request.on_token = [this, pass = opened_](int, const GeneratedToken&) {
      reached_.store(true);
      reached_.notify_all();
      pass.wait();
      return true;
    };
    return request;
  }
  void wait_until_reached() { reached_.wait(false); }
  void open() { open_.set_value(); }

 private:
  Answer answer_;
  std::promise<void> open_;
  std::shared_future<void> opened_ = open_.get_future().share();
  std::atomic<bool> reached_ = false;
};

class Schedulers : public ::testing::Test {
 protected:
  std::shared_ptr<Engine> engine_ = Engine::load(fixture("k3"), {.num_threads = 1});
  Gate gate_;
};

TEST_F(Schedulers, TokensAreThoseOfSoloRuns) {
  std::deque<GenerationRequest> requests;
  std::deque<Answer> answers(12);
  Scheduler scheduler(engine_, {.max_running = 5, .prompt_rows = 64, .reuse = PrefixReuse::kExact});
  for (std::size_t i = 0; i < answers.size(); ++i) {
    requests.push_back(
        answers[i].request(prompt(1 + i * 31, static_cast<int>(i)), 3 + static_cast<int>(i)));
    EXPECT_TRUE(scheduler.submit(requests.back()).ticket);
  }
  for (std::size_t i = 0; i < answers.size(); ++i) {
    EXPECT_EQ(answers[i].ids(), solo(*engine_, requests[i])) << i;
    EXPECT_EQ(answers[i].end().reason, EndReason::kMaxTokens);
    EXPECT_EQ(answers[i].end().prompt_tokens, 1 + static_cast<std::int64_t>(i) * 31);
    EXPECT_EQ(answers[i].end().generated_tokens, 3 + static_cast<std::int64_t>(i));
    EXPECT_GT(answers[i].end().to_first_token.count(), 0);
    EXPECT_GE(answers[i].end().total, answers[i].end().to_first_token);
  }
  EXPECT_TRUE(scheduler.drain(seconds(10)));
  EXPECT_EQ(scheduler.stats().finished, answers.size());
  EXPECT_EQ(scheduler.stats().running, 0);
}

TEST_F(Schedulers, ChoicesReadThePromptOnceAndDrawWithTheirOwnSeeds) {
  Answer answer;
  Scheduler scheduler(engine_, {.max_running = 4});
  const GenerationRequest request = answer.request(prompt(70), 12, 4);
  ASSERT_TRUE(scheduler.submit(request).ticket);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(answer.ids(static_cast<std::size_t>(i)), solo(*engine_, request, i)) << i;
  }
  EXPECT_NE(answer.ids(0), answer.ids(1));
  EXPECT_EQ(scheduler.stats().prompt_tokens, 70);
  EXPECT_EQ(scheduler.stats().generated_tokens, 48);
}

TEST_F(Schedulers, TheTokensOfAStepAreHandedOutTogether) {
  Answer one, two;
  int open = 0, most_tokens = 0, tokens = 0;
  Scheduler scheduler(engine_, {.around_tokens = [&](const std::function<void()>& hand_out) {
                        open = 1;
                        tokens = 0;
                        hand_out();
                        open = 0;
                        most_tokens = std::max(most_tokens, tokens);
                      }});
  for (Answer* answer : {&one, &two}) {
    GenerationRequest request = answer->request(prompt(5), 20, 2);
    request.on_token = [&, report = request.on_token](int choice, const GeneratedToken& token) {
      EXPECT_EQ(open, 1);
      ++tokens;
      return report(choice, token);
    };
    scheduler.submit(request);
  }
  EXPECT_EQ(one.end().generated_tokens, 20);
  EXPECT_EQ(two.end().generated_tokens, 20);
  EXPECT_TRUE(scheduler.drain(seconds(10)));
  EXPECT_GE(most_tokens, 2);
}

TEST_F(Schedulers, StopTokensEndAChoice) {
  Answer plain, stopped;
  Scheduler scheduler(engine_);
  scheduler.submit(plain.request(prompt(30), 20));
  GenerationRequest request = stopped.request(prompt(30), 20);
  request.stop_ids = {plain.ids()[7]};
  scheduler.submit(request);
  EXPECT_EQ(stopped.ids(), solo(*engine_, request));
  EXPECT_EQ(stopped.end().reason, EndReason::kStopToken);
}

TEST_F(Schedulers, TheConsumerMayEndAChoice) {
  Answer answer;
  Scheduler scheduler(engine_);
  GenerationRequest request = answer.request(prompt(30), 50, 2);
  request.on_token = [](int choice, const GeneratedToken& token) {
    return choice != 1 || token.index < 3;
  };
  scheduler.submit(request);
  EXPECT_EQ(answer.end(1).reason, EndReason::kConsumer);
  EXPECT_EQ(answer.end(1).generated_tokens, 4);
  EXPECT_EQ(answer.end(0).reason, EndReason::kMaxTokens);
  EXPECT_EQ(answer.end(0).generated_tokens, 50);
}

TEST_F(Schedulers, ACancelledRequestGetsNoFurtherToken) {
  Answer first, second;
  Scheduler scheduler(engine_, {.max_running = 1});
  std::shared_ptr<Ticket> ticket;
  std::mutex mutex;
  GenerationRequest request = first.request(prompt(30), 1000000);
  request.on_token = [&](int, const GeneratedToken& token) {
    const std::lock_guard lock(mutex);
    if (token.index == 3) ticket->cancel();
    return true;
  };
  {
    const std::lock_guard lock(mutex);
    ticket = scheduler.submit(request).ticket;
  }
  scheduler.submit(second.request(prompt(9), 4));
  EXPECT_EQ(first.end().reason, EndReason::kCancelled);
  EXPECT_EQ(first.end().generated_tokens, 4);
  EXPECT_EQ(second.end().reason, EndReason::kMaxTokens);
  EXPECT_EQ(scheduler.stats().cancelled, 1);
}

TEST_F(Schedulers, CancelledWhileWaitingOrReading) {
  Answer reading, waiting;
  Scheduler scheduler(engine_, {.max_running = 2, .prompt_rows = 64});
  scheduler.submit(gate_.request());
  gate_.wait_until_reached();
  // One step is done with the gate's first token; the prompt needs 40.
  const auto first = scheduler.submit(reading.request(prompt(40 * 64), 5)).ticket;
  const auto second = scheduler.submit(waiting.request(prompt(20), 5)).ticket;
  second->cancel();
  std::thread canceller([&] {
    while (scheduler.stats().prompt_tokens < 5 + 128) std::this_thread::yield();
    first->cancel();
  });
  gate_.open();
  EXPECT_EQ(reading.end().reason, EndReason::kCancelled);
  EXPECT_EQ(reading.end().generated_tokens, 0);
  EXPECT_EQ(waiting.end().reason, EndReason::kCancelled);
  canceller.join();
  EXPECT_LT(scheduler.stats().prompt_tokens, 40 * 64);
}

TEST_F(Schedulers, DeadlinesEndWhatWaitsAndWhatRuns) {
  Answer running, waiting;
  Scheduler scheduler(engine_, {.max_running = 1});
  GenerationRequest request = running.request(prompt(10), 1000000);
  request.deadline = std::chrono::steady_clock::now() + milliseconds(200);
  scheduler.submit(request);
  request = waiting.request(prompt(10), 10);
  request.deadline = std::chrono::steady_clock::now() + milliseconds(50);
  scheduler.submit(request);
  EXPECT_EQ(waiting.end().reason, EndReason::kDeadline);
  EXPECT_EQ(waiting.end().generated_tokens, 0);
  EXPECT_EQ(running.end().reason, EndReason::kDeadline);
  EXPECT_EQ(scheduler.stats().timed_out, 2);
}

TEST_F(Schedulers, AFullQueueRefuses) {
  Answer a, b, c;
  Scheduler scheduler(engine_, {.max_running = 1, .max_waiting = 2});
  scheduler.submit(gate_.request());
  gate_.wait_until_reached();
  EXPECT_TRUE(scheduler.submit(a.request(prompt(5), 1)).ticket);
  EXPECT_TRUE(scheduler.submit(b.request(prompt(5), 1)).ticket);
  const Submission refused = scheduler.submit(c.request(prompt(5), 1));
  EXPECT_EQ(refused.ticket, nullptr);
  EXPECT_EQ(refused.refusal, Refusal::kQueueFull);
  EXPECT_GE(refused.retry_after, seconds(1));
  EXPECT_EQ(scheduler.stats().waiting, 2);
  EXPECT_EQ(scheduler.stats().refused, 1);
  gate_.open();
  a.end();
  b.end();
  EXPECT_TRUE(scheduler.submit(c.request(prompt(5), 1)).ticket);
}

TEST_F(Schedulers, AClientHasItsShareAndMayComeBackAtOnce) {
  Answer a, b, other, next;
  Scheduler scheduler(engine_, {.max_running = 8, .max_per_client = 2});
  scheduler.submit(gate_.request());
  gate_.wait_until_reached();
  const auto of = [](Answer& answer, const char* client) {
    GenerationRequest request = answer.request(prompt(5), 1);
    request.client = client;
    return request;
  };
  EXPECT_TRUE(scheduler.submit(of(a, "x")).ticket);
  GenerationRequest second = of(b, "x");
  // From the end of one request the client may send the next one.
  second.on_end = [&, report = second.on_end](int choice, const GenerationEnd& end) {
    EXPECT_TRUE(scheduler.submit(of(next, "x")).ticket);
    report(choice, end);
  };
  EXPECT_TRUE(scheduler.submit(second).ticket);
  EXPECT_EQ(scheduler.submit(of(next, "x")).refusal, Refusal::kClientLimit);
  EXPECT_TRUE(scheduler.submit(of(other, "y")).ticket);
  gate_.open();
  EXPECT_EQ(b.end().reason, EndReason::kMaxTokens);
  EXPECT_EQ(next.end().reason, EndReason::kMaxTokens);
}

TEST_F(Schedulers, ClientsTakeTurns) {
  std::deque<Answer> answers(6);
  Scheduler scheduler(engine_, {.max_running = 1});
  scheduler.submit(gate_.request());
  gate_.wait_until_reached();
  std::mutex mutex;
  std::string order;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    GenerationRequest request = answers[i].request(prompt(5), 1);
    request.client = i < 4 ? "greedy" : std::to_string(i);
    request.on_end = [&, i, report = request.on_end](int choice, const GenerationEnd& end) {
      {
        const std::lock_guard lock(mutex);
        order += std::to_string(i);
      }
      report(choice, end);
    };
    scheduler.submit(request);
  }
  gate_.open();
  for (Answer& answer : answers) answer.end();
  EXPECT_EQ(order, "045123");
}

TEST_F(Schedulers, DrainFinishesWhatWasAccepted) {
  std::deque<Answer> answers(5);
  Answer late;
  Scheduler scheduler(engine_, {.max_running = 2});
  for (Answer& answer : answers) scheduler.submit(answer.request(prompt(100), 30));
  EXPECT_FALSE(scheduler.drain(milliseconds(0)));
  EXPECT_EQ(scheduler.submit(late.request(prompt(5), 1)).refusal, Refusal::kDraining);
  EXPECT_TRUE(scheduler.drain(seconds(60)));
  for (Answer& answer : answers) EXPECT_TRUE(answer.has_ended());
  EXPECT_EQ(scheduler.stats().finished, 5);
}

TEST_F(Schedulers, TheEndOfTheSchedulerCancels) {
  Answer running, waiting;
  {
    Scheduler scheduler(engine_, {.max_running = 1});
    scheduler.submit(running.request(prompt(10), 1000000));
    scheduler.submit(waiting.request(prompt(10), 10));
    running.wait_for_tokens(3);
  }
  EXPECT_TRUE(running.has_ended());
  EXPECT_EQ(running.end().reason, EndReason::kCancelled);
  EXPECT_EQ(waiting.end().reason, EndReason::kCancelled);
}

class Refusing : public TokenConstraint {
 public:
  void allow(std::span<std::uint64_t> /*mask*/) override { throw std::logic_error("refused"); }
  void accept(TokenId /*token*/) override {}
};

TEST_F(Schedulers, WhatAConsumerThrowsIsItsOwnAffair) {
  Answer good, token_thrower, end_thrower, constraint_thrower;
  Scheduler scheduler(engine_);
  scheduler.submit(gate_.request());
  gate_.wait_until_reached();
  const GenerationRequest plain = good.request(prompt(30), 20);
  scheduler.submit(plain);
  GenerationRequest request = token_thrower.request(prompt(31), 20, 2);
  request.on_token = [](int choice, const GeneratedToken& token) {
    if (choice == 0 && token.index == 2) throw std::runtime_error("bad consumer");
    return true;
  };
  scheduler.submit(request);
  request = end_thrower.request(prompt(32), 5);
  request.on_end = [report = request.on_end](int choice, const GenerationEnd& end) {
    report(choice, end);
    throw 42;
  };
  scheduler.submit(request);
  request = constraint_thrower.request(prompt(33), 5);
  request.constraints = {std::make_shared<Refusing>()};
  scheduler.submit(request);
  gate_.open();

  EXPECT_EQ(token_thrower.end(0).reason, EndReason::kFailed);
  EXPECT_THAT(token_thrower.end(0).error->what(), ::testing::HasSubstr("bad consumer"));
  EXPECT_EQ(token_thrower.end(1).reason, EndReason::kMaxTokens);
  EXPECT_EQ(end_thrower.end().reason, EndReason::kMaxTokens);
  EXPECT_EQ(constraint_thrower.end().reason, EndReason::kFailed);
  EXPECT_THAT(constraint_thrower.end().error->what(), ::testing::HasSubstr("refused"));
  EXPECT_EQ(good.ids(), solo(*engine_, plain));
}

TEST_F(Schedulers, ImpossibleRequestsThrow) {
  Answer answer;
  Scheduler scheduler(engine_, {.max_running = 2, .state_bytes = 1 << 20});
  const auto code_of = [&](const std::function<void(GenerationRequest&)>& change) {
    GenerationRequest request = answer.request(prompt(5), 4);
    change(request);
    try {
      scheduler.submit(request);
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::kInternal;
  };
  EXPECT_EQ(code_of([](auto& r) { r.prompt.clear(); }), ErrorCode::kUsage);
  EXPECT_EQ(code_of([](auto& r) { r.prompt[2] = -1; }), ErrorCode::kUsage);
  EXPECT_EQ(code_of([](auto& r) { r.prompt[2] = 1 << 20; }), ErrorCode::kUsage);
  EXPECT_EQ(code_of([](auto& r) { r.stop_ids = {1 << 20}; }), ErrorCode::kUsage);
  EXPECT_EQ(code_of([](auto& r) { r.banned = {-5}; }), ErrorCode::kUsage);
  EXPECT_EQ(code_of([](auto& r) { r.sampling.logit_bias = {{1 << 20, 1}}; }), ErrorCode::kUsage);
  EXPECT_EQ(code_of([](auto& r) { r.sampling.top_p = 7; }), ErrorCode::kUsage);
  EXPECT_EQ(code_of([](auto& r) { r.max_tokens = 0; }), ErrorCode::kUsage);
  EXPECT_EQ(code_of([](auto& r) { r.max_tokens = std::int64_t{1} << 62; }), ErrorCode::kUsage);
  EXPECT_EQ(code_of([](auto& r) { r.num_choices = 3; }), ErrorCode::kUsage);
  EXPECT_EQ(code_of([](auto& r) { r.num_choices = 0; }), ErrorCode::kUsage);
  EXPECT_EQ(code_of([](auto& r) { r.constraints.resize(2); }), ErrorCode::kUsage);
  const std::int64_t most = scheduler.most_tokens(5);
  EXPECT_EQ(code_of([&](auto& r) { r.max_tokens = most + 1; }), ErrorCode::kDoesNotFit);
  EXPECT_EQ(code_of([&](auto& r) { r.prompt.resize(1000000, 1); }), ErrorCode::kDoesNotFit);
  GenerationRequest largest = answer.request(prompt(5), most);
  largest.on_token = [](int, const GeneratedToken& token) { return token.index < 2; };
  EXPECT_TRUE(scheduler.submit(largest).ticket);
  EXPECT_EQ(answer.end().reason, EndReason::kConsumer);

  EXPECT_THROW(Scheduler(engine_, {.max_running = 0}), Error);
  EXPECT_THROW(Scheduler(engine_, {.max_per_client = -1}), Error);
  EXPECT_THROW(Scheduler(engine_, {.prompt_rows = 100}), Error);
}

TEST_F(Schedulers, MemoryOfStatesBoundsTheBatch) {
  const auto slot = static_cast<std::uint64_t>(engine_->info().state_bytes);
  const auto page = static_cast<std::uint64_t>(engine_->info().cache_bytes_per_token) * 64;
  // Two such requests fit: two states and four pages each.
  const std::uint64_t room = 2 * (2 * slot + 4 * page);
  std::deque<Answer> answers(12);
  std::atomic<int> most_running = 0;
  std::atomic<std::uint64_t> most_bytes = 0;
  Scheduler scheduler(engine_, {.max_running = 8, .state_bytes = room, .prefix_bytes = 1 << 30});
  for (std::size_t i = 0; i < answers.size(); ++i) {
    GenerationRequest request = answers[i].request(prompt(70, static_cast<int>(i)), 20);
    request.on_token = [&, report = request.on_token](int choice, const GeneratedToken& token) {
      const SchedulerStats stats = scheduler.stats();
      most_running = std::max(most_running.load(), stats.running);
      most_bytes = std::max(most_bytes.load(), stats.reserved_bytes + stats.prefix_bytes);
      return report(choice, token);
    };
    EXPECT_TRUE(scheduler.submit(request).ticket);
  }
  for (Answer& answer : answers) EXPECT_EQ(answer.end().reason, EndReason::kMaxTokens);
  EXPECT_EQ(most_running, 2);
  EXPECT_LE(most_bytes, room);
  EXPECT_TRUE(scheduler.drain(seconds(10)));
  EXPECT_EQ(scheduler.stats().reserved_bytes, 0);
  EXPECT_GT(scheduler.stats().prefix_bytes, slot) << "what nobody needs any more is kept";
}

TEST_F(Schedulers, ANonFiniteRowFailsItsOwnRequest) {
  TempDir damaged;
  copy_with_nan_row("k3", damaged.path() / "model");
  const auto engine = Engine::load(damaged.path() / "model", {.num_threads = 1});
  std::deque<Answer> good(3);
  Answer bad;
  Scheduler scheduler(engine);
  scheduler.submit(gate_.request());
  gate_.wait_until_reached();
  std::vector<GenerationRequest> requests;
  for (Answer& answer : good) {
    requests.push_back(answer.request(prompt(50 + 70 * requests.size()), 10));
    scheduler.submit(requests.back());
    if (requests.size() == 2) {
      scheduler.submit(bad.request(prompt(100) + std::vector<TokenId>{kNanToken}, 10, 2));
    }
  }
  gate_.open();
  for (int choice : {0, 1}) {
    EXPECT_EQ(bad.end(static_cast<std::size_t>(choice)).reason, EndReason::kFailed);
    EXPECT_EQ(bad.end(static_cast<std::size_t>(choice)).error->code(), ErrorCode::kNonFinite);
  }
  for (std::size_t i = 0; i < good.size(); ++i) {
    EXPECT_EQ(good[i].ids(), solo(*engine_, requests[i])) << i;
  }
}

// Nothing could be set aside at the start, and each growth of the pools fails once.
TEST_F(Schedulers, WithoutMemorySomeFailAndTheOthersGoOn) {
  constexpr std::size_t kRequests = 5;
  const auto ask = [](Answer& answer, std::size_t i) {
    return answer.request(prompt(50 + 120 * i, static_cast<int>(i)), 3);
  };
  std::vector<std::vector<TokenId>> expected;
  for (std::size_t i = 0; i < kRequests; ++i) {
    Answer unused;
    expected.push_back(solo(*engine_, ask(unused, i)));
  }
  bool met = true;
  std::int64_t failures = 0;
  for (std::int64_t nth = 0; met && nth < 100; ++nth) {
    const auto engine = Engine::load(fixture("k3"), {.num_threads = 1});
    std::deque<Answer> answers(kRequests);
    std::optional<testing::FailingCall> unreserved(std::in_place, testing::Call::kMap, 0, ENOMEM,
                                                   1000);
    Scheduler scheduler(engine, {.max_running = 6, .reuse = PrefixReuse::kExact});
    unreserved.reset();
    {
      const testing::FailingCall failing(testing::Call::kMap, nth, ENOMEM);
      for (std::size_t i = 0; i < kRequests; ++i) scheduler.submit(ask(answers[i], i));
      for (Answer& answer : answers) answer.end();
      met = failing.met();
    }
    for (std::size_t i = 0; i < answers.size(); ++i) {
      if (answers[i].end().reason == EndReason::kFailed) {
        ++failures;
        EXPECT_EQ(answers[i].end().error->code(), ErrorCode::kOutOfMemory);
      } else {
        EXPECT_EQ(answers[i].ids(), expected[i]) << nth << " " << i;
      }
    }
    Answer later;
    scheduler.submit(ask(later, 0));
    EXPECT_EQ(later.ids(), expected[0]);
  }
  EXPECT_FALSE(met);
  EXPECT_GT(failures, 0);
}

}  // namespace
}  // namespace baltoro
