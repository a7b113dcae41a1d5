#include "cli/calculator.h"

#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <optional>

#include "core/error.h"

namespace baltoro::cli {
namespace {

constexpr int kMaxDepth = 64;

struct Fraction {
  std::int64_t num = 0;
  std::int64_t den = 1;  // > 0, no common factor
};

// Reads and computes in one pass:  sum = product {(+|-) product};  product = factor {(*|/) factor};
// factor = {+|-} (number | "(" sum ")").
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Fraction whole() {
    const Fraction value = sum();
    if (position_ != text_.size()) bad("expected an operator or the end");
    return value;
  }

 private:
  [[noreturn]] void bad(const char* what) const {
    fail(ErrorCode::kUsage, "{} at position {} of \"{}\"", what, position_ + 1, text_);
  }

  void skip_space() {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\t')) {
      ++position_;
    }
  }

  bool take(std::string_view symbol) {
    skip_space();
    if (!text_.substr(position_).starts_with(symbol)) return false;
    position_ += symbol.size();
    skip_space();
    return true;
  }
  bool take_plus() { return take("+"); }
  bool take_minus() { return take("-") || take("\xE2\x88\x92"); }  // U+2212
  bool take_times() { return take("*") || take("\xC3\x97"); }      // U+00D7
  bool take_divide() { return take("/") || take("\xC3\xB7"); }     // U+00F7

  Fraction sum() {
    if (++depth_ > kMaxDepth) bad("too many parentheses");
    Fraction value = product();
    for (;;) {
      if (take_plus()) {
        value = add(value, product());
      } else if (take_minus()) {
        value = add(value, negative(product()));
      } else {
        --depth_;
        return value;
      }
    }
  }

  Fraction product() {
    Fraction value = factor();
    for (;;) {
      if (take_times()) {
        value = multiply(value, factor());
      } else if (take_divide()) {
        const Fraction divisor = factor();
        if (divisor.num == 0) bad("division by zero before");
        value = multiply(value, inverse(divisor));
      } else {
        return value;
      }
    }
  }

  Fraction factor() {
    bool minus = false;
    for (;;) {
      if (take_minus()) {
        minus = !minus;
      } else if (!take_plus()) {
        break;
      }
    }
    Fraction value;
    if (take("(")) {
      value = sum();
      if (!take(")")) bad("expected )");
    } else {
      value = number();
    }
    return minus ? negative(value) : value;
  }

  Fraction number() {
    Fraction value;
    bool any = false, point = false;
    for (; position_ < text_.size(); ++position_) {
      const char c = text_[position_];
      if (c == '.' && !point) {
        point = true;
        continue;
      }
      if (c < '0' || c > '9') break;
      any = true;
      value.num = checked(add64(checked(mul64(value.num, 10)), c - '0'));
      if (point) value.den = checked(mul64(value.den, 10));
    }
    if (!any) bad("expected a number");
    skip_space();
    return reduced(value.num, value.den);
  }

  static std::optional<std::int64_t> add64(std::int64_t a, std::int64_t b) {
    std::int64_t r = 0;
    return __builtin_add_overflow(a, b, &r) ? std::nullopt : std::optional(r);
  }
  static std::optional<std::int64_t> mul64(std::int64_t a, std::int64_t b) {
    std::int64_t r = 0;
    return __builtin_mul_overflow(a, b, &r) ? std::nullopt : std::optional(r);
  }
  std::int64_t checked(std::optional<std::int64_t> value) const {
    // The smallest value has no counterpart: refusing it keeps negation safe.
    if (!value || *value == INT64_MIN) bad("the numbers are too large");
    return *value;
  }

  static Fraction reduced(std::int64_t num, std::int64_t den) {
    const std::int64_t divisor = std::gcd(num, den);
    return {num / divisor, den / divisor};
  }
  Fraction add(Fraction a, Fraction b) const {
    const std::int64_t common = std::gcd(a.den, b.den);
    const std::int64_t left = checked(mul64(a.num, b.den / common));
    const std::int64_t right = checked(mul64(b.num, a.den / common));
    return reduced(checked(add64(left, right)), checked(mul64(a.den / common, b.den)));
  }
  Fraction multiply(Fraction a, Fraction b) const {
    const Fraction x = reduced(a.num, b.den), y = reduced(b.num, a.den);
    return {checked(mul64(x.num, y.num)), checked(mul64(x.den, y.den))};
  }
  static Fraction negative(Fraction a) { return {-a.num, a.den}; }
  static Fraction inverse(Fraction a) {
    return a.num < 0 ? Fraction{-a.den, -a.num} : Fraction{a.den, a.num};
  }

  std::string_view text_;
  std::size_t position_ = 0;
  int depth_ = 0;
};

// Decimal where the denominator has no prime factor but 2 and 5.
std::string print(Fraction value) {
  std::int64_t rest = value.den;
  while (rest % 2 == 0) rest /= 2;
  while (rest % 5 == 0) rest /= 5;
  if (rest != 1) return fmt::format("{}/{}", value.num, value.den);
  const auto magnitude = static_cast<std::uint64_t>(std::abs(value.num));
  const auto den = static_cast<std::uint64_t>(value.den);
  std::string text = (value.num < 0 ? "-" : "") + std::to_string(magnitude / den);
  std::uint64_t remainder = magnitude % den;
  if (remainder != 0) text += '.';
  while (remainder != 0) {
    // Long division. Ten times the remainder may not fit, so it is added up modulo den.
    char digit = '0';
    std::uint64_t next = 0;
    for (int i = 0; i < 10; ++i) {
      next += remainder;
      if (next >= den) {
        next -= den;
        ++digit;
      }
    }
    text += digit;
    remainder = next;
  }
  return text;
}

}  // namespace

std::string evaluate(std::string_view expression) { return print(Parser(expression).whole()); }

}  // namespace baltoro::cli
