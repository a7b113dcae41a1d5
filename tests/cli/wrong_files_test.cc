// Wrong configurations, tokenizers and weights, through the binary: the promised error and exit
// status, before anything is computed.
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/binary.h"
#include "e2e/checkpoint.h"
#include "paths.h"

namespace baltoro {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::Outcome;
using testing::run_baltoro;

struct WrongFile {
  const char* name;
  std::function<void(const fs::path&)> damage;
  const char* message;
};

void expect_bad_model(const Outcome& outcome, const std::string& message) {
  EXPECT_EQ(outcome.status, 3) << outcome.err;
  EXPECT_EQ(outcome.err.find("baltoro: error: "), 0u) << outcome.err;
  EXPECT_NE(outcome.err.find(message), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.out, "");
}

WrongFile config(const char* name, std::function<void(json&)> change, const char* message) {
  return {name,
          [change](const fs::path& dir) {
            json document = testing::read_json(dir / "config.json");
            change(document["text_config"]);
            testing::write_file(dir / "config.json", document.dump());
          },
          message};
}

class WrongConfig : public ::testing::TestWithParam<WrongFile> {};

TEST_P(WrongConfig, IsRefusedByInspectAndByRun) {
  const testing::TempDir temp;
  fs::copy(testing::fixture("k3"), temp.path() / "m");
  GetParam().damage(temp.path() / "m");
  const std::string dir = (temp.path() / "m").string();
  expect_bad_model(run_baltoro({"inspect", dir}), GetParam().message);
  expect_bad_model(run_baltoro({"run", dir, "--ids", "1"}), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Cli, WrongConfig,
    ::testing::Values(
        config(
            "missing_key", [](json& c) { c.erase("hidden_size"); }, "hidden_size"),
        config(
            "missing_keys_in_one_message",
            [](json& c) {
              c.erase("kv_lora_rank");
              c.erase("rms_norm_eps");
            },
            "rms_norm_eps"),
        config(
            "wrong_type", [](json& c) { c["hidden_size"] = "64"; }, "hidden_size"),
        config(
            "negative", [](json& c) { c["num_hidden_layers"] = -1; }, "num_hidden_layers"),
        config(
            "top_k_above_the_experts", [](json& c) { c["num_experts_per_token"] = 9999; },
            "num_experts_per_token"),
        config(
            "two_names_two_values",
            [](json& c) { c["num_experts_per_tok"] = c["num_experts_per_token"].get<int>() + 1; },
            "num_experts_per_tok"),
        config(
            "layer_in_both_lists",
            [](json& c) {
              json& lists = c["linear_attn_config"];
              lists["full_attn_layers"].push_back(lists["kda_layers"][0]);
            },
            "kda_layers"),
        config(
            "layer_in_no_list", [](json& c) { c["linear_attn_config"]["kda_layers"].erase(0); },
            "kda_layers"),
        config(
            "layer_zero", [](json& c) { c["linear_attn_config"]["kda_layers"][0] = 0; },
            "kda_layers"),
        config(
            "gate_bound_out_of_range",
            [](json& c) { c["linear_attn_config"]["gate_lower_bound"] = 1.0; }, "gate_lower_bound"),
        config(
            "unknown_key_of_ours", [](json& c) { c["baltoro"]["speed"] = 1; }, "speed"),
        WrongFile{"no_json",
                  [](const fs::path& dir) { testing::write_file(dir / "config.json", "{\"a\": "); },
                  "line 1"},
        WrongFile{"repeated_key",
                  [](const fs::path& dir) {
                    testing::write_file(dir / "config.json", "{\"a\": 1, \"a\": 2}");
                  },
                  "\"a\""}),
    [](const auto& test) { return test.param.name; });

class WrongTokenizer : public ::testing::TestWithParam<WrongFile> {};

TEST_P(WrongTokenizer, IsRefused) {
  const testing::TempDir temp;
  fs::copy(test_data_dir() / "tokenizer", temp.path() / "m");
  GetParam().damage(temp.path() / "m");
  expect_bad_model(run_baltoro({"tokenize", (temp.path() / "m").string(), "text"}),
                   GetParam().message);
}

WrongFile ranks(const char* name, std::function<void(std::string&)> change, const char* message) {
  return {name,
          [change](const fs::path& dir) {
            std::string text = testing::read_file(dir / "tiktoken.model");
            change(text);
            testing::write_file(dir / "tiktoken.model", text);
          },
          message};
}

WrongFile specials(const char* name, std::function<void(json&)> change, const char* message) {
  return {name,
          [change](const fs::path& dir) {
            json document = testing::read_json(dir / "tokenizer_config.json");
            change(document);
            testing::write_file(dir / "tokenizer_config.json", document.dump());
          },
          message};
}

// The position after the given number of lines.
std::size_t line(const std::string& text, int number) {
  std::size_t at = 0;
  for (int i = 0; i < number; ++i) at = text.find('\n', at) + 1;
  return at;
}

INSTANTIATE_TEST_SUITE_P(
    Cli, WrongTokenizer,
    ::testing::Values(
        ranks(
            "empty", [](std::string& ranks_text) { ranks_text.clear(); }, "tiktoken.model"),
        ranks(
            "no_base64",
            [](std::string& ranks_text) { ranks_text.insert(line(ranks_text, 5), "?"); }, "6"),
        ranks(
            "no_rank",
            [](std::string& ranks_text) { ranks_text.insert(line(ranks_text, 5), "QUJD\n"); }, "6"),
        ranks(
            "rank_is_no_number",
            [](std::string& ranks_text) { ranks_text.insert(line(ranks_text, 5), "QUJD x\n"); },
            "6"),
        ranks(
            "token_twice",
            [](std::string& ranks_text) {
              ranks_text += ranks_text.substr(0, ranks_text.find(' ')) + " 4064\n";
            },
            "tiktoken.model"),
        ranks(
            "rank_twice", [](std::string& ranks_text) { ranks_text += "QUJDREVGR0hJSks= 5\n"; },
            "5"),
        ranks(
            "gap",
            [](std::string& ranks_text) {
              ranks_text.erase(line(ranks_text, 1000),
                               line(ranks_text, 1001) - line(ranks_text, 1000));
            },
            "1000"),
        ranks(
            "truncated", [](std::string& ranks_text) { ranks_text.resize(line(ranks_text, 2000)); },
            "tiktoken.model"),
        specials(
            "no_specials", [](json& c) { c.erase("added_tokens_decoder"); },
            "added_tokens_decoder"),
        specials(
            "id_is_no_number",
            [](json& c) {
              c["added_tokens_decoder"]["x1"] = {{"content", "<x>"}};
            },
            "x1"),
        specials(
            "id_of_a_rank",
            [](json& c) {
              c["added_tokens_decoder"]["17"] = {{"content", "<x>"}};
            },
            "17"),
        specials(
            "name_twice",
            [](json& c) {
              c["added_tokens_decoder"]["4066"]["content"] =
                  c["added_tokens_decoder"]["4065"]["content"];
            },
            "4066"),
        WrongFile{
            "config_is_no_json",
            [](const fs::path& dir) { testing::write_file(dir / "tokenizer_config.json", "[1,"); },
            "tokenizer_config.json"}),
    [](const auto& test) { return test.param.name; });

class WrongWeights : public ::testing::TestWithParam<WrongFile> {};

TEST_P(WrongWeights, AreRefusedBeforeAnythingIsComputed) {
  const testing::TempDir temp;
  fs::copy(testing::fixture("k3"), temp.path() / "m");
  GetParam().damage(temp.path() / "m");
  expect_bad_model(run_baltoro({"run", (temp.path() / "m").string(), "--ids", "1"}),
                   GetParam().message);
}

WrongFile weights(const char* name, std::function<void(std::string&)> change, const char* message) {
  return {name,
          [change](const fs::path& dir) {
            std::string bytes = testing::read_file(dir / "model.safetensors");
            change(bytes);
            testing::write_file(dir / "model.safetensors", bytes);
          },
          message};
}

void replace(std::string& text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
}

INSTANTIATE_TEST_SUITE_P(
    Cli, WrongWeights,
    ::testing::Values(
        weights(
            "truncated", [](std::string& b) { b.resize(b.size() / 2); }, "model.safetensors"),
        weights(
            "absurd_header", [](std::string& b) { b[6] = '\x7f'; }, "model.safetensors"),
        weights(
            "unknown_dtype", [](std::string& b) { replace(b, "\"BF16\"", "\"BF99\""); }, "BF99"),
        weights(
            "renamed_tensor",
            [](std::string& b) { replace(b, "embed_tokens.weight", "embed_tokenz.weight"); },
            "embed_tokens.weight"),
        weights(
            "no_header", [](std::string& b) { b.resize(4); }, "model.safetensors"),
        config(
            "another_width",
            [](json& c) { c["intermediate_size"] = c["intermediate_size"].get<int>() + 32; },
            "expected")),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace baltoro
