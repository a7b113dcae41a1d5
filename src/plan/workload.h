// What is asked of a deployment: the phase, how many sequences of which length, routing, messages
// and overlap.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "plan/network.h"
#include "plan/routing.h"

namespace baltoro::plan {

enum class Phase : std::uint8_t {
  kDecode,   // one token of each sequence
  kPrefill,  // a chunk of a prompt, or the whole
  kMixed,    // both in one step
  kVerify,   // draft + 1 tokens of each sequence (speculation)
};
const char* phase_name(Phase phase);
Phase parse_phase(std::string_view text);

// How the network time of a step hides behind its kernels.
struct Overlap {
  enum class Kind : std::uint8_t {
    kNone,      // C + N
    kShared,    // routed messages behind shared experts and latent projections
    kTwoBatch,  // max(C', N), C' of two halves that each read their weights
    kFused,     // routed messages behind the routed experts
    kFraction,  // C + N - w min(C, N)
  };
  Kind kind = Kind::kNone;
  double fraction = 0;
};
// "none", "shared", "tbo", "fused" or a number in [0, 1].
Overlap parse_overlap(std::string_view text);
std::string overlap_name(const Overlap& overlap);

struct Workload {
  Phase phase = Phase::kDecode;
  std::int64_t batch = 1;       // sequences that decode, all devices together
  std::int64_t context = 8192;  // tokens in the cache, the one that is decoded among them
  std::int64_t input = 0;       // prompt; 0: `context`
  std::int64_t output = 1024;   // tokens generated after it
  std::int64_t prompts = 1;     // prompts that are read together
  std::int64_t chunk = 16384;   // tokens of a prompt that one step reads; 0: all of them
  std::int64_t cached = 0;      // of the prompt, already in the cache
  std::int64_t draft = 7;       // kVerify: tokens proposed
  double accepted = 3.4;        // kVerify: tokens that a step yields
  Routing routing;
  Dedup dedup = Dedup::kFlat;
  Overlap overlap;

  std::int64_t prompt_tokens() const { return input > 0 ? input : context; }
  std::int64_t fresh_tokens() const { return prompt_tokens() - cached; }
  // Of the longest step.
  std::int64_t chunk_tokens() const {
    return chunk > 0 ? std::min(chunk, fresh_tokens()) : fresh_tokens();
  }
};

// Throws Error{kUsage} naming each number out of its range.
void check_workload(const Workload& workload);

// "8k" is 8192 and "1M" is 1048576; else a whole number, `least` to 2^32. Throws Error{kUsage}.
std::int64_t parse_length(std::string_view name, std::string_view text, std::int64_t least = 0);

// One forward pass of all devices.
struct StepShape {
  std::int64_t sequences = 0;      // that decode
  std::int64_t query_tokens = 1;   // rows of each
  std::int64_t context = 0;        // tokens in the cache of each, its rows among them
  std::int64_t prompts = 0;        // that are read
  std::int64_t prompt_tokens = 0;  // rows of each
  std::int64_t prompt_start = 0;   // tokens of each before those

  std::int64_t tokens() const { return sequences * query_tokens + prompts * prompt_tokens; }
};
StepShape decode_step(std::int64_t sequences, std::int64_t context);
StepShape prefill_step(std::int64_t prompts, std::int64_t tokens, std::int64_t start);
// The step that the table of the workload's phase shows; of a chunked prompt, the last chunk.
StepShape table_step(const Workload& workload);

}  // namespace baltoro::plan
