#include "text/utf8.h"

namespace baltoro {
namespace {

struct LeadByte {
  std::uint8_t length;  // 0: no sequence of several bytes begins with this byte
  std::uint8_t low;     // bounds of the second byte, which exclude overlong forms, surrogates and
  std::uint8_t high;    // code points above U+10FFFF
};

LeadByte classify_lead(unsigned char byte) {
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

Utf8Step decode_utf8_multibyte(std::string_view bytes) {
  const auto first = static_cast<unsigned char>(bytes[0]);
  const LeadByte lead = classify_lead(first);
  if (lead.length == 0) return {0, 1, Utf8Status::kInvalid};
  char32_t code_point = first & (0x7Fu >> lead.length);
  for (std::uint8_t i = 1; i < lead.length; ++i) {
    if (i == bytes.size()) return {0, i, Utf8Status::kIncomplete};
    const auto byte = static_cast<unsigned char>(bytes[i]);
    const unsigned low = i == 1 ? lead.low : 0x80u;
    const unsigned high = i == 1 ? lead.high : 0xBFu;
    if (byte < low || byte > high) return {0, i, Utf8Status::kInvalid};
    code_point = code_point << 6 | (byte & 0x3Fu);
  }
  return {code_point, lead.length, Utf8Status::kValid};
}

std::size_t valid_utf8_prefix(std::string_view bytes) {
  std::size_t pos = 0;
  while (pos < bytes.size()) {
    const Utf8Step step = decode_utf8(bytes.substr(pos));
    if (step.status != Utf8Status::kValid) break;
    pos += step.length;
  }
  return pos;
}

std::string take_complete_utf8(std::string& pending, InvalidUtf8 invalid) {
  std::string out;
  std::size_t pos = 0;
  while (pos < pending.size()) {
    const Utf8Step step = decode_utf8(std::string_view(pending).substr(pos));
    if (step.status == Utf8Status::kIncomplete) break;
    if (step.status == Utf8Status::kInvalid && invalid == InvalidUtf8::kReplace) {
      out += "\xEF\xBF\xBD";
    } else {
      out.append(pending, pos, step.length);
    }
    pos += step.length;
  }
  pending.erase(0, pos);
  return out;
}

bool is_python_space(char32_t c) {
  if (c < 0x80) return c == U' ' || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F);
  if (c >= 0x2000 && c <= 0x200A) return true;
  switch (c) {
    case 0x0085:
    case 0x00A0:
    case 0x1680:
    case 0x2028:
    case 0x2029:
    case 0x202F:
    case 0x205F:
    case 0x3000:
      return true;
    default:
      return false;
  }
}

}  // namespace baltoro
