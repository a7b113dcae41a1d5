#include "engine/state_budget.h"

#include <algorithm>
#include <limits>

#include "ops/batch.h"

namespace baltoro {
namespace {

std::uint64_t positive(std::uint64_t all, std::uint64_t part) {
  return all > part ? all - part : 0;
}

// The largest sum of states and pages whose part with one side, `state` of a state and `cache` of a
// token's, stays within `room`.
std::uint64_t bound_by(const EngineInfo& info, std::uint64_t room, std::int64_t state,
                       std::int64_t cache) {
  const auto share = [](std::int64_t part, std::int64_t all) {
    return all > 0 ? static_cast<double>(part) / static_cast<double>(all) : 0.0;
  };
  const double most =
      std::max(share(state, info.state_bytes), share(cache, info.cache_bytes_per_token));
  if (most == 0) return std::numeric_limits<std::uint64_t>::max();
  return static_cast<std::uint64_t>(static_cast<double>(room) / most);
}

std::uint64_t page_bytes(const EngineInfo& info) {
  return static_cast<std::uint64_t>(info.cache_bytes_per_token * kBlockTokens);
}

std::uint64_t pages_of(std::int64_t tokens) {
  return static_cast<std::uint64_t>((tokens + kBlockTokens - 1) / kBlockTokens);
}

// States, and the pages of the prompt. A prompt that is being read has a second state.
std::uint64_t fixed_bytes(const EngineInfo& info, std::int64_t prompt_tokens, int num_choices) {
  return static_cast<std::uint64_t>(std::max(2, num_choices)) *
             static_cast<std::uint64_t>(info.state_bytes) +
         pages_of(prompt_tokens) * page_bytes(info);
}

}  // namespace

std::uint64_t default_state_bytes(const EngineInfo& info) {
  const MemoryPlan& plan = info.memory;
  // Of one sequence of 2,048 tokens, which the plan counts as working memory.
  const std::uint64_t planned = fixed_bytes(info, 2048, 1);
  // Beside weights in files, what states take is taken from the experts' cache.
  const std::uint64_t host = plan.all_resident()
                                 ? positive(plan.limit, plan.working + plan.resident)
                                 : positive(plan.limit, plan.minimum) / 2;
  if (plan.device_limit == 0) return planned + host;
  // Less what pools grow by in vain.
  const std::uint64_t device =
      positive(plan.device_limit, plan.device_working + plan.device_weights) / 8 * 7;
  const std::int64_t state = info.host_state_bytes, cache = info.host_cache_bytes_per_token;
  return planned + std::min(bound_by(info, host, state, cache),
                            bound_by(info, device, info.state_bytes - state,
                                     info.cache_bytes_per_token - cache));
}

std::uint64_t default_prefix_bytes(const EngineInfo& info, std::uint64_t state_bytes) {
  constexpr std::uint64_t kUsual = std::uint64_t{2} << 30;
  constexpr std::uint64_t kStates = 32;
  return std::min(state_bytes / 2,
                  std::max(kUsual, kStates * static_cast<std::uint64_t>(info.state_bytes)));
}

std::uint64_t request_bytes(const EngineInfo& info, std::int64_t prompt_tokens,
                            std::int64_t max_tokens, int num_choices) {
  // Choices part within a page, of which each takes its own copy.
  return fixed_bytes(info, prompt_tokens, num_choices) +
         static_cast<std::uint64_t>(num_choices) * (pages_of(max_tokens) + 1) * page_bytes(info);
}

std::int64_t most_tokens(const EngineInfo& info, std::int64_t prompt_tokens, int num_choices,
                         std::uint64_t bytes) {
  const std::uint64_t left = positive(bytes, fixed_bytes(info, prompt_tokens, num_choices));
  const std::uint64_t each = static_cast<std::uint64_t>(num_choices) * page_bytes(info);
  if (each == 0) return left > 0 ? kMostTokens : 0;
  const std::uint64_t pages = positive(left / each, 1);
  return std::min(kMostTokens, static_cast<std::int64_t>(pages) * kBlockTokens);
}

}  // namespace baltoro
