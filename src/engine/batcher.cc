#include "engine/batcher.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/error.h"
#include "engine/prompt_rows.h"
#include "engine/session_impl.h"
#include "ops/batch.h"

namespace baltoro {
namespace {

// Waking threads takes some 50 us, a logit 5 ns.
constexpr std::int64_t kLogitsWorthThreads = 40000;

// As many as compute on the host; beside a device, which waits meanwhile, all.
int drawing_threads(const EngineInfo& info) {
  return info.memory.device_limit > 0 ? default_thread_count() : info.num_threads;
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Calls the consumer; what it throws becomes the error of its choice.
std::optional<Error> tell(const Job& job, std::size_t choice, const GeneratedToken& token,
                          bool& go_on) {
  if (!job.request.on_token) return std::nullopt;
  try {
    go_on = job.request.on_token(static_cast<int>(choice), token);
    return std::nullopt;
  } catch (const std::exception& failure) {
    return Error(ErrorCode::kInternal,
                 fmt::format("the consumer of the tokens threw: {}", failure.what()));
  } catch (...) {
    return Error(ErrorCode::kInternal, "the consumer of the tokens threw");
  }
}

void count_end(EndReason reason, SchedulerStats& stats) {
  switch (reason) {
    case EndReason::kStopToken:
    case EndReason::kConsumer:
    case EndReason::kMaxTokens:
      ++stats.finished;
      return;
    case EndReason::kCancelled:
      ++stats.cancelled;
      return;
    case EndReason::kDeadline:
      ++stats.timed_out;
      return;
    case EndReason::kFailed:
      ++stats.failed;
      return;
  }
}

}  // namespace

Batcher::Batcher(std::shared_ptr<Engine> engine, const SchedulerOptions& options)
    : engine_(std::move(engine)),
      options_(options),
      reuse_(engine_, options.reuse, *options.prefix_bytes),
      pool_(drawing_threads(engine_->info())) {
  jobs_.reserve(static_cast<std::size_t>(options.max_running));
  constexpr std::uint64_t kMost = std::uint64_t{1} << 18;
  const EngineInfo& info = engine_->info();
  const auto items = [&](std::uint64_t bytes, std::int64_t each) {
    return each == 0 ? 0 : std::min(kMost, bytes / static_cast<std::uint64_t>(each));
  };
  const std::uint64_t slots = 2 * static_cast<std::uint64_t>(options.max_running) +
                              items(*options.prefix_bytes, info.state_bytes);
  SessionAccess::reserve(
      *engine_,
      static_cast<std::int64_t>(std::min(slots, items(*options.state_bytes, info.state_bytes))),
      static_cast<std::int64_t>(
          items(*options.state_bytes, info.cache_bytes_per_token * kBlockTokens)));
}

bool Batcher::has_room(const Job& job) const {
  return stats_.running + job.open_choices() <= options_.max_running &&
         stats_.reserved_bytes + job.most_bytes <= *options_.state_bytes;
}

void Batcher::admit(std::unique_ptr<Job> given) {
  given->admitted = Clock::now();
  stats_.running += given->open_choices();
  jobs_.push_back(std::move(given));
  Job& job = *jobs_.back();
  try {
    reuse_.begin(job);
    // After the state that it goes on from was taken.
    reserve(job, true);
  } catch (const Error& error) {
    end_job(job, EndReason::kFailed, error);
  } catch (const std::exception& failure) {
    end_job(job, EndReason::kFailed, Error(ErrorCode::kInternal, failure.what()));
  }
}

void Batcher::reserve(Job& job, bool reserved) {
  if (std::exchange(job.reserved, reserved) == reserved) return;
  if (reserved) {
    stats_.reserved_bytes += job.most_bytes;
  } else {
    stats_.reserved_bytes -= job.most_bytes;
  }
  reuse_.set_limit(*options_.state_bytes - stats_.reserved_bytes);
}

void Batcher::step() {
  const Clock::time_point begin = Clock::now();
  end_late();
  items_.clear();
  owners_.clear();
  drawings_.clear();
  plan_generating();
  plan_reading();
  if (!items_.empty() && forward()) {
    collect();
    draw_all();
    hand_out_all();
  }
  ++stats_.steps;
  stats_.step_seconds += seconds_since(begin);
}

void Batcher::end_choice(Job& job, std::size_t choice, EndReason reason,
                         std::optional<Error> error) {
  Stream& stream = job.streams[choice];
  const Clock::time_point now = Clock::now();
  GenerationEnd end{.reason = reason, .error = std::move(error)};
  end.prompt_tokens = static_cast<std::int64_t>(job.request.prompt.size());
  end.reused_tokens = job.reading.begin;
  end.generated_tokens = static_cast<std::int64_t>(stream.ids.size());
  end.queued = job.admitted.value_or(now) - job.submitted;
  if (stream.first_token) end.to_first_token = *stream.first_token - job.submitted;
  end.total = now - job.submitted;
  stream.end = std::move(end);
  stream.ended = true;
  // What the last choice had is from here on the kept states'.
  if (job.open_choices() == 0) reserve(job, false);
  if (reason != EndReason::kFailed) reuse_.keep_answer(job, choice);
  stream.session.reset();
  if (job.open_choices() == 0) {
    reuse_.end_reading(job);
    job.session.reset();
  }
  count_end(reason, stats_);
  endings_.push_back({&job, choice});
}

void Batcher::end_job(Job& job, EndReason reason, const std::optional<Error>& error) {
  for (std::size_t i = 0; i < job.streams.size(); ++i) {
    if (!job.streams[i].ended) end_choice(job, i, reason, error);
  }
}

void Batcher::end_all(EndReason reason, const std::optional<Error>& error) {
  for (auto& job : jobs_) end_job(*job, reason, error);
}

void Batcher::end_late() {
  const Clock::time_point now = Clock::now();
  for (auto& job : jobs_) {
    if (job->ticket->cancelled()) end_job(*job, EndReason::kCancelled);
    if (job->request.deadline && *job->request.deadline <= now) {
      end_job(*job, EndReason::kDeadline);
    }
  }
}

void Batcher::plan_generating() {
  for (auto& job : jobs_) {
    for (std::size_t i = 0; i < job->streams.size(); ++i) {
      Stream& stream = job->streams[i];
      if (!stream.session) continue;
      items_.push_back({.session = &*stream.session,
                        .tokens = std::span(stream.ids).last(1),
                        .origin = Origin::kGenerated,
                        .draw = draw_request(stream)});
      owners_.push_back({job.get(), i});
    }
  }
}

// Where logits are a device's, they stay there if they can.
const DrawRequest* Batcher::draw_request(Stream& stream) const {
  if (engine_->info().memory.device_limit == 0) return nullptr;
  // One token further on.
  stream.draw =
      stream.sampler.draw_request(static_cast<std::uint64_t>(stream.session->position() + 1));
  return stream.draw ? &*stream.draw : nullptr;
}

void Batcher::plan_reading() {
  std::vector<Job*> readers;
  std::vector<PromptPart> parts;
  for (auto& job : jobs_) {
    if (!job->reads()) continue;
    if (job->pending) {
      items_.push_back({.session = &*job->session,
                        .tokens = std::span(&*job->pending, 1),
                        .origin = Origin::kGenerated});
      owners_.push_back({job.get(), std::nullopt});
      continue;
    }
    readers.push_back(job.get());
    const std::int64_t stop = job->stops.empty() ? job->reading.length : job->stops.front();
    parts.push_back({job->session->position(), stop - job->read});
  }
  if (readers.empty()) return;
  const std::vector<std::int64_t> rows = share_rows(parts, prompt_rows(), turn_++);
  for (std::size_t i = 0; i < readers.size(); ++i) {
    if (rows[i] == 0) continue;
    Job& job = *readers[i];
    items_.push_back({.session = &*job.session,
                      .tokens = std::span(job.request.prompt)
                                    .subspan(static_cast<std::size_t>(job.read),
                                             static_cast<std::size_t>(rows[i])),
                      .origin = Origin::kPrompt,
                      .last_logits = job.read + rows[i] == job.reading.length});
    owners_.push_back({&job, std::nullopt});
  }
}

// What makes one pass of the step where that is possible: all of it where nobody generates.
std::int64_t Batcher::prompt_rows() const {
  const std::int64_t pass = engine_->info().max_batch_rows;
  if (items_.empty()) return std::max(pass, options_.prompt_rows);
  const std::int64_t left = pass - static_cast<std::int64_t>(items_.size());
  return std::clamp(left / kBlockTokens * kBlockTokens, kBlockTokens, options_.prompt_rows);
}

bool Batcher::forward() {
  const Clock::time_point begin = Clock::now();
  std::optional<Error> error;
  try {
    engine_->forward(items_);
  } catch (const Error& failure) {
    error = failure;
  } catch (const std::exception& failure) {
    error = Error(ErrorCode::kInternal, failure.what());
  }
  stats_.forward_seconds += seconds_since(begin);
  if (!error) return true;
  for (const Owner& owner : owners_) end_job(*owner.job, EndReason::kFailed, error);
  return false;
}

void Batcher::collect() {
  bool gave_up_states = false;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const Owner& owner = owners_[i];
    const std::optional<Error>& error = items_[i].error;
    if (error && error->code() == ErrorCode::kOutOfMemory &&
        (gave_up_states || reuse_.bytes() > 0)) {
      // The sequence is as it was: it takes part in the next step, with what this frees.
      reuse_.give_up_all();
      gave_up_states = true;
    } else if (error && owner.choice) {
      end_choice(*owner.job, *owner.choice, EndReason::kFailed, error);
    } else if (error) {
      end_job(*owner.job, EndReason::kFailed, error);
    } else if (owner.choice) {
      drawings_.push_back({.job = owner.job, .choice = *owner.choice});
      if (const auto& drawn = items_[i].drawn) {
        drawings_.back().drawn = {.token = drawn->token, .logprob = drawn->logprob, .top = {}};
      }
    } else {
      note_read(*owner.job, items_[i]);
    }
  }
}

void Batcher::note_read(Job& job, const BatchItem& item) {
  if (item.origin == Origin::kGenerated) {
    job.pending.reset();
  } else {
    job.read += static_cast<std::int64_t>(item.tokens.size());
    stats_.prompt_tokens += item.tokens.size();
    reuse_.note_read(job);
  }
  if (job.read == job.reading.length) start_generating(job);
}

void Batcher::start_generating(Job& job) {
  const std::size_t count = job.streams.size();
  reuse_.end_reading(job);
  SessionAccess::close_prompt(*job.session);
  for (std::size_t i = 1; i < count; ++i) {
    try {
      job.streams[i].session.emplace(job.session->fork());
    } catch (const Error& error) {
      end_choice(job, i, EndReason::kFailed, error);
    }
  }
  job.streams[0].session = std::move(job.session);
  job.session.reset();
  for (std::size_t i = 0; i < count; ++i) {
    if (!job.streams[i].ended) drawings_.push_back({.job = &job, .choice = i});
  }
}

void Batcher::draw(Drawing& drawing) {
  if (drawing.drawn) return;
  Stream& stream = drawing.job->streams[drawing.choice];
  try {
    drawing.drawn = stream.sampler.choose(stream.session->logits(),
                                          static_cast<std::uint64_t>(stream.session->position()));
  } catch (const Error& error) {
    drawing.error = error;
  } catch (const std::exception& failure) {
    drawing.error = Error(ErrorCode::kInternal, failure.what());
  } catch (...) {
    drawing.error = Error(ErrorCode::kInternal, "the choice of a token threw");
  }
}

// Each choice has a sampler and a constraint of its own, so that drawings do not meet.
void Batcher::draw_all() {
  const auto count = static_cast<std::int64_t>(drawings_.size());
  const auto open = static_cast<std::int64_t>(
      std::ranges::count_if(drawings_, [](const Drawing& drawing) { return !drawing.drawn; }));
  if (open < 2 || open * engine_->info().vocab_size < kLogitsWorthThreads) {
    for (Drawing& drawing : drawings_) draw(drawing);
    return;
  }
  pool_.parallel_for(count, 1, [&](std::int64_t begin, std::int64_t end, int /*worker*/) {
    for (std::int64_t i = begin; i < end; ++i) draw(drawings_[static_cast<std::size_t>(i)]);
  });
}

void Batcher::hand_out_all() {
  if (drawings_.empty()) return;
  const auto all = [this] {
    for (Drawing& drawing : drawings_) hand_out(drawing);
  };
  if (options_.around_tokens) {
    options_.around_tokens(all);
  } else {
    all();
  }
}

void Batcher::hand_out(Drawing& drawing) {
  Job& job = *drawing.job;
  const std::size_t choice = drawing.choice;
  if (drawing.error) return end_choice(job, choice, EndReason::kFailed, std::move(drawing.error));
  Stream& stream = job.streams[choice];
  GeneratedToken token;
  token.choice = std::move(*drawing.drawn);
  const TokenId id = token.choice.token;
  token.index = static_cast<std::int64_t>(stream.ids.size());
  token.is_stop = std::ranges::find(job.request.stop_ids, id) != job.request.stop_ids.end();
  stream.ids.push_back(id);
  if (!stream.first_token) stream.first_token = Clock::now();
  ++stats_.generated_tokens;

  bool go_on = true;
  std::optional<Error> error = tell(job, choice, token, go_on);
  if (error) {
    end_choice(job, choice, EndReason::kFailed, std::move(error));
  } else if (token.is_stop) {
    end_choice(job, choice, EndReason::kStopToken);
  } else if (!go_on) {
    end_choice(job, choice, EndReason::kConsumer);
  } else if (token.index + 1 == job.request.max_tokens) {
    end_choice(job, choice, EndReason::kMaxTokens);
  }
}

std::vector<std::unique_ptr<Job>> Batcher::take_finished() {
  std::vector<std::unique_ptr<Job>> ended;
  stats_.running = 0;
  for (auto& job : jobs_) {
    if (job->open_choices() == 0) {
      ended.push_back(std::move(job));
    } else {
      stats_.running += job->open_choices();
    }
  }
  std::erase(jobs_, nullptr);
  return ended;
}

SchedulerStats Batcher::stats() const {
  SchedulerStats stats = stats_;
  reuse_.report(stats);
  return stats;
}

}  // namespace baltoro
