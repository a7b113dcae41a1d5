#include "text/json_value.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>

#include "core/error.h"
#include "text/utf8.h"

namespace baltoro {
namespace {

// Recursion ends here; deeper texts are refused, not followed to the end of the stack.
constexpr int kMaxDepth = 256;

// A value takes some fifty times the bytes of its shortest text, so that a short text could fill the
// memory. The longest prompt of token ids has half as many.
constexpr std::int64_t kMaxValues = std::int64_t{1} << 21;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

void append_utf8(std::string& out, char32_t c) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | ((c >> shift) & 0x3F)); };
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | (c >> 6));
    tail(0);
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | (c >> 12));
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xF0 | (c >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

// Keeps the first place and the last value of each key.
void merge_equal_keys(std::vector<JsonMember>& members) {
  std::unordered_map<std::string_view, std::size_t> first;
  std::vector<std::size_t> last(members.size());
  bool repeated = false;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const auto [it, inserted] = first.emplace(members[i].key, i);
    last[it->second] = i;
    repeated |= !inserted;
  }
  if (!repeated) return;
  std::vector<JsonMember> merged;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (first.at(members[i].key) != i) continue;
    merged.push_back({members[i].key, std::move(members[last[i]].value)});
  }
  members = std::move(merged);
}

enum class Mode { kStrict, kLenient };

class JsonReader {
 public:
  JsonReader(std::string_view text, Mode mode) : text_(text), mode_(mode) {}

  bool whole(JsonValue& out) {
    if (mode_ == Mode::kStrict && !is_utf8()) return false;
    if (!value(out, 0)) return false;
    skip_space();
    return pos_ == text_.size() || refuse("text after the end of the value");
  }

  bool leading_object(std::vector<JsonMember>& out) {
    skip_space();
    if (peek() != '{') return false;
    JsonValue object;
    if (!members(object, 0)) return false;
    out = std::move(object.members);
    return true;
  }

  std::string where() const {
    const std::string_view before = text_.substr(0, pos_);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const std::size_t newline = before.rfind('\n');
    const std::size_t column = newline == std::string_view::npos ? pos_ + 1 : pos_ - newline;
    return fmt::format("line {}, column {}: {}", line, column, error_);
  }

 private:
  bool refuse(std::string_view error) {
    error_ = error;
    return false;
  }

  bool is_utf8() {
    const std::size_t valid = valid_utf8_prefix(text_);
    if (valid == text_.size()) return true;
    pos_ = valid;
    return refuse("the bytes are not UTF-8");
  }

  char peek() const { return pos_ < text_.size() ? text_[pos_] : '\0'; }

  bool take(char c) {
    if (pos_ == text_.size() || text_[pos_] != c) return false;
    ++pos_;
    return true;
  }

  void skip_space() {
    while (pos_ < text_.size() && is_space(text_[pos_])) ++pos_;
  }

  bool value(JsonValue& out, int depth) {
    skip_space();
    if (depth > kMaxDepth) return refuse("nested deeper than 256 levels");
    if (++num_values_ > kMaxValues) return refuse("more than 2097152 values");
    const std::size_t begin = pos_;
    if (!unplaced_value(out, depth)) return false;
    out.source = text_.substr(begin, pos_ - begin);
    return true;
  }

  bool unplaced_value(JsonValue& out, int depth) {
    switch (peek()) {
      case '{':
        if (!members(out, depth)) return false;
        if (mode_ == Mode::kStrict) merge_equal_keys(out.members);
        return true;
      case '[':
        return items(out, depth);
      case '"':
        out.kind = JsonValue::Kind::kString;
        return string(out.text);
      case 't':
        return word(out, "true", JsonValue::Kind::kBoolean);
      case 'f':
        return word(out, "false", JsonValue::Kind::kBoolean);
      case 'n':
        return word(out, "null", JsonValue::Kind::kNull);
      default:
        return number(out);
    }
  }

  bool word(JsonValue& out, std::string_view word, JsonValue::Kind kind) {
    if (text_.substr(pos_, word.size()) != word) return refuse("expected a value");
    pos_ += word.size();
    out.kind = kind;
    out.text = word;
    return true;
  }

  std::size_t digits() {
    const std::size_t begin = pos_;
    while (is_digit(peek())) ++pos_;
    return pos_ - begin;
  }

  bool number(JsonValue& out) {
    const std::size_t begin = pos_;
    take('-');
    if (!take('0') && digits() == 0) return refuse("expected a value");
    if (take('.') && digits() == 0) return refuse("expected a digit after the point");
    if (take('e') || take('E')) {
      if (!take('+')) take('-');
      if (digits() == 0) return refuse("expected a digit in the exponent");
    }
    out.kind = JsonValue::Kind::kNumber;
    out.text = text_.substr(begin, pos_ - begin);
    return true;
  }

