// The serial scan of KDA prefill: chunks of one sequence and head follow each other.
#pragma once

#include <cstdint>

namespace baltoro::plan {

constexpr std::int64_t kScanChunk = 64;  // tokens

// One layer: ceil(heads * sequences / processors) * ceil(tokens / 64) * chunk_seconds, `heads` of
// this device and `tokens` new ones of each sequence.
double scan_seconds(double heads, std::int64_t sequences, std::int64_t tokens, double processors,
                    double chunk_seconds);

}  // namespace baltoro::plan
