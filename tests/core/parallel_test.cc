#include "core/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "baltoro/error.h"

namespace baltoro {
namespace {

class ThreadPoolSizes : public testing::TestWithParam<int> {};

TEST_P(ThreadPoolSizes, CoversEveryItemOnceOverManyRounds) {
  ThreadPool pool(GetParam());
  std::vector<std::atomic<int>> hits(1000);
  for (int round = 1; round <= 200; ++round) {
    pool.parallel_for(1000, 7, [&](std::int64_t begin, std::int64_t end, int worker) {
      EXPECT_LT(worker, GetParam());
      for (auto i = begin; i < end; ++i) hits[static_cast<std::size_t>(i)].fetch_add(1);
    });
    for (const auto& hit : hits) ASSERT_EQ(hit.load(), round);
  }
}

// Shares are handed from run to run without a reset: counts that leave some of them empty, others
// that do not.
TEST_P(ThreadPoolSizes, CountsThatChangeFromRunToRunAreCovered) {
  ThreadPool pool(GetParam());
  for (std::int64_t round = 0; round < 500; ++round) {
    const std::int64_t count = round * 37 % 41, grain = 1 + round % 3;
    std::vector<std::atomic<int>> hits(41);
    pool.parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end, int) {
      EXPECT_LE(end - begin, grain);
      for (auto i = begin; i < end; ++i) hits[static_cast<std::size_t>(i)].fetch_add(1);
    });
    for (std::int64_t i = 0; i < 41; ++i) {
      ASSERT_EQ(hits[static_cast<std::size_t>(i)].load(), i < count ? 1 : 0) << round << " " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Parallel, ThreadPoolSizes, testing::Values(1, 2, 3, 5));

TEST(ThreadPool, EmptyRangeRunsNothing) {
  ThreadPool pool(2);
  pool.parallel_for(0, 1, [](std::int64_t, std::int64_t, int) { FAIL(); });
}

TEST(ThreadPool, RefusesAbsurdSizes) {
  EXPECT_THROW(ThreadPool(0), Error);
  EXPECT_THROW(ThreadPool(5000), Error);
}

TEST(ThreadPool, DefaultIsAtLeastOne) { EXPECT_GE(default_thread_count(), 1); }

}  // namespace
}  // namespace baltoro
