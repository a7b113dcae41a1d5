#include "text/rank_file.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"

namespace baltoro {
namespace {

// Far above any vocabulary (K3: 163,584); keeps ids far inside 32 bits.
constexpr std::uint32_t kMaxRanks = 1u << 24;

constexpr std::string_view kRemedy = "fetch the checkpoint's tiktoken.model again";

struct RankLine {
  std::string bytes;
  std::uint32_t rank = 0;
  std::size_t number = 0;  // 1-based
};

int base64_value(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  return c == '/' ? 63 : -1;
}

// Strict RFC 4648: padded, no other characters, no stray bits in the last digit.
bool decode_base64(std::string_view text, std::string& out) {
  if (text.empty() || text.size() % 4 != 0) return false;
  std::size_t digits = text.size();
  while (digits > text.size() - 2 && text[digits - 1] == '=') --digits;
  std::uint32_t bits = 0;
  int num_bits = 0;
  for (std::size_t i = 0; i < digits; ++i) {
    const int value = base64_value(text[i]);
    if (value < 0) return false;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    num_bits += 6;
    if (num_bits < 8) continue;
    num_bits -= 8;
    out += static_cast<char>(bits >> num_bits & 0xFF);
  }
  return (bits & ((1u << num_bits) - 1)) == 0;
}

class RankFileParser {
 public:
  RankFileParser(std::string_view text, std::string_view file) : text_(text), file_(file) {}

  Vocabulary parse() {
    read_lines();
    sort_by_rank();
    Vocabulary vocabulary = build();
    check_single_bytes(vocabulary);
    return vocabulary;
  }

 private:
  void read_lines() {
    std::size_t number = 0;
    for (std::size_t begin = 0; begin < text_.size();) {
      const std::size_t end = std::min(text_.find('\n', begin), text_.size());
      std::string_view line = text_.substr(begin, end - begin);
      begin = end + 1;
      ++number;
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (!line.empty()) read_line(line, number);
    }
    if (lines_.empty()) {
      fail(ErrorCode::kBadModel, "{}: no token in the file; {}", file_, kRemedy);
    }
  }

  void read_line(std::string_view line, std::size_t number) {
    const std::size_t space = line.find(' ');
    RankLine entry{.bytes = {}, .rank = 0, .number = number};
    if (space == line.npos || !decode_base64(line.substr(0, space), entry.bytes)) {
      fail(ErrorCode::kBadModel, "{}:{}: expected \"base64 rank\", found \"{}\"; {}", file_, number,
           excerpt(line), kRemedy);
    }
    entry.rank = read_rank(line.substr(space + 1), number);
    num_bytes_ += entry.bytes.size();
    lines_.push_back(std::move(entry));
  }

  std::uint32_t read_rank(std::string_view digits, std::size_t number) const {
    std::uint32_t rank = 0;
    const char* end = digits.data() + digits.size();
    const auto [stop, code] = std::from_chars(digits.data(), end, rank);
    if (code != std::errc() || stop != end || rank >= kMaxRanks) {
      fail(ErrorCode::kBadModel, "{}:{}: rank \"{}\" is no integer in [0, {}); {}", file_, number,
           excerpt(digits), kMaxRanks, kRemedy);
    }
    return rank;
  }

  void sort_by_rank() {
    std::stable_sort(lines_.begin(), lines_.end(),
                     [](const RankLine& a, const RankLine& b) { return a.rank < b.rank; });
    for (std::size_t rank = 0; rank < lines_.size(); ++rank) {
      const RankLine& line = lines_[rank];
      if (line.rank < rank) {
        fail(ErrorCode::kBadModel, "{}:{}: rank {} was given on line {} already; {}", file_,
             line.number, line.rank, lines_[rank - 1].number, kRemedy);
      }
      if (line.rank > rank) {
        fail(ErrorCode::kBadModel, "{}: rank {} is missing ({} tokens, highest rank {}); {}", file_,
             rank, lines_.size(), lines_.back().rank, kRemedy);
      }
    }
  }

  Vocabulary build() const {
    Vocabulary vocabulary(lines_.size(), num_bytes_);
    for (const RankLine& line : lines_) {
      const auto earlier = vocabulary.add(line.bytes);
      if (!earlier) continue;
      fail(ErrorCode::kBadModel, "{}:{}: the token of rank {} is that of rank {} (line {}); {}",
           file_, line.number, line.rank, *earlier,
           lines_[static_cast<std::size_t>(*earlier)].number, kRemedy);
    }
    return vocabulary;
  }

  void check_single_bytes(const Vocabulary& vocabulary) const {
    for (int byte = 0; byte < 256; ++byte) {
      const char c = static_cast<char>(byte);
      if (vocabulary.find({&c, 1}) != Vocabulary::kAbsent) continue;
      fail(ErrorCode::kBadModel,
           "{}: no token for the single byte 0x{:02X}, all 256 are needed to encode any text; {}",
           file_, byte, kRemedy);
    }
  }

  // At most 40 printable characters of what the file holds, for a message.
  static std::string excerpt(std::string_view found) {
    std::string shown(found.substr(0, 40));
    for (char& c : shown) {
      if (c < ' ' || c > '~') c = '?';
    }
    return found.size() > 40 ? shown + "..." : shown;
  }

  std::string_view text_;
  std::string_view file_;
  std::vector<RankLine> lines_;
  std::size_t num_bytes_ = 0;
};

}  // namespace

Vocabulary parse_rank_file(std::string_view text, std::string_view file) {
  return RankFileParser(text, file).parse();
}

}  // namespace baltoro
