// Pre-tokenisation: a text is cut into pieces by a regular expression on PCRE2 before any merge.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace baltoro {

// The eight alternatives of the Kimi vocabulary, written for PCRE2. The released pattern uses
// class intersection, which PCRE2 compiles without a word and matches wrongly: `[A&&[^\p{Han}]]`
// stands here as the complement of (Han and all categories outside A), the same set since every
// code point has exactly one category. Three more spellings differ with reason: \p{sc:Han}, since
// \p{Han} means Script_Extensions in PCRE2; White_Space as a list, since \s in PCRE2 has U+180E
// too; the contractions with their case variants as lists, U+017F among those of s.
extern const char* const kKimiPattern;

// The version of the Unicode tables that decide the class of a character, such as "14.0.0".
std::string unicode_version();

// Immutable after construction, safe to use from many threads at once.
class PreTokenizer {
 public:
  // Compiles `pattern`, which must match a non-empty prefix of every non-empty text; just in time
  // where the machine allows it. Throws Error{kInternal} if it does not compile.
  explicit PreTokenizer(std::string_view pattern);
  ~PreTokenizer();
  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;

  // Appends the end offset of each piece of `text` to `ends`. Bytes that are not well-formed UTF-8
  // separate texts that are matched on their own; each maximal run of them is one piece. Throws
  // Error{kInternal} if the pattern finds no match or passes its limits.
  void split(std::string_view text, std::vector<std::size_t>& ends) const;

 private:
  struct Compiled;
  std::unique_ptr<const Compiled> compiled_;
};

}  // namespace baltoro
