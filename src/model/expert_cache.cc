#include "model/expert_cache.h"

#include <algorithm>

#include "core/error.h"

namespace baltoro {
namespace {

// Experts used in one step: enough work for all threads, few enough that reading ahead goes on.
constexpr std::uint64_t kStepBytes = std::uint64_t{64} << 20;

}  // namespace

ExpertCache::ExpertCache(const std::vector<std::vector<std::uint64_t>>& bytes) {
  for (std::size_t layer = 0; layer < bytes.size(); ++layer) {
    first_.push_back(experts_.size());
    for (const std::uint64_t size : bytes[layer]) {
      experts_.push_back({.bytes = size, .layer = static_cast<int>(layer)});
    }
  }
}

// How long an expert is expected to stay unused; the largest goes first. In decoding, an expert that
// the last two passes left alone is the less likely the longer ago it was used. Among the others,
// and in prompts all are such, the layer whose turn comes last: giving up the least recently used
// would give up just what comes next.
std::uint64_t ExpertCache::patience(const Expert& expert, int layer) const {
  const auto num_layers = static_cast<std::uint64_t>(first_.size());
  if (expert.wanted_by == serial_) return 0;
  const std::int64_t age = pass_ - expert.last_pass;
  if (age > 1) return num_layers + static_cast<std::uint64_t>(age);
  const auto ahead =
      static_cast<std::uint64_t>(expert.layer - layer + static_cast<int>(num_layers));
  return expert.layer > layer ? ahead - num_layers : ahead;
}

void ExpertCache::make_room(int layer, std::uint64_t bytes) {
  if (used_ + bytes <= limit_) return;
  candidates_.clear();
  for (const std::size_t number : in_memory_) {
    if (experts_[number].pinned_by != serial_) candidates_.push_back(number);
  }
  const auto stays_longer = [&](std::size_t a, std::size_t b) {
    const std::uint64_t of_a = patience(experts_[a], layer);
    const std::uint64_t of_b = patience(experts_[b], layer);
    return of_a != of_b ? of_a < of_b : a > b;
  };
  std::make_heap(candidates_.begin(), candidates_.end(), stays_longer);
  while (used_ + bytes > limit_ && !candidates_.empty()) {
    std::pop_heap(candidates_.begin(), candidates_.end(), stays_longer);
    Expert& expert = experts_[candidates_.back()];
    expert.in_memory = false;
    used_ -= expert.bytes;
    step_.drops.push_back(candidates_.back());
    candidates_.pop_back();
  }
  std::erase_if(in_memory_, [this](std::size_t number) { return !experts_[number].in_memory; });
}

const ExpertCache::Step& ExpertCache::acquire(int layer, std::span<const std::int32_t> ids) {
  BALTORO_CHECK(!ids.empty(), "no experts of layer {} asked for", layer);
  ++serial_;
  step_.ready = 0;
  step_.reads.clear();
  step_.drops.clear();
  for (const std::int32_t id : ids) experts_.at(number(layer, id)).wanted_by = serial_;

  const std::uint64_t step_bytes = std::min(kStepBytes, limit_ / 2);
  std::uint64_t taken = 0;
  std::uint64_t to_read = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    Expert& expert = experts_[number(layer, ids[i])];
    if (i > 0 && taken + expert.bytes > limit_) break;
    taken += expert.bytes;
    if (i == 0 || taken <= step_bytes) step_.ready = i + 1;
    expert.pinned_by = serial_;
    expert.last_pass = pass_;
    if (expert.in_memory) continue;
    to_read += expert.bytes;
    step_.reads.push_back(number(layer, ids[i]));
  }
  make_room(layer, to_read);
  for (const std::size_t read : step_.reads) {
    experts_[read].in_memory = true;
    in_memory_.push_back(read);
  }
  used_ += to_read;
  return step_;
}

}  // namespace baltoro