  bool items(JsonValue& out, int depth) {
    out.kind = JsonValue::Kind::kArray;
    ++pos_;
    skip_space();
    if (take(']')) return true;
    while (true) {
      if (!value(out.items.emplace_back(), depth + 1)) return false;
      skip_space();
      if (take(']')) return true;
      if (!take(',')) return refuse("expected ',' or ']'");
    }
  }

  bool members(JsonValue& out, int depth) {
    out.kind = JsonValue::Kind::kObject;
    ++pos_;
    skip_space();
    if (take('}')) return true;
    while (true) {
      JsonMember& member = out.members.emplace_back();
      skip_space();
      if (peek() != '"') return refuse("expected a key in double quotes");
      if (!string(member.key)) return false;
      skip_space();
      if (!take(':')) return refuse("expected ':'");
      if (!value(member.value, depth + 1)) return false;
      skip_space();
      if (take('}')) return true;
      if (!take(',')) return refuse("expected ',' or '}'");
    }
  }

  bool string(std::string& out) {
    ++pos_;
    while (pos_ < text_.size()) {
      const char c = text_[pos_];
      if (c == '"') {
        ++pos_;
        return true;
      }
      if (c == '\\') {
        if (!escape(out)) return false;
        continue;
      }
      if (static_cast<unsigned char>(c) < 0x20 && mode_ == Mode::kStrict) {
        return refuse("a control character in a string must be escaped");
      }
      out += c;
      ++pos_;
    }
    return refuse("the string has no end");
  }

  bool escape(std::string& out) {
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kCharacters = "\"\\/\b\f\n\r\t";
    ++pos_;
    if (take('u')) return unicode_escape(out);
    const std::size_t idx = kNames.find(peek());
    if (pos_ == text_.size() || idx == std::string_view::npos) return refuse("unknown escape");
    out += kCharacters[idx];
    ++pos_;
    return true;
  }

  bool hex4(char32_t& out) {
    const std::string_view digits = text_.substr(pos_, 4);
    out = 0;
    for (const char c : digits) {
      const char lower = static_cast<char>(c | 0x20);
      const bool letter = lower >= 'a' && lower <= 'f';
      if (!is_digit(c) && !letter) return refuse("expected four hexadecimal digits");
      out = out * 16 + static_cast<char32_t>(letter ? lower - 'a' + 10 : c - '0');
    }
    if (digits.size() < 4) return refuse("expected four hexadecimal digits");
    pos_ += 4;
    return true;
  }

  bool unicode_escape(std::string& out) {
    char32_t c = 0;
    if (!hex4(c)) return false;
    if (c >= 0xD800 && c < 0xDC00 && text_.substr(pos_, 2) == "\\u") {
      const std::size_t second = pos_;
      char32_t low = 0;
      pos_ += 2;
      if (!hex4(low)) return false;
      if (low >= 0xDC00 && low < 0xE000) {
        append_utf8(out, 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00));
        return true;
      }
      pos_ = second;
    }
    if (c >= 0xD800 && c < 0xE000) {
      if (mode_ == Mode::kStrict) return refuse("half of a surrogate pair");
      c = 0xFFFD;
    }
    append_utf8(out, c);
    return true;
  }

  std::string_view text_;
  Mode mode_;
  std::int64_t num_values_ = 0;
  std::size_t pos_ = 0;
  std::string_view error_;
};

}  // namespace

const JsonValue* JsonValue::find(std::string_view key) const {
  for (const JsonMember& member : members) {
    if (member.key == key) return &member.value;
  }
  return nullptr;
}

std::string_view kind_name(JsonValue::Kind kind) {
  switch (kind) {
    case JsonValue::Kind::kNull:
      return "null";
    case JsonValue::Kind::kBoolean:
      return "a boolean";
    case JsonValue::Kind::kNumber:
      return "a number";
    case JsonValue::Kind::kString:
      return "a string";
    case JsonValue::Kind::kArray:
      return "an array";
    case JsonValue::Kind::kObject:
      return "an object";
  }
  return "unknown";
}

JsonValue parse_json(std::string_view text, std::string_view what) {
  JsonReader reader(text, Mode::kStrict);
  JsonValue value;
  if (!reader.whole(value)) fail(ErrorCode::kUsage, "{}: {}", what, reader.where());
  return value;
}

bool is_json(std::string_view text) {
  JsonValue value;
  return JsonReader(text, Mode::kStrict).whole(value);
}

std::optional<std::vector<JsonMember>> read_leading_object(std::string_view text) {
  std::vector<JsonMember> members;
  if (!JsonReader(text, Mode::kLenient).leading_object(members)) return std::nullopt;
  return members;
}

}  // namespace baltoro
