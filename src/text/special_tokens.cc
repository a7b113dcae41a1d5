#include "text/special_tokens.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <utility>

#include "core/error.h"
#include "io/json_file.h"

namespace baltoro {
namespace {

// Far above the 256 of the released models; bounds the block that a hostile file can ask for.
constexpr TokenId kMaxBlock = 1 << 16;

constexpr std::string_view kReservedPrefix = "<|reserved_token_";
constexpr std::string_view kReservedSuffix = "|>";
constexpr std::string_view kRemedy = "fetch the checkpoint's tokenizer_config.json again";

std::string reserved_name(TokenId id) {
  return fmt::format("{}{}{}", kReservedPrefix, id, kReservedSuffix);
}

JsonDocument parse_file(std::string_view text, std::string_view file) {
  try {
    return parse_json(text, std::string(file));
  } catch (const Error& error) {
    fail(error.code(), "{}; {}", error.what(), kRemedy);
  }
}

TokenId parse_id(const std::string& key, std::string_view file) {
  TokenId id = 0;
  const char* end = key.data() + key.size();
  const auto [stop, code] = std::from_chars(key.data(), end, id);
  if (code != std::errc() || stop != end || std::to_string(id) != key || id < 0) {
    fail(ErrorCode::kBadModel, "{}: added_tokens_decoder: key \"{}\" is no token id; {}", file, key,
         kRemedy);
  }
  return id;
}

}  // namespace

SpecialTokens::SpecialTokens(std::vector<SpecialToken> entries, TokenId first_id,
                             std::string_view file)
    : first_id_(first_id) {
  std::sort(entries.begin(), entries.end(),
            [](const SpecialToken& a, const SpecialToken& b) { return a.id < b.id; });
  if (entries.empty() || entries.front().id != first_id ||
      entries.back().id - first_id >= kMaxBlock) {
    fail(ErrorCode::kBadModel,
         "{}: the special tokens have ids {} to {}, expected ids from {} (one behind the highest "
         "rank of tiktoken.model) to {} at most; the two files do not belong together or "
         "tiktoken.model is truncated: fetch both again",
         file, entries.empty() ? -1 : entries.front().id, entries.empty() ? -1 : entries.back().id,
         first_id, first_id + kMaxBlock - 1);
  }
  names_.resize(static_cast<std::size_t>(entries.back().id - first_id) + 1);
  for (SpecialToken& entry : entries) {
    std::string& name = names_[static_cast<std::size_t>(entry.id - first_id)];
    if (entry.name.empty() || !name.empty()) {
      fail(ErrorCode::kBadModel, "{}: special token {}: {}; {}", file, entry.id,
           entry.name.empty() ? "its string is empty" : "the id is given twice", kRemedy);
    }
    name = std::move(entry.name);
  }
  index_names(file);
}

void SpecialTokens::index_names(std::string_view file) {
  for (std::size_t slot = 0; slot < names_.size(); ++slot) {
    const TokenId id = first_id_ + static_cast<TokenId>(slot);
    if (names_[slot].empty()) names_[slot] = reserved_name(id);
    const std::string& name = names_[slot];
    const auto [earlier, added] = ids_.emplace(name, id);
    if (!added) {
      fail(ErrorCode::kBadModel, "{}: special tokens {} and {} have the same string \"{}\"; {}",
           file, earlier->second, id, name, kRemedy);
    }
    if (first_bytes_.find(name[0]) == std::string::npos) first_bytes_ += name[0];
    lengths_.push_back(name.size());
  }
  std::sort(lengths_.begin(), lengths_.end(), std::greater<>());
  lengths_.erase(std::unique(lengths_.begin(), lengths_.end()), lengths_.end());
}

std::optional<TokenId> SpecialTokens::find(std::string_view name) const {
  const auto found = ids_.find(name);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

bool SpecialTokens::is_reserved(TokenId id) const {
  if (!contains(id)) return false;
  const std::string_view text = name(id);
  if (!text.starts_with(kReservedPrefix) || !text.ends_with(kReservedSuffix)) return false;
  const std::size_t affixes = kReservedPrefix.size() + kReservedSuffix.size();
  if (text.size() <= affixes) return false;
  const std::string_view digits = text.substr(kReservedPrefix.size(), text.size() - affixes);
  return digits.find_first_not_of("0123456789") == std::string_view::npos;
}

std::optional<SpecialMatch> SpecialTokens::next_match(std::string_view text,
                                                      std::size_t from) const {
  for (std::size_t begin = text.find_first_of(first_bytes_, from); begin != text.npos;
       begin = text.find_first_of(first_bytes_, begin + 1)) {
    const std::string_view rest = text.substr(begin);
    for (const std::size_t length : lengths_) {
      if (length > rest.size()) continue;
      if (const auto id = find(rest.substr(0, length))) return SpecialMatch{begin, length, *id};
    }
  }
  return std::nullopt;
}

SpecialTokens parse_special_tokens(std::string_view json, TokenId first_id, std::string_view file) {
  const JsonDocument config = parse_file(json, file);
  const auto decoder = config->find("added_tokens_decoder");
  if (decoder == config->end() || !decoder->is_object() || decoder->empty()) {
    fail(ErrorCode::kBadModel,
         "{}: added_tokens_decoder: expected an object of special tokens, found {}; {}", file,
         decoder == config->end() ? "nothing" : decoder->type_name(), kRemedy);
  }
  std::vector<SpecialToken> entries;
  for (const auto& [key, value] : decoder->items()) {
    const TokenId id = parse_id(key, file);
    const auto content = value.find("content");
    if (content == value.end() || !content->is_string()) {
      fail(ErrorCode::kBadModel, "{}: added_tokens_decoder[\"{}\"]: no string \"content\"; {}",
           file, key, kRemedy);
    }
    entries.push_back({id, content->get<std::string>()});
  }
  return SpecialTokens(std::move(entries), first_id, file);
}

}  // namespace baltoro
