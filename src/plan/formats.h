// Number formats of weights, caches and messages, and which part of a model is stored in which.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace baltoro::plan {

enum class Format : std::uint8_t { kF32, kBf16, kFp8, kInt8, kMxint8, kMxfp4, kNvfp4, kInt4 };

// Bytes of one value, the scales of its block included: MXFP4 and MXINT8 have one byte for 32
// values, NVFP4 one for 16, INT4 two for 32. FP8 and INT8 count as 1.
double format_bytes(Format format);
const char* format_name(Format format);  // "mxfp4"
// Throws Error{kUsage} naming the formats; `key` names the option in the message.
Format parse_format(std::string_view key, std::string_view text);

// Storage by part. `attn` is all matrices of the mixers, `kv` a value of the MLA cache, `state` the
// recurrent state of KDA, `conv` its convolution history; `dispatch` and `combine` are the messages
// of the all-to-all.
struct Formats {
  Format routed = Format::kBf16;
  Format attn = Format::kBf16;
  Format shared = Format::kBf16;
  Format dense = Format::kBf16;
  Format latent = Format::kBf16;
  Format router = Format::kBf16;
  Format embed = Format::kBf16;
  Format head = Format::kBf16;
  Format kv = Format::kFp8;
  Format state = Format::kF32;
  Format conv = Format::kBf16;
  Format activation = Format::kBf16;
  Format dispatch = Format::kFp8;
  Format combine = Format::kBf16;

  bool operator==(const Formats&) const = default;
};

// "routed=mxfp4,kv=fp8": each entry changes one field; `weights=int8` changes all matrices but the
// routed experts. Throws Error{kUsage} for an unknown field or format, with the nearest one.
void apply_formats(Formats& formats, std::string_view text);

}  // namespace baltoro::plan
