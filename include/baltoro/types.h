// The few plain types that the public interface and every layer share.
#pragma once

#include <cstddef>
#include <cstdint>

namespace baltoro {

using TokenId = std::int32_t;

// kBf16 rounds at the rounding points of the released model (docs/numerics.md); kF32 rounds
// nowhere.
enum class Activations : std::uint8_t { kBf16, kF32 };

// How the states of KDA layers are stored between tokens. kBf16 halves their memory and the traffic of
// decoding, at an error of its own (docs/numerics.md).
enum class KdaState : std::uint8_t { kF32, kBf16 };

// What the routed experts multiply their weights by: kSame, the activations as they are; kFp8, rows
// of fp8 (e4m3) values that share a power of two, for MXFP4 experts, at an error of its own
// (docs/numerics.md).
enum class ExpertActivations : std::uint8_t { kSame, kFp8 };

// How the MLA cache keeps latents. kAuto: like activations, as bf16 or f32. kFp8: as e4m3 with a power
// of two a token, and side keys as bf16, which takes 0.56 of bf16, at an error of its own
// (docs/numerics.md).
enum class Latents : std::uint8_t { kAuto, kFp8 };

// How a token came to be in the sequence; it alone decides the arithmetic that computes the token
// (docs/numerics.md).
enum class Origin : std::uint8_t {
  kPrompt,     // arrived as input: chunkwise KDA, expanded MLA
  kGenerated,  // chosen by the model: recurrent KDA, absorbed MLA
};

// kCopy reads weights into 64-byte aligned memory of huge pages at load; kMap reads them through
// the page cache where they lie in the file; kAuto copies what fits into the memory
// limit and maps the rest (memory_plan.h).
enum class LoadMode : std::uint8_t { kAuto, kCopy, kMap };

}  // namespace baltoro
