// A request on its way through the scheduler: waiting, reading its prompt, generating.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "baltoro/sampler.h"
#include "baltoro/scheduler.h"
#include "baltoro/session.h"
#include "engine/prefix_cache.h"
#include "engine/prompt_rows.h"

namespace baltoro {

using Clock = std::chrono::steady_clock;

// One choice of a request.
struct Stream {
  Sampler sampler;
  std::optional<Session> session = std::nullopt;  // while it generates
  std::vector<TokenId> ids = {};  // chosen so far; all but the last are in the session
  std::optional<DrawRequest> draw = std::nullopt;  // of the pass that is being computed
  std::optional<Clock::time_point> first_token = std::nullopt;
  bool ended = false;
  GenerationEnd end = {};  // where it has ended
};

struct Job {
  GenerationRequest request;
  std::shared_ptr<Ticket> ticket;
  std::vector<Stream> streams;  // one a choice
  Clock::time_point submitted;

  std::optional<Clock::time_point> admitted;
  // While the prompt is read.
  std::optional<Session> session;
  std::optional<TokenId> pending;  // first to be computed, as a generated token
  Reading reading;                 // `begin`: tokens of the prompt that were in the session before
  std::int64_t read = 0;           // tokens of the prompt that are in the session
  StateKind kind = StateKind::kRead;
  std::vector<std::int64_t> stops;  // counts of tokens read at which the state is kept, ascending
  PrefixNode* held = nullptr;

  // While it waits for another's reading.
  std::shared_ptr<Ticket> waits_for;
  std::int64_t waits_until = 0;

  std::uint64_t most_bytes = 0;  // of states and pages
  bool reserved = false;         // they are set aside

  bool reads() const { return session.has_value(); }
  int open_choices() const {
    int count = 0;
    for (const Stream& stream : streams) count += stream.ended ? 0 : 1;
    return count;
  }
};

// Calls on_end of a choice that has ended. What it throws is logged.
void tell_end(const Job& job, std::size_t choice);

// Throws Error{kUsage} for a request that could never run on this engine, Error{kDoesNotFit} for one
// that takes more than `state_bytes`.
std::unique_ptr<Job> make_job(GenerationRequest request, const EngineInfo& info, int max_choices,
                              std::uint64_t state_bytes);

}  // namespace baltoro
