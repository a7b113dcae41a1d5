// The released pattern and texts that exercise all of its rules, for tests against other engines.
#pragma once

#include <random>
#include <string>

namespace baltoro {

// As the released tokenizer has it; Rust's regex crate and ICU understand the class intersection.
inline constexpr const char* kReleasedPattern =
    R"([\p{Han}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*)"
    R"([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+)"
    R"([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// One or more characters of each class and script that a rule tells apart, none younger than
// Unicode 14.
inline const std::u32string kKimiAlphabet =
    U"abstremvldSTREMVLDxyZ\u017F\u00DF\uFB06\u00E9\u00C9\u01C5\u01C8"
    U"\u02BC\u02B0\u00AA\u05D0\u0E01\u0939\u093F\u0301\u0488\u20DD"
    U"\u3042\u30A2\u30FC\u3005\u303B\uD55C"
    U"\u4E16\u754C\u2E80\u2FD5\u3007\u3021\u3038\U00016FE2\U00016FF0\U00020000"
    U"\u3001\u3002\u30FB\u00B7"
    U"0123456789\u0661\u00BD\u00B2\u216B\u3220\U0001D7CE"
    U"''''\u2019!?.,_-{}/$+\u00AB\U0001F600\U0001F1E6\uFE0F\u200D"
    U"      \t\v\f\r\n\n\n\x85\u00A0\u1680\u2000\u200A\u2028\u2029\u202F\u205F\u3000"
    U"\x1C\x1D\x1E\x1F\u180E\u200B\u200C\u2060\uFEFF\x01\x7F\uE000\u0378\uFFFE\U0010FFFF";

inline std::u32string random_text(std::mt19937& rng) {
  const std::size_t length = 1 + rng() % 24;
  std::u32string text;
  while (text.size() < length) {
    const char32_t c = kKimiAlphabet[rng() % kKimiAlphabet.size()];
    text.append(1 + (rng() % 4 == 0 ? rng() % 5 : 0), c);
  }
  return text;
}

}  // namespace baltoro
