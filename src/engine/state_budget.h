// How much memory sequences may take, and how much a request may come to. Arithmetic alone.
#pragma once

#include <cstdint>

#include "baltoro/engine.h"

namespace baltoro {

// Of a prompt and of an answer; keeps sums of bytes far from overflow.
inline constexpr std::int64_t kMostTokens = std::int64_t{1} << 30;

// What the engine's plan leaves for states and cache pages.
std::uint64_t default_state_bytes(const EngineInfo& info);
// The part of them that is for later prompts.
std::uint64_t default_prefix_bytes(const EngineInfo& info, std::uint64_t state_bytes);

// The most that a request comes to: every choice generates max_tokens.
std::uint64_t request_bytes(const EngineInfo& info, std::int64_t prompt_tokens,
                            std::int64_t max_tokens, int num_choices);
// The largest max_tokens of a request that comes to at most `bytes`; 0 where none does.
std::int64_t most_tokens(const EngineInfo& info, std::int64_t prompt_tokens, int num_choices,
                         std::uint64_t bytes);

}  // namespace baltoro
