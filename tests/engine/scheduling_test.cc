// The arithmetic of scheduling: whose turn it is, where prompts are cut, what fits.
#include <gtest/gtest.h>

#include "engine/prompt_rows.h"
#include "engine/request_queue.h"
#include "engine/state_budget.h"

namespace baltoro {
namespace {

using Stops = std::vector<std::int64_t>;

TEST(KeptStops, LastBlockBeforeTheLastToken) {
  EXPECT_EQ(kept_stops({.length = 200}, 0), Stops({192}));
  EXPECT_EQ(kept_stops({.length = 193}, 0), Stops({192}));
  EXPECT_EQ(kept_stops({.length = 192}, 0), Stops({128}));
  EXPECT_EQ(kept_stops({.length = 64}, 0), Stops());
  EXPECT_EQ(kept_stops({.length = 1}, 0), Stops());
}

TEST(KeptStops, WhatIsSharedAndLongPrompts) {
  EXPECT_EQ(kept_stops({.length = 400}, 150), Stops({128, 384}));
  EXPECT_EQ(kept_stops({.length = 400}, 400), Stops({384}));
  EXPECT_EQ(kept_stops({.length = 400}, 63), Stops({384}));
  EXPECT_EQ(kept_stops({.length = 10000}, 0), Stops({4096, 8192, 9984}));
  EXPECT_EQ(kept_stops({.length = 8193}, 4100), Stops({4096, 8192}));
}

TEST(KeptStops, OnlyWhatIsReadNow) {
  EXPECT_EQ(kept_stops({.length = 10000, .begin = 4096}, 150), Stops({8192, 9984}));
  EXPECT_EQ(kept_stops({.length = 200, .begin = 192}, 192), Stops());
  EXPECT_EQ(kept_stops({.length = 200, .begin = 199}, 0), Stops());
}

TEST(KeptStops, BlocksAreThoseOfTheSequence) {
  // Token i stands at position i + 5.
  EXPECT_EQ(kept_stops({.length = 200, .begin = 90, .shift = 5}, 0), Stops({192 - 5}));
  EXPECT_EQ(kept_stops({.length = 5000, .begin = 90, .shift = -7}, 0), Stops({4096 + 7, 4992 + 7}));
}

std::vector<std::int64_t> shared(std::vector<PromptPart> parts, std::int64_t budget,
                                 std::size_t first) {
  return share_rows(parts, budget, first);
}

TEST(PromptRows, WholeBlocksInTurns) {
  EXPECT_EQ(shared({{0, 1000}}, 256, 0), Stops({256}));
  EXPECT_EQ(shared({{0, 100}}, 256, 0), Stops({100}));
  EXPECT_EQ(shared({{0, 1000}, {64, 1000}}, 256, 0), Stops({128, 128}));
  EXPECT_EQ(shared({{0, 1000}, {64, 1000}, {0, 1000}}, 256, 1), Stops({64, 128, 64}));
  EXPECT_EQ(shared({{0, 10}, {0, 1000}}, 256, 0), Stops({10, 192}));
}

TEST(PromptRows, CutsAreAtMultiplesOf64OfThePosition) {
  EXPECT_EQ(shared({{70, 1000}}, 128, 0), Stops({58 + 64}));
  EXPECT_EQ(shared({{70, 1000}}, 64, 0), Stops({58}));
  EXPECT_EQ(shared({{63, 1000}, {0, 64}}, 64, 0), Stops({1, 0}))
      << "a block is whole or not at all";
}

TEST(PromptRows, EveryPartHasItsTurn) {
  const std::vector<PromptPart> parts(5, PromptPart{0, 1000});
  for (std::size_t first = 0; first < 12; ++first) {
    const auto rows = shared(parts, 64, first);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      EXPECT_EQ(rows[i], i == first % parts.size() ? 64 : 0);
    }
  }
}

std::unique_ptr<Job> job(const std::string& client, std::int64_t number) {
  auto job = std::make_unique<Job>();
  job->request.client = client;
  job->request.max_tokens = number;
  return job;
}

class Queue : public ::testing::Test {
 protected:
  // The number of the next request, 0 where there is none.
  std::int64_t take(std::int64_t skipped = -1, std::int64_t waiting = -1) {
    const auto job = queue_.take([&](Job& asked) {
      const std::int64_t number = asked.request.max_tokens;
      if (number == skipped) return RequestQueue::Verdict::kSkip;
      return number == waiting ? RequestQueue::Verdict::kWait : RequestQueue::Verdict::kTake;
    });
    return job == nullptr ? 0 : job->request.max_tokens;
  }
  RequestQueue queue_;
};

TEST_F(Queue, ClientsTakeTurns) {
  for (std::int64_t i = 1; i <= 3; ++i) queue_.push(job("a", i));
  queue_.push(job("b", 4));
  queue_.push(job("c", 5));
  queue_.push(job("b", 6));
  std::vector<std::int64_t> order;
  for (int i = 0; i < 7; ++i) order.push_back(take());
  EXPECT_EQ(order, Stops({1, 4, 5, 2, 6, 3, 0}));
  EXPECT_EQ(queue_.size(), 0);
}

TEST_F(Queue, SomeAreSkippedAndSomeNotOvertaken) {
  queue_.push(job("a", 1));
  queue_.push(job("a", 2));
  queue_.push(job("b", 3));
  EXPECT_EQ(take(-1, 1), 0);
  EXPECT_EQ(take(1), 3);
  EXPECT_EQ(take(1), 0) << "those of one client come in their order";
  EXPECT_EQ(take(), 1);
}

TEST_F(Queue, TakesOutWhatHasEnded) {
  for (std::int64_t i = 1; i <= 6; ++i) queue_.push(job(i % 2 == 0 ? "a" : "b", i));
  EXPECT_EQ(queue_.take_all([](const Job& j) { return j.request.max_tokens % 2 == 0; }).size(), 3);
  EXPECT_EQ(queue_.size(), 3);
  queue_.push(job("a", 7));
  EXPECT_EQ(take(), 1);
  EXPECT_EQ(take(), 7);
}

EngineInfo info_of(std::int64_t state_bytes, std::int64_t bytes_per_token) {
  EngineInfo info;
  info.state_bytes = state_bytes;
  info.cache_bytes_per_token = bytes_per_token;
  return info;
}

TEST(StateBudget, ARequestCountsForWhatItMayBecome) {
  const EngineInfo info = info_of(1000, 1);
  // Two states while it reads, a page of the prompt, one of the answer, and a copy of a page.
  EXPECT_EQ(request_bytes(info, 64, 64, 1), 2000 + 64 * 3);
  EXPECT_EQ(request_bytes(info, 65, 65, 4), 4000 + 64 * (2 + 4 * 3));
}

TEST(StateBudget, MostTokensIsWhatFits) {
  const EngineInfo info = info_of(1000, 3);
  for (const int choices : {1, 2, 5}) {
    for (std::uint64_t bytes = 0; bytes < 30000; bytes += 97) {
      const std::int64_t most = most_tokens(info, 100, choices, bytes);
      EXPECT_TRUE(most == 0 || request_bytes(info, 100, most, choices) <= bytes);
      EXPECT_GT(request_bytes(info, 100, most + 1, choices), bytes);
    }
  }
  EXPECT_EQ(most_tokens(info_of(1000, 0), 100, 1, 2001), kMostTokens);
  EXPECT_EQ(most_tokens(info_of(1000, 0), 100, 1, 1999), 0);
}

TEST(StateBudget, DefaultsComeFromThePlan) {
  EngineInfo info = info_of(1000, 1);
  const std::uint64_t planned = 2000 + 2048;
  info.memory.limit = 100000;
  info.memory.working = 20000;
  info.memory.resident = 30000;
  EXPECT_EQ(default_state_bytes(info), planned + 50000);
  info.memory.experts = 1;
  info.memory.minimum = 60000;
  EXPECT_EQ(default_state_bytes(info), planned + 20000);
  info.memory.device_limit = 1000;
  info.memory.device_working = 2000;
  EXPECT_EQ(default_state_bytes(info), planned);
  info.memory.device_limit = 18000;
  EXPECT_EQ(default_state_bytes(info), planned + 14000);
  // Of layers on the CPU each side bounds its share: the host 20000 for a quarter of each state, the
  // device 14000 for three quarters.
  info.host_state_bytes = info.state_bytes / 4;
  EXPECT_EQ(default_state_bytes(info), planned + 14000);  // all pages are the device's
  info.cache_bytes_per_token = 4;
  info.host_cache_bytes_per_token = 1;
  const std::uint64_t planned4 = 2000 + 4 * 2048;
  EXPECT_EQ(default_state_bytes(info), planned4 + 14000 * 4 / 3);
  info.memory.minimum = info.memory.limit - 8000;
  EXPECT_EQ(default_state_bytes(info), planned4 + 4 * 4000);
  info = info_of(1000, 1);
  EXPECT_EQ(default_prefix_bytes(info, 100), 50);
  EXPECT_EQ(default_prefix_bytes(info, std::uint64_t{1} << 40), std::uint64_t{2} << 30);
  EXPECT_EQ(default_prefix_bytes(info_of(449000000, 1), std::uint64_t{1} << 40), 32 * 449000000ull);
}

}  // namespace
}  // namespace baltoro
