// Requests through the scheduler: each gets what it would get alone, whatever happens to others.
#include "baltoro/scheduler.h"

#include <gtest/gtest.h>

#include <deque>
#include <thread>

#include "engine/scheduled.h"
#include "engine/sessions.h"

namespace baltoro {
namespace {

class Schedulers : public ::testing::Test {
 protected:
  std::shared_ptr<Engine> engine_ = Engine::load(fixture("k3"), {.num_threads = 1});
};

TEST_F(Schedulers, TokensAreThoseOfSoloRuns) {
  std::deque<Answer> answers(12);
  std::deque<GenerationRequest> requests;
  Scheduler scheduler(engine_, {.max_running = 5, .prompt_rows = 64});
  for (std::size_t i = 0; i < answers.size(); ++i) {
    requests.push_back(
        answers[i].request(prompt(1 + i * 31, static_cast<int>(i)), 3 + static_cast<int>(i)));
    EXPECT_TRUE(scheduler.submit(requests.back()).ticket);
  }
  for (std::size_t i = 0; i < answers.size(); ++i) {
    EXPECT_EQ(answers[i].ids(), solo(*engine_, requests[i])) << i;
    EXPECT_EQ(answers[i].end().reason, EndReason::kMaxTokens);
    EXPECT_EQ(answers[i].end().prompt_tokens, 1 + static_cast<std::int64_t>(i) * 31);
  }
  EXPECT_TRUE(scheduler.drain(std::chrono::seconds(10)));
  EXPECT_EQ(scheduler.stats().finished, answers.size());
  EXPECT_EQ(scheduler.stats().running, 0);
}

TEST_F(Schedulers, ChoicesReadThePromptOnceAndDrawWithTheirOwnSeeds) {
  Scheduler scheduler(engine_, {.max_running = 4});
  Answer answer;
  const GenerationRequest request = answer.request(prompt(70), 12, 4);
  ASSERT_TRUE(scheduler.submit(request).ticket);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(answer.ids(static_cast<std::size_t>(i)), solo(*engine_, request, i)) << i;
  }
  EXPECT_NE(answer.ids(0), answer.ids(1));
  EXPECT_EQ(scheduler.stats().prompt_tokens, 70);
  EXPECT_EQ(scheduler.stats().generated_tokens, 48);
}

}  // namespace
}  // namespace baltoro
