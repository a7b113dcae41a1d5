#include "text/json_print.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <system_error>
#include <utility>
#include <vector>

namespace baltoro {
namespace {

// The decimal exponent of the number's first digit that is not 0; only its sign is used. An
// exponent that overflows an int decides by itself.
bool is_huge(std::string_view number) {
  const std::size_t e = number.find_first_of("eE");
  const std::string_view mantissa = number.substr(0, e);
  long exponent = 0;
  if (e != std::string_view::npos) {
    std::string_view digits = number.substr(e + 1);
    const bool negative = digits[0] == '-';
    if (digits[0] == '+' || negative) digits.remove_prefix(1);
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
    if (read.ec != std::errc()) return !negative;
    if (negative) exponent = -exponent;
  }
  const std::size_t point = std::min(mantissa.find('.'), mantissa.size());
  const std::size_t first = mantissa.find_first_of("123456789");
  return exponent + static_cast<long>(point) - static_cast<long>(first) > 0;
}

// Lays out digits d1 d2 ... times 10^exponent of the first as Python's repr does.
std::string lay_out(std::string_view digits, int exponent) {
  if (exponent < -4 || exponent >= 16) {
    std::string out(digits.substr(0, 1));
    if (digits.size() > 1) out.append(".").append(digits.substr(1));
    return fmt::format("{}e{}{:02}", out, exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) {
    return fmt::format("0.{}{}", std::string(static_cast<std::size_t>(-exponent - 1), '0'), digits);
  }
  const std::size_t whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() <= whole) {
    return fmt::format("{}{}.0", digits, std::string(whole - digits.size(), '0'));
  }
  return fmt::format("{}.{}", digits.substr(0, whole), digits.substr(whole));
}

std::string print_double(std::string_view number) {
  const bool negative = number[0] == '-';
  const std::string_view magnitude = number.substr(negative ? 1 : 0);
  const std::string sign = negative ? "-" : "";
  double value = 0;
  const auto read = std::from_chars(magnitude.data(), magnitude.data() + magnitude.size(), value);
  if (read.ec == std::errc::result_out_of_range) {
    if (is_huge(magnitude)) return sign + "Infinity";
    value = 0;
  }
  if (value == 0) return sign + "0.0";
  std::array<char, 32> buffer;
  const auto written = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                     std::chars_format::scientific);
  const std::string_view text(buffer.data(), written.ptr);
  const std::size_t e = text.find('e');
  int exponent = 0;
  const char* exponent_begin = text.data() + e + (text[e + 1] == '+' ? 2 : 1);
  std::from_chars(exponent_begin, text.data() + text.size(), exponent);
  std::string digits(text.substr(0, 1));
  if (e > 1) digits += text.substr(2, e - 2);
  return sign + lay_out(digits, exponent);
}

std::string print_number(std::string_view number) {
  if (number.find_first_of(".eE") != std::string_view::npos) return print_double(number);
  return number == "-0" ? "0" : std::string(number);
}

class Printer {
 public:
  explicit Printer(JsonStyle style)
      : sorted_(style == JsonStyle::kSortedCompact),
        comma_(sorted_ ? "," : ", "),
        colon_(sorted_ ? ":" : ": ") {}

  void print(const JsonValue& value) {
    switch (value.kind) {
      case JsonValue::Kind::kNull:
      case JsonValue::Kind::kBoolean:
        out_ += value.text;
        break;
      case JsonValue::Kind::kNumber:
        out_ += print_number(value.text);
        break;
      case JsonValue::Kind::kString:
        out_ += quote_json(value.text);
        break;
      case JsonValue::Kind::kArray:
        print_array(value);
        break;
      case JsonValue::Kind::kObject:
        print_object(value);
        break;
    }
  }

  std::string take() { return std::move(out_); }

 private:
  void print_array(const JsonValue& value) {
    out_ += '[';
    for (const JsonValue& item : value.items) {
      if (&item != value.items.data()) out_ += comma_;
      print(item);
    }
    out_ += ']';
  }

  void print_object(const JsonValue& value) {
    std::vector<const JsonMember*> members;
    for (const JsonMember& member : value.members) members.push_back(&member);
    if (sorted_) {
      std::sort(members.begin(), members.end(),
                [](const JsonMember* a, const JsonMember* b) { return a->key < b->key; });
    }
    out_ += '{';
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (i > 0) out_ += comma_;
      out_ += quote_json(members[i]->key);
      out_ += colon_;
      print(members[i]->value);
    }
    out_ += '}';
  }

  bool sorted_;
  std::string_view comma_;
  std::string_view colon_;
  std::string out_;
};

}  // namespace

std::string print_json(const JsonValue& value, JsonStyle style) {
  Printer printer(style);
  printer.print(value);
  return printer.take();
}

std::string quote_json(std::string_view text) { return '"' + escape_json(text) + '"'; }

std::string escape_json(std::string_view text) {
  constexpr std::string_view kCharacters = "\"\\\b\f\n\r\t";
  constexpr std::string_view kNames = "\"\\bfnrt";
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const std::size_t idx = kCharacters.find(c);
    if (idx != std::string_view::npos) {
      out += '\\';
      out += kNames[idx];
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace baltoro
