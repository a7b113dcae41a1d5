// Vocabularies for the tests of the text layer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "baltoro/tokenizer.h"
#include "paths.h"
#include "text/rank_file.h"
#include "text/tokenizer_parts.h"

namespace baltoro {

inline std::string read_test_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::filesystem::path committed_tokenizer_dir() { return test_data_dir() / "tokenizer"; }

// The committed vocabulary: 4,064 ranks and 32 special ids.
inline Tokenizer committed_tokenizer() { return Tokenizer::load(committed_tokenizer_dir()); }

inline std::string to_base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t bits = 0;
    for (std::size_t j = i; j < i + 3; ++j) {
      bits = bits << 8 | (j < bytes.size() ? static_cast<unsigned char>(bytes[j]) : 0u);
    }
    for (int shift = 18; shift >= 0; shift -= 6) out += kDigits[bits >> shift & 63];
    if (i + 1 >= bytes.size()) out[out.size() - 2] = '=';
    if (i + 2 >= bytes.size()) out.back() = '=';
  }
  return out;
}

// The 256 single bytes, rank = byte, followed by `merged`.
inline std::vector<std::string> byte_tokens_and(std::vector<std::string> merged) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  for (std::string& token : merged) tokens.push_back(std::move(token));
  return tokens;
}

inline std::string rank_file_text(const std::vector<std::string>& tokens) {
  std::string text;
  for (std::size_t rank = 0; rank < tokens.size(); ++rank) {
    text += to_base64(tokens[rank]) + " " + std::to_string(rank) + "\n";
  }
  return text;
}

inline Vocabulary make_vocabulary(const std::vector<std::string>& tokens) {
  return parse_rank_file(rank_file_text(tokens), "test ranks");
}

// A tokenizer of `tokens` with the special tokens `names` behind them.
inline Tokenizer make_tokenizer(const std::vector<std::string>& tokens,
                                const std::vector<std::string>& names) {
  std::vector<SpecialToken> specials;
  for (const std::string& name : names) {
    specials.push_back({static_cast<TokenId>(tokens.size() + specials.size()), name});
  }
  return Tokenizer(std::make_shared<const Tokenizer::Parts>(Tokenizer::Parts{
      make_vocabulary(tokens),
      SpecialTokens(std::move(specials), static_cast<TokenId>(tokens.size()), "test specials"),
      PreTokenizer(kKimiPattern)}));
}

}  // namespace baltoro
