#include "measure/statistics.h"

#include <gtest/gtest.h>

#include "baltoro/error.h"

namespace baltoro {
namespace {

TEST(Summarize, OddAndEvenCounts) {
  const Summary odd = summarize({5, 1, 100, 3, 2});
  EXPECT_EQ(odd.median, 3);
  EXPECT_EQ(odd.min, 1);
  EXPECT_EQ(odd.max, 100);
  EXPECT_EQ(odd.mad, 2);  // of 2, 1, 0, 2, 97
  const Summary even = summarize({4, 1, 2, 3});
  EXPECT_EQ(even.median, 2.5);
  EXPECT_EQ(even.mad, 1);  // of 1.5, 0.5, 0.5, 1.5
  const Summary one = summarize({7});
  EXPECT_EQ(one.median, 7);
  EXPECT_EQ(one.mad, 0);
}

TEST(Summarize, NothingIsAnError) { EXPECT_THROW(summarize({}), Error); }

}  // namespace
}  // namespace baltoro
