#include "serve/api_keys.h"

#include <gtest/gtest.h>

#include "baltoro/error.h"

namespace baltoro::serve {
namespace {

TEST(ApiKeys, MatchWholeKeysAlone) {
  ApiKeys keys;
  keys.add("secret", "--api-key");
  keys.add("secret2", "--api-key");
  EXPECT_EQ(keys.match("secret"), 0u);
  EXPECT_EQ(keys.match("secret2"), 1u);
  for (const char* wrong : {"", "s", "secre", "secret ", "secret3", "Secret", "secretsecret2"}) {
    EXPECT_FALSE(keys.match(wrong)) << wrong;
  }
  EXPECT_FALSE(keys.match(std::string("secret\0", 7)));
  EXPECT_FALSE(keys.match(std::string("secret") + std::string(ApiKeys::kMaxBytes, '\0')));
  EXPECT_FALSE(keys.match(std::string(100'000, 'x')));
  EXPECT_FALSE(ApiKeys().match(""));
}

TEST(ApiKeys, OfAnyLengthUpToTheLimitMatch) {
  ApiKeys keys;
  const std::string longest(ApiKeys::kMaxBytes, 'k');
  keys.add(longest, "x");
  EXPECT_EQ(keys.match(longest), 0u);
  EXPECT_FALSE(keys.match(longest.substr(1)));
  EXPECT_THROW(keys.add(longest + "k", "x"), Error);
}

TEST(ApiKeys, FilesHaveOneALine) {
  ApiKeys keys;
  keys.add_lines("# of the team\nalpha\r\n\n  beta \n#gamma\ndelta", "keys.txt");
  EXPECT_EQ(keys.size(), 3u);
  EXPECT_EQ(keys.match("alpha"), 0u);
  EXPECT_EQ(keys.match("beta"), 1u);
  EXPECT_EQ(keys.match("delta"), 2u);
  EXPECT_FALSE(keys.match("#gamma"));
}

TEST(ApiKeys, ErrorsNameTheFileAndNeverTheKey) {
  ApiKeys keys;
  for (const char* text : {"", "# nothing\n\n", "good\nwith blank\n"}) {
    try {
      keys.add_lines(text, "keys.txt");
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with("keys.txt")) << error.what();
      EXPECT_EQ(std::string(error.what()).find("with blank"), std::string::npos);
    }
  }
}

TEST(PresentedKey, ComesFromEitherHeader) {
  EXPECT_EQ(presented_key({{"Authorization", "Bearer abc"}}), "abc");
  EXPECT_EQ(presented_key({{"authorization", "bearer  abc "}}), "abc");
  EXPECT_EQ(presented_key({{"X-Api-Key", "abc"}}), "abc");
  EXPECT_EQ(presented_key({{"Authorization", "Basic abc"}, {"x-api-key", "def"}}), "def");
  EXPECT_EQ(presented_key({{"Authorization", "Bearer"}}), std::nullopt);
  EXPECT_EQ(presented_key({}), std::nullopt);
}

}  // namespace
}  // namespace baltoro::serve
