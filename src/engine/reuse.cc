#include "engine/reuse.h"

#include <algorithm>
#include <utility>

#include "engine/prompt_rows.h"
#include "engine/session_impl.h"
#include "ops/batch.h"

namespace baltoro {
namespace {

// Waiting for another's reading pays where it spares at least as many tokens.
constexpr std::int64_t kWorthWaiting = 256;

std::span<const TokenId> first_tokens(const Job& job, std::int64_t count) {
  return std::span(job.request.prompt).first(static_cast<std::size_t>(count));
}

std::int64_t prompt_length(const Job& job) {
  return static_cast<std::int64_t>(job.request.prompt.size());
}

CachedState cached(Session session, StateKind kind, std::optional<TokenId> pending) {
  CachedState state{.kind = kind, .pending = pending};
  state.own_bytes = SessionAccess::own_bytes(session);
  state.pages = SessionAccess::pages(session);
  state.session = std::move(session);
  return state;
}

}  // namespace

Reuse::Reuse(std::shared_ptr<Engine> engine, PrefixReuse mode, std::uint64_t budget)
    : engine_(std::move(engine)),
      mode_(budget < static_cast<std::uint64_t>(engine_->info().state_bytes) ? PrefixReuse::kOff
                                                                             : mode),
      budget_(budget),
      cache_(budget,
             static_cast<std::uint64_t>(engine_->info().cache_bytes_per_token) * kBlockTokens) {}

bool Reuse::go_on_from(Job& job, const PrefixCache::Hit& hit) {
  if (hit.state == nullptr) return false;
  try {
    job.session.emplace(hit.state->session->fork());
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kOutOfMemory) throw;
    return false;
  }
  cache_.touch(hit.state);
  job.kind = hit.state->kind;
  job.pending = hit.state->pending;
  job.reading.begin = hit.length;
  job.reading.shift = job.session->position() + (job.pending ? 1 : 0) - hit.length;
  return true;
}

void Reuse::start_empty(Job& job) {
  try {
    job.session.emplace(engine_->new_session());
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kOutOfMemory || cache_.bytes() == 0) throw;
    cache_.shrink_to(0);
    job.session.emplace(engine_->new_session());
  }
}

void Reuse::begin(Job& job) {
  job.reading = {.length = prompt_length(job)};
  if (mode_ == PrefixReuse::kOff) return start_empty(job);
  const std::span<const TokenId> prompt(job.request.prompt);
  const bool hit = go_on_from(job, cache_.find(prompt, mode_ == PrefixReuse::kLive));
  if (!hit) start_empty(job);
  ++(hit ? hits_ : misses_);
  reused_tokens_ += static_cast<std::uint64_t>(job.reading.begin);
  job.read = job.reading.begin;
  job.stops = kept_stops(job.reading, cache_.shared_length(prompt));
  job.held = cache_.hold(prompt);
}

void Reuse::note_read(Job& job) {
  if (job.stops.empty() || job.stops.front() != job.read) return;
  job.stops.erase(job.stops.begin());
  try {
    cache_.insert(first_tokens(job, job.read), cached(job.session->fork(), job.kind, std::nullopt));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kOutOfMemory) throw;  // nothing is kept then
  }
}

void Reuse::keep_answer(Job& job, std::size_t choice) {
  Stream& stream = job.streams[choice];
  if (mode_ != PrefixReuse::kLive || !stream.session || stream.ids.empty()) return;
  std::vector<TokenId> key = job.request.prompt;
  key.insert(key.end(), stream.ids.begin(), stream.ids.end());
  SessionAccess::drop_logits(*stream.session);
  auto& answers = job.ticket->answers_;
  answers.resize(job.streams.size());
  answers[choice] =
      cache_.insert(key, cached(std::move(*stream.session), StateKind::kLive, stream.ids.back()));
  stream.session.reset();
}

void Reuse::end_reading(Job& job) {
  if (job.held != nullptr) cache_.release(std::exchange(job.held, nullptr));
}

void Reuse::remember(const Ticket& ticket, std::size_t choice,
                     std::span<const TokenId> as_rendered) {
  if (choice < ticket.answers_.size()) cache_.add_key(ticket.answers_[choice], as_rendered);
}

bool Reuse::should_wait(Job& job, std::span<const std::unique_ptr<Job>> running) const {
  if (mode_ == PrefixReuse::kOff) return false;
  const std::span<const TokenId> prompt(job.request.prompt);
  Job* reader = nullptr;
  std::int64_t stop = 0;
  for (const auto& other : running) {
    if (!other->reads()) continue;
    if (other->ticket == job.waits_for) {
      if (other->read < job.waits_until) return true;
      continue;
    }
    const auto common = std::ranges::mismatch(prompt, other->request.prompt).in1 - prompt.begin();
    const std::int64_t useful = std::min<std::int64_t>(common, prompt_length(job) - 1);
    const std::int64_t end = block_end(other->reading, std::min(useful, other->reading.length - 1));
    if (end > other->read && end > stop) {
      reader = other.get();
      stop = end;
    }
  }
  if (reader == nullptr) return false;
  const auto hit = cache_.find(prompt, mode_ == PrefixReuse::kLive);
  if (stop < hit.length + kWorthWaiting) return false;
  const auto place = std::ranges::lower_bound(reader->stops, stop);
  if (place == reader->stops.end() || *place != stop) reader->stops.insert(place, stop);
  job.waits_for = reader->ticket;
  job.waits_until = stop;
  return true;
}

void Reuse::report(SchedulerStats& stats) const {
  stats.reused_tokens = reused_tokens_;
  stats.prefix_hits = hits_;
  stats.prefix_misses = misses_;
  stats.prefix_evictions = cache_.evictions();
  stats.prefix_entries = cache_.entries();
  stats.prefix_bytes = cache_.bytes();
}

}  // namespace baltoro
