// UTF-8 as the text layer sees it: one decoder, used by slicing, pre-tokenisation and streaming.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "baltoro/tokenizer.h"

namespace baltoro {

enum class Utf8Status : std::uint8_t {
  kValid,
  kIncomplete,  // the bytes end inside a sequence that is well-formed so far
  kInvalid,
};

// One decoded step. `length` >= 1 is the size of the character or, if not valid, of the maximal
// subpart of an ill-formed sequence (Unicode 15, section 3.9), so that each U+FFFD stands for one.
struct Utf8Step {
  char32_t code_point;  // meaningful for kValid only
  std::uint8_t length;
  Utf8Status status;
};

// decode_utf8 for a first byte above 0x7F.
Utf8Step decode_utf8_multibyte(std::string_view bytes);

// Decodes the first character of `bytes`, which must not be empty.
inline Utf8Step decode_utf8(std::string_view bytes) {
  const auto first = static_cast<unsigned char>(bytes[0]);
  if (first < 0x80) return {first, 1, Utf8Status::kValid};
  return decode_utf8_multibyte(bytes);
}

// Bytes from the start of `bytes` that are well-formed UTF-8.
std::size_t valid_utf8_prefix(std::string_view bytes);

// Moves all that can be shown from the front of `pending` into the result: whole characters, and
// ill-formed bytes as `invalid` says. What stays is an unfinished character of at most 3 bytes.
std::string take_complete_utf8(std::string& pending, InvalidUtf8 invalid);

// White space as Python's str.isspace sees it: the property White_Space and U+001C to U+001F.
bool is_python_space(char32_t c);

}  // namespace baltoro
