#include "core/directory.h"

#include <gtest/gtest.h>

namespace baltoro {
namespace {

TEST(Directory, EndsWithoutASlash) {
  EXPECT_EQ(without_end_slash("models/story/"), "models/story");
  EXPECT_EQ(without_end_slash("models/story//"), "models/story");
  EXPECT_EQ(without_end_slash("models"), "models");
  EXPECT_EQ(without_end_slash("/"), "/");
  EXPECT_EQ(without_end_slash(""), "");
}

}  // namespace
}  // namespace baltoro
