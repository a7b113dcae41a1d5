// Many requests on one engine: continuous batching, and reuse of what was read before. The rules of
// scheduling and reuse are in docs/scheduling.md.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "baltoro/constraint.h"
#include "baltoro/engine.h"
#include "baltoro/generate.h"
#include "baltoro/sampler.h"
#include "baltoro/types.h"

namespace baltoro {

struct CachedState;

// What a prompt may continue from instead of being read from its first token.
enum class PrefixReuse : std::uint8_t {
  kOff,
  // Any state, also one that holds generated tokens: a prompt that begins with the ids of a finished
  // answer goes on from it. Tokens equal those of the same transcript without interruption.
  kLive,
  // Only states that reading made: tokens equal those of a cold run.
  kExact,
};

struct SchedulerOptions {
  int max_running = 32;           // choices in one batch
  std::size_t max_waiting = 128;  // requests
  int max_per_client = 0;         // requests of one client, waiting and running; 0: no limit
  // Rows of prompts in a step beside one row for each choice that generates; a multiple of 64.
  // Where none generates, a step takes as many as a pass of the engine has.
  std::int64_t prompt_rows = 256;
  PrefixReuse reuse = PrefixReuse::kLive;
  // Bytes of states and cache pages. `state_bytes` is for everything, running sequences first;
  // `prefix_bytes`, of it, for what is kept for later prompts. Absent: what the engine's plan leaves
  // (docs/scheduling.md), and half of that.
  std::optional<std::uint64_t> state_bytes = std::nullopt;
  std::optional<std::uint64_t> prefix_bytes = std::nullopt;
  // Called on the scheduler's thread once a step that has tokens: `hand_out` calls on_token for each
  // of them. For consumers that do at the end what would be wasteful after each token. May be empty.
  std::function<void(const std::function<void()>& hand_out)> around_tokens = {};
};

enum class EndReason : std::uint8_t {
  kStopToken,
  kConsumer,  // on_token returned false
  kMaxTokens,
  kCancelled,  // Ticket::cancel, or the scheduler was destroyed
  kDeadline,
  kFailed,  // GenerationEnd::error says why
};

struct GenerationEnd {
  EndReason reason = EndReason::kMaxTokens;
  std::optional<Error> error;
  std::int64_t prompt_tokens = 0;
  std::int64_t reused_tokens = 0;     // of the prompt, not read again
  std::int64_t generated_tokens = 0;  // by this choice, a stop token included
  std::chrono::duration<double> queued{};
  std::chrono::duration<double> to_first_token{};  // from submit; 0 without a token
  std::chrono::duration<double> total{};           // from submit
};

// Callbacks come on the scheduler's thread and hold up every request: they must be quick. They may
// call any method of the scheduler but drain and the destructor.
struct GenerationRequest {
  std::vector<TokenId> prompt;  // not empty
  // Choice i draws with seed + i.
  SamplingParams sampling;
  std::int64_t max_tokens = 256;  // of each choice, at least 1
  std::vector<TokenId> stop_ids;
  std::vector<TokenId> banned;  // never chosen
  // One for each choice, or none at all. What one throws fails its choice.
  std::vector<std::shared_ptr<TokenConstraint>> constraints;
  // Whom the request counts for: waiting requests take turns by client, those of one client come in
  // their order.
  std::string client;
  int num_choices = 1;  // the prompt is read once
  // The request ends there, waiting or running.
  std::optional<std::chrono::steady_clock::time_point> deadline;
  // Called for each token, the stop token included; `text` is empty. False ends the choice with
  // kConsumer. An exception ends it with kFailed.
  std::function<bool(int choice, const GeneratedToken&)> on_token;
  // Called exactly once for each choice, after its last token, if the request was accepted.
  std::function<void(int choice, const GenerationEnd&)> on_end;
};

// An accepted request. Any thread.
class Ticket {
 public:
  // Ends the request's choices within one step.
  void cancel() noexcept { cancelled_.store(true, std::memory_order_relaxed); }
  bool cancelled() const noexcept { return cancelled_.load(std::memory_order_relaxed); }

 private:
  friend class Reuse;
  std::atomic<bool> cancelled_ = false;
  std::vector<std::weak_ptr<CachedState>> answers_;  // of the scheduler's thread
};

enum class Refusal : std::uint8_t { kNone, kQueueFull, kClientLimit, kDraining };

struct Submission {
  std::shared_ptr<Ticket> ticket;  // null: refused
  Refusal refusal = Refusal::kNone;
  std::chrono::seconds retry_after{};  // an estimate, at least 1, where refused
};

// Counters grow from the scheduler's start; the others are as they are now.
struct SchedulerStats {
  int running = 0;          // choices in the batch, those of prompts that are being read included
  std::size_t waiting = 0;  // requests
  std::uint64_t reserved_bytes = 0;  // the most that running requests may come to
  std::uint64_t accepted = 0;        // requests
  std::uint64_t refused = 0;
  std::uint64_t finished = 0;  // choices that ended by themselves
  std::uint64_t cancelled = 0;
  std::uint64_t timed_out = 0;
  std::uint64_t failed = 0;
  std::uint64_t steps = 0;
  std::uint64_t prompt_tokens = 0;  // read
  std::uint64_t reused_tokens = 0;  // of prompts, not read
  std::uint64_t generated_tokens = 0;
  double step_seconds = 0;        // in steps
  double forward_seconds = 0;     // of them in Engine::forward
  std::uint64_t prefix_hits = 0;  // requests
  std::uint64_t prefix_misses = 0;
  std::uint64_t prefix_evictions = 0;  // states
  std::size_t prefix_entries = 0;      // states
  std::uint64_t prefix_bytes = 0;
};

// Owns a thread that runs the batch. Any thread may call any method.
class Scheduler {
 public:
  // Throws Error{kUsage} for options out of range, naming the option.
  explicit Scheduler(std::shared_ptr<Engine> engine, const SchedulerOptions& options = {});
  // Ends what still runs with kCancelled.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Puts the request into the queue. A full queue is no error but a refusal. Throws Error{kUsage}
  // for a request that could never run: an id outside the vocabulary, an empty prompt, parameters
  // out of range, Error{kDoesNotFit} for more tokens than the state memory can hold.
  Submission submit(GenerationRequest request);

  // An answer often comes back as other ids than those that were generated. `as_rendered` are the
  // ids of a conversation up to and including the last generated token of the choice, as a later
  // prompt will begin: that prompt then goes on from the answer's own state. Of use with kLive alone
  // and as long as the state is kept; else without effect. Prompts submitted later see it.
  void remember(const std::shared_ptr<Ticket>& ticket, int choice,
                std::vector<TokenId> as_rendered);

  // Accepts nothing any more and waits until all accepted requests have ended. False where the time
  // ran out; they go on.
  bool drain(std::chrono::milliseconds timeout);

  // The largest max_tokens that submit() takes beside such a prompt; 0 where it takes none.
  std::int64_t most_tokens(std::int64_t prompt_tokens, int num_choices = 1) const;

  SchedulerStats stats() const;
  const Engine& engine() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace baltoro
