#include "baltoro/tokenizer.h"

#include <utility>

#include "core/directory.h"
#include "core/error.h"
#include "io/file_reader.h"
#include "text/bpe.h"
#include "text/rank_file.h"
#include "text/tokenizer_parts.h"

namespace baltoro {
namespace {

// Those of the released models have 3 MB.
constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 28;

std::string read_file(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    fail(ErrorCode::kBadModel,
         "{}: no such file; the folder of a checkpoint holds tiktoken.model and "
         "tokenizer_config.json: check the path or fetch the missing file",
         path.string());
  }
  return read_text_file(path, kMaxFileBytes);
}

// Encodes texts one after another with shared working memory.
class Encoder {
 public:
  explicit Encoder(const Tokenizer::Parts& parts) : parts_(parts) {}

  void encode_text(std::string_view text) {
    ends_.clear();
    parts_.pre_tokenizer.split(text, ends_);
    std::size_t begin = 0;
    for (const std::size_t end : ends_) {
      encode_piece(parts_.vocabulary, text.substr(begin, end - begin), scratch_, ids_);
      begin = end;
    }
  }

  void encode_with_specials(std::string_view text) {
    std::size_t pos = 0;
    while (const auto match = parts_.specials.next_match(text, pos)) {
      encode_text(text.substr(pos, match->begin - pos));
      ids_.push_back(match->id);
      pos = match->begin + match->bytes;
    }
    encode_text(text.substr(pos));
  }

  std::vector<TokenId> take_ids() { return std::move(ids_); }

 private:
  const Tokenizer::Parts& parts_;
  BpeScratch scratch_;
  std::vector<std::size_t> ends_;
  std::vector<TokenId> ids_;
};

}  // namespace

Tokenizer::Tokenizer(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {
  BALTORO_CHECK(parts_->specials.first_id() == static_cast<TokenId>(parts_->vocabulary.size()),
                "special ids begin at {}, ranks end at {}", parts_->specials.first_id(),
                parts_->vocabulary.size());
}

Tokenizer Tokenizer::load(const std::filesystem::path& given) {
  const std::filesystem::path dir = without_end_slash(given);
  const std::filesystem::path ranks = dir / "tiktoken.model";
  const std::filesystem::path config = dir / "tokenizer_config.json";
  Vocabulary vocabulary = parse_rank_file(read_file(ranks), ranks.string());
  SpecialTokens specials = parse_special_tokens(
      read_file(config), static_cast<TokenId>(vocabulary.size()), config.string());
  return Tokenizer(std::make_shared<const Parts>(
      Parts{std::move(vocabulary), std::move(specials), PreTokenizer(kKimiPattern)}));
}

std::vector<TokenId> Tokenizer::encode(std::string_view text) const {
  Encoder encoder(*parts_);
  for (const std::string_view slice : cut_slices(text, parts_->slice_limits)) {
    encoder.encode_text(slice);
  }
  return encoder.take_ids();
}

std::vector<TokenId> Tokenizer::encode_control(std::string_view text) const {
  Encoder encoder(*parts_);
  for (const std::string_view slice : cut_slices(text, parts_->slice_limits)) {
    encoder.encode_with_specials(slice);
  }
  return encoder.take_ids();
}

std::optional<TokenId> Tokenizer::special_id(std::string_view name) const {
  return parts_->specials.find(name);
}

bool Tokenizer::is_special(TokenId id) const noexcept { return parts_->specials.contains(id); }

bool Tokenizer::is_reserved(TokenId id) const noexcept { return parts_->specials.is_reserved(id); }

std::string_view Tokenizer::token_bytes(TokenId id) const {
  if (id < 0 || id >= vocab_size()) {
    fail(ErrorCode::kUsage,
         "token id {}: the vocabulary holds ids 0 to {}; the ids belong to another model", id,
         vocab_size() - 1);
  }
  return is_special(id) ? parts_->specials.name(id) : parts_->vocabulary.token(id);
}

std::string Tokenizer::decode(std::span<const TokenId> ids) const {
  std::string text;
  for (const TokenId id : ids) text += token_bytes(id);
  return text;
}

int Tokenizer::num_ranks() const noexcept { return static_cast<int>(parts_->vocabulary.size()); }

int Tokenizer::vocab_size() const noexcept { return parts_->specials.end_id(); }

}  // namespace baltoro
