#include "core/rng.h"

#include <gtest/gtest.h>

namespace baltoro {
namespace {

// Known-answer vectors of the authors' Random123 distribution (philox4x32, 10 rounds).
TEST(Philox, KnownAnswers) {
  const auto zero = Philox(0, 0).block(0);
  EXPECT_EQ(zero, (std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const auto ones = Philox(~0ull, ~0ull).block(~0ull);
  EXPECT_EQ(ones, (std::array<std::uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(Philox, UniformStaysBelowOne) {
  const Philox rng(7, 3);
  for (std::uint64_t i = 0; i < 1000; ++i) {
    EXPECT_GE(rng.uniform(i), 0.0f);
    EXPECT_LT(rng.uniform(i), 1.0f);
  }
}

}  // namespace
}  // namespace baltoro
