#include "model/synth_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "io/output_file.h"

namespace baltoro {
namespace {

constexpr std::int64_t kMinSpecials = 16;

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      group = (group << 8) | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0u);
    }
    for (std::size_t j = 0; j < 4; ++j) {
      const bool padding = i + j > bytes.size();
      text += padding ? '=' : kDigits[(group >> (18 - 6 * j)) & 63u];
    }
  }
  return text;
}

// All bytes, then words of 2 to 5 letters, each a join of earlier tokens, `count` in all (less
// where the words run out).
std::vector<std::string> make_vocabulary(std::size_t count) {
  constexpr std::string_view kLetters = "etaoinshrdlucmfwypvbgkjqxz";
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  std::vector<std::string> stems = {" "};
  for (char letter : kLetters) stems.emplace_back(1, letter);
  while (tokens.size() < count && stems.front().size() < 5) {
    std::vector<std::string> words;
    for (const std::string& stem : stems) {
      for (char letter : kLetters) words.push_back(stem + letter);
    }
    const std::size_t room = count - tokens.size();
    tokens.insert(tokens.end(), words.begin(),
                  words.begin() + static_cast<std::ptrdiff_t>(std::min(room, words.size())));
    stems = std::move(words);
  }
  return tokens;
}

// Names by distance from bos_token_id, as released (specification 8.2).
std::map<std::int64_t, std::string> special_names(bool k3, std::int64_t count) {
  std::map<std::int64_t, std::string> names = {{0, "[BOS]"}, {1, "[EOS]"}};
  if (k3) {
    names.insert({{2, "<|end_of_msg|>"}, {3, "<|open|>"}, {4, "<|close|>"}, {5, "<|sep|>"}});
  } else {
    names.insert({{2, "<|im_end|>"}, {3, "<|im_user|>"}, {4, "<|im_assistant|>"}});
    if (count > 20) names.insert({{10, "<|im_system|>"}, {17, "<|im_middle|>"}});
  }
  names[count - 2] = "[UNK]";
  names[count - 1] = "[PAD]";
  return names;
}

}  // namespace

bool write_synth_tokenizer(const ModelConfig& config, const std::filesystem::path& dir) {
  const std::int64_t room = config.vocab_size - kMinSpecials;
  const std::int64_t first = std::min(config.bos_token_id.value_or(room), room);
  if (first < 256) return false;
  const std::vector<std::string> tokens = make_vocabulary(static_cast<std::size_t>(first));
  if (static_cast<std::int64_t>(tokens.size()) < first) return false;

  std::string ranks;
  for (std::size_t rank = 0; rank < tokens.size(); ++rank) {
    ranks += fmt::format("{} {}\n", base64(tokens[rank]), rank);
  }
  const std::int64_t count = config.vocab_size - first;
  const auto names = special_names(config.layout.nested, count);
  nlohmann::ordered_json decoder = nlohmann::ordered_json::object();
  for (std::int64_t i = 0; i < count; ++i) {
    const auto named = names.find(i);
    const std::string content =
        named != names.end() ? named->second : fmt::format("<|reserved_token_{}|>", first + i);
    decoder[std::to_string(first + i)] = {{"content", content}, {"special", true}};
  }
  const nlohmann::ordered_json tokenizer = {{"tokenizer_class", "TikTokenTokenizer"},
                                            {"bos_token", "[BOS]"},
                                            {"eos_token", "[EOS]"},
                                            {"pad_token", "[PAD]"},
                                            {"unk_token", "[UNK]"},
                                            {"added_tokens_decoder", decoder}};
  const nlohmann::ordered_json generation = {
      {"temperature", 1.0},
      {"top_p", 0.95},
      {"eos_token_id", config.eos_token_id.value_or(first + 2)}};
  write_text_file(dir / "tiktoken.model", ranks);
  write_text_file(dir / "tokenizer_config.json", tokenizer.dump(1) + "\n");
  write_text_file(dir / "generation_config.json", generation.dump(1) + "\n");
  return true;
}

}  // namespace baltoro
