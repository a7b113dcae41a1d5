#include "text/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cstdint>
#include <string>

#include "core/error.h"
#include "text/utf8.h"

namespace baltoro {
namespace {

// No piece needs near as much: the longest text between two cuts has 25,000 characters of a kind.
constexpr std::uint32_t kMatchLimit = 50'000'000;
constexpr std::uint32_t kHeapLimitKib = 64 * 1024;

template <auto Free>
struct Deleter {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Code = std::unique_ptr<pcre2_code, Deleter<pcre2_code_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Deleter<pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Deleter<pcre2_match_context_free>>;

std::string pcre2_message(int code) {
  PCRE2_UCHAR text[256] = {};
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

PCRE2_SPTR code_units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

Code compile(std::string_view pattern) {
  BALTORO_CHECK(pattern.find("&&[") == pattern.npos, "PCRE2 has no class intersection: rewrite {}",
                pattern);
  int error = 0;
  std::size_t offset = 0;
  Code code(pcre2_compile(code_units(pattern), pattern.size(),
                          PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &error, &offset, nullptr));
  BALTORO_CHECK(code != nullptr, "{} at offset {} of {}", pcre2_message(error), offset, pattern);
  return code;
}

std::size_t invalid_utf8_prefix(std::string_view text) {
  std::size_t pos = 0;
  while (pos < text.size()) {
    const Utf8Step step = decode_utf8(text.substr(pos));
    if (step.status == Utf8Status::kValid) break;
    pos += step.length;
  }
  return pos;
}

}  // namespace

const char* const kKimiPattern =
    R"([\p{sc:Han}]+)"
    R"(|[^\r\n\p{L}\p{N}]?)"
    R"([^\p{sc:Han}\p{Ll}\p{C}\p{N}\p{P}\p{S}\p{Z}]*)"
    R"([^\p{sc:Han}\p{Lu}\p{Lt}\p{C}\p{N}\p{P}\p{S}\p{Z}]+)"
    R"((?:'(?:[sS\x{17F}]|[tT]|[rR][eE]|[vV][eE]|[mM]|[lL][lL]|[dD]))?)"
    R"(|[^\r\n\p{L}\p{N}]?)"
    R"([^\p{sc:Han}\p{Ll}\p{C}\p{N}\p{P}\p{S}\p{Z}]+)"
    R"([^\p{sc:Han}\p{Lu}\p{Lt}\p{C}\p{N}\p{P}\p{S}\p{Z}]*)"
    R"((?:'(?:[sS\x{17F}]|[tT]|[rR][eE]|[vV][eE]|[mM]|[lL][lL]|[dD]))?)"
    R"(|\p{N}{1,3})"
    R"(| ?[^\p{L}\p{N}\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029})"
    R"(\x{202F}\x{205F}\x{3000}]+[\r\n]*)"
    R"(|[\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029})"
    R"(\x{202F}\x{205F}\x{3000}]*[\r\n]+)"
    R"(|[\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029})"
    R"(\x{202F}\x{205F}\x{3000}]+)"
    R"((?![^\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029})"
    R"(\x{202F}\x{205F}\x{3000}]))"
    R"(|[\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029})"
    R"(\x{202F}\x{205F}\x{3000}]+)";

std::string unicode_version() {
  char version[32] = {};
  pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, version);
  return version;
}

struct PreTokenizer::Compiled {
  Code code;
  MatchContext context;
  bool jit;
};

PreTokenizer::PreTokenizer(std::string_view pattern) {
  Code code = compile(pattern);
  const bool jit = pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE) == 0;
  MatchContext context(pcre2_match_context_create(nullptr));
  BALTORO_CHECK(context != nullptr, "no memory for a match context");
  pcre2_set_match_limit(context.get(), kMatchLimit);
  pcre2_set_heap_limit(context.get(), kHeapLimitKib);
  compiled_ = std::make_unique<Compiled>(Compiled{std::move(code), std::move(context), jit});
}

PreTokenizer::~PreTokenizer() = default;
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;

void PreTokenizer::split(std::string_view text, std::vector<std::size_t>& ends) const {
  const MatchData match(pcre2_match_data_create(1, nullptr));
  BALTORO_CHECK(match != nullptr, "no memory for match data");
  const std::size_t* range = pcre2_get_ovector_pointer(match.get());
  for (std::size_t begin = 0; begin < text.size();) {
    const std::string_view valid = text.substr(begin, valid_utf8_prefix(text.substr(begin)));
    for (std::size_t pos = 0; pos < valid.size(); pos = range[1]) {
      const auto run = compiled_->jit ? pcre2_jit_match : pcre2_match;
      const int found = run(compiled_->code.get(), code_units(valid), valid.size(), pos,
                            PCRE2_NO_UTF_CHECK, match.get(), compiled_->context.get());
      BALTORO_CHECK(found > 0 && range[1] > pos, "{} at byte {} of a text of {} bytes",
                    pcre2_message(found), begin + pos, text.size());
      ends.push_back(begin + range[1]);
    }
    begin += valid.size();
    const std::size_t invalid = invalid_utf8_prefix(text.substr(begin));
    if (invalid > 0) ends.push_back(begin += invalid);
  }
}

}  // namespace baltoro
