// What is kept of sequences for later prompts, and what a prompt goes on from: the rules of
// docs/scheduling.md over the PrefixCache.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "baltoro/engine.h"
#include "baltoro/scheduler.h"
#include "engine/job.h"
#include "engine/prefix_cache.h"

namespace baltoro {

// One thread at a time.
class Reuse {
 public:
  // Reuses nothing where the budget is smaller than one state.
  Reuse(std::shared_ptr<Engine> engine, PrefixReuse mode, std::uint64_t budget);

  // Gives the job its session, empty or with the beginning of its prompt. Throws
  // Error{kOutOfMemory}.
  void begin(Job& job);
  // The job has read a part of its prompt: keeps the state where it should be kept.
  void note_read(Job& job);
  // Takes over the state of a choice that has ended, its last token still to be computed.
  void keep_answer(Job& job, std::size_t choice);
  // The job has read its prompt, or will not.
  void end_reading(Job& job);
  // Another key of the state that keep_answer() took.
  void remember(const Ticket& ticket, std::size_t choice, std::span<const TokenId> as_rendered);

  // Whether a waiting job should go on waiting, because one of the `running` jobs is reading what
  // its prompt begins with, and will keep it.
  bool should_wait(Job& job, std::span<const std::unique_ptr<Job>> running) const;

  // Kept states take at most `bytes` from now on, and at most the budget.
  void set_limit(std::uint64_t bytes) { cache_.set_budget(std::min(budget_, bytes)); }
  void give_up_all() { cache_.shrink_to(0); }
  std::uint64_t bytes() const noexcept { return cache_.bytes(); }
  void report(SchedulerStats& stats) const;

 private:
  void start_empty(Job& job);
  bool go_on_from(Job& job, const PrefixCache::Hit& hit);

  std::shared_ptr<Engine> engine_;
  PrefixReuse mode_;
  std::uint64_t budget_;
  PrefixCache cache_;
  std::uint64_t hits_ = 0, misses_ = 0, reused_tokens_ = 0;
};

}  // namespace baltoro
