// The whole tokenizer on the committed vocabulary, whose expected ids an independent program made.
#include "baltoro/tokenizer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "baltoro/error.h"
#include "text/test_vocabulary.h"

namespace baltoro {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Ids = std::vector<TokenId>;

const Tokenizer& tokenizer() {
  static const Tokenizer committed = committed_tokenizer();
  return committed;
}

Ids joined(std::initializer_list<Ids> parts) {
  Ids all;
  for (const Ids& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

TEST(Tokenizer, EqualsTheExpectedEncodings) {
  const auto stored =
      nlohmann::json::parse(read_test_file(committed_tokenizer_dir() / "encodings.json"));
  ASSERT_GE(stored["cases"].size(), 80u);
  for (const auto& entry : stored["cases"]) {
    const auto text = entry["text"].get<std::string>();
    const auto ids = entry["ids"].get<Ids>();
    EXPECT_EQ(tokenizer().encode(text), ids) << entry["text"];
    EXPECT_EQ(tokenizer().decode(ids), text);
  }
}

TEST(Tokenizer, SizesOfTheVocabulary) {
  EXPECT_EQ(tokenizer().num_ranks(), 4064);
  EXPECT_EQ(tokenizer().vocab_size(), 4096);
}

TEST(Tokenizer, EmptyTextHasNoIds) {
  EXPECT_EQ(tokenizer().encode(""), Ids());
  EXPECT_EQ(tokenizer().encode_control(""), Ids());
  EXPECT_EQ(tokenizer().decode({}), "");
}

// A user who types a marker must not forge one.
TEST(Tokenizer, SpecialStringsArePlainTextUnlessAskedFor) {
  for (TokenId id = tokenizer().num_ranks(); id < tokenizer().vocab_size(); ++id) {
    const std::string name(tokenizer().token_bytes(id));
    for (const std::string& text :
         {name, fmt::format("x{}{}y", name, name), fmt::format(" {}", name)}) {
      const Ids ids = tokenizer().encode(text);
      EXPECT_TRUE(std::none_of(ids.begin(), ids.end(), [](TokenId i) {
        return tokenizer().is_special(i);
      })) << text;
      EXPECT_EQ(tokenizer().decode(ids), text);
    }
    EXPECT_EQ(tokenizer().encode_control(name), Ids{id});
    EXPECT_EQ(tokenizer().special_id(name), id);
  }
}

TEST(Tokenizer, ControlTextIsEncodedBetweenTheMarkersIndependently) {
  const TokenId open = tokenizer().special_id("<|open|>").value();
  const TokenId sep = tokenizer().special_id("<|sep|>").value();
  EXPECT_EQ(tokenizer().encode_control("  <|open|>message role<|sep|><|sep|>it's <|op"),
            joined({tokenizer().encode("  "),
                    {open},
                    tokenizer().encode("message role"),
                    {sep, sep},
                    tokenizer().encode("it's <|op")}));
}

// Spaces around structural tokens were put in by another engine's decoder.
TEST(Tokenizer, DecodingPutsNothingBetweenTokens) {
  const std::string text = "<|open|>message role=\"user\"<|sep|> hi <|close|>message<|sep|>";
  EXPECT_EQ(tokenizer().decode(tokenizer().encode_control(text)), text);
}

TEST(Tokenizer, EveryIdDecodesAndForeignIdsAreErrors) {
  for (TokenId id = 0; id < tokenizer().vocab_size(); ++id) {
    EXPECT_FALSE(tokenizer().token_bytes(id).empty());
    EXPECT_EQ(tokenizer().is_special(id), id >= tokenizer().num_ranks());
  }
  for (const TokenId id : {-1, tokenizer().vocab_size(), INT32_MAX, INT32_MIN}) {
    EXPECT_THROW(tokenizer().token_bytes(id), Error);
    EXPECT_THROW(tokenizer().decode(Ids{0, id}), Error);
    EXPECT_FALSE(tokenizer().is_special(id));
    EXPECT_FALSE(tokenizer().is_reserved(id));
  }
}

TEST(Tokenizer, ReservedIdsAreThoseWithoutAUse) {
  EXPECT_FALSE(tokenizer().is_reserved(0));
  EXPECT_FALSE(tokenizer().is_reserved(tokenizer().special_id("[EOS]").value()));
  EXPECT_FALSE(tokenizer().is_reserved(tokenizer().special_id("<|open|>").value()));
  int num_reserved = 0;
  for (TokenId id = 0; id < tokenizer().vocab_size(); ++id) {
    if (!tokenizer().is_reserved(id)) continue;
    ++num_reserved;
    EXPECT_EQ(tokenizer().token_bytes(id), fmt::format("<|reserved_token_{}|>", id));
  }
  EXPECT_GT(num_reserved, 0);
}

TEST(Tokenizer, AnyBytesComeBack) {
  std::mt19937 rng(9);
  for (int i = 0; i < 3'000; ++i) {
    std::string text;
    const std::size_t length = rng() % 40;
    while (text.size() < length) {
      text += rng() % 3 == 0 ? "世 '" : std::string(1, static_cast<char>(rng()));
    }
    ASSERT_EQ(tokenizer().decode(tokenizer().encode(text)), text);
    ASSERT_EQ(tokenizer().decode(tokenizer().encode_control(text)), text);
  }
}

// The cut at 25,000 equal characters shows in the ids; an engine without it gives others.
TEST(Tokenizer, LongRunsAreEncodedInSlices) {
  const Tokenizer powers =
      make_tokenizer(byte_tokens_and({"aa", "aaaa", "aaaaaaaa", "aaaaaaaaaaaaaaaa"}), {"<|open|>"});
  const Ids slice = powers.encode(std::string(25'000, 'a'));
  const Ids whole = powers.encode(std::string(100'000, 'a'));
  EXPECT_EQ(whole, joined({slice, slice, slice, slice}));
  // 25,000 is 1562 x 16 + 8 while 16 divides 100,000: each slice ends in a token of eight.
  EXPECT_EQ(std::count(whole.begin(), whole.end(), 258), 4);
  EXPECT_EQ(whole.size(), 4u * 1563u);
}

// The cut comes before special strings are looked for, so it can split one.
TEST(Tokenizer, SliceBorderInsideASpecialStringMakesItText) {
  const Tokenizer bytes = make_tokenizer(byte_tokens_and({}), {"<|open|>"});
  const Ids apart = bytes.encode_control(std::string(24'996, 'a') + "<|open|>");
  EXPECT_EQ(apart.size(), 24'996u + 8u);
  const Ids intact = bytes.encode_control(std::string(24'992, 'a') + "<|open|>");
  EXPECT_EQ(intact.size(), 24'992u + 1u);
}

TEST(Tokenizer, ServesManyThreads) {
  std::string text;
  for (int i = 0; i < 500; ++i) text += "The miller's 世界 has 12345 \n\n sacks.";
  std::vector<Ids> results(4);
  std::vector<std::thread> threads;
  for (Ids& result : results) threads.emplace_back([&] { result = tokenizer().encode(text); });
  for (std::thread& thread : threads) thread.join();
  for (const Ids& result : results) EXPECT_EQ(result, tokenizer().encode(text));
}

class TokenizerFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "baltoro-tok-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    dir_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  void copy(const char* file) {
    std::filesystem::copy(committed_tokenizer_dir() / file, dir_ / file);
  }

  std::string load_error() const {
    try {
      Tokenizer::load(dir_);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadModel);
      return error.what();
    }
    return "no error";
  }

  std::filesystem::path dir_;
};

TEST_F(TokenizerFiles, MissingFilesAreNamed) {
  EXPECT_THAT(load_error(), HasSubstr("tiktoken.model: no such file"));
  copy("tiktoken.model");
  EXPECT_THAT(load_error(), HasSubstr("tokenizer_config.json: no such file"));
  copy("tokenizer_config.json");
  EXPECT_EQ(load_error(), "no error");
}

TEST_F(TokenizerFiles, FolderInPlaceOfAFile) {
  std::filesystem::create_directory(dir_ / "tiktoken.model");
  EXPECT_THAT(load_error(), HasSubstr("tiktoken.model"));
}

TEST_F(TokenizerFiles, TruncatedRankFileDoesNotFitItsSpecialTokens) {
  copy("tokenizer_config.json");
  const std::string ranks = read_test_file(committed_tokenizer_dir() / "tiktoken.model");
  std::ofstream(dir_ / "tiktoken.model") << ranks.substr(0, ranks.find('\n', ranks.size() / 2) + 1);
  EXPECT_NE(load_error(), "no error");
}

}  // namespace
}  // namespace baltoro
