#include "engine/batcher.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/error.h"
#include "engine/prompt_rows.h"
#include "ops/batch.h"

namespace baltoro {
namespace {

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
    : engine_(std::move(engine)), options_(options) {}

bool Batcher::has_room(const Job& job) const {
  return stats_.running + job.open_choices() <= options_.max_running;
}

void Batcher::admit(std::unique_ptr<Job> job) {
  job->admitted = Clock::now();
  stats_.running += job->open_choices();
  jobs_.push_back(std::move(job));
  try {
    jobs_.back()->session.emplace(engine_->new_session());
  } catch (const Error& error) {
    end_job(*jobs_.back(), EndReason::kFailed, error);
  }
}

void Batcher::step() {
  const Clock::time_point begin = Clock::now();
  end_late();
  items_.clear();
  owners_.clear();
  plan_generating();
  plan_reading();
  if (!items_.empty() && forward()) collect();
  ++stats_.steps;
  stats_.step_seconds += seconds_since(begin);
}

void Batcher::end_choice(Job& job, std::size_t choice, EndReason reason,
                         std::optional<Error> error) {
  Stream& stream = job.streams[choice];
  const Clock::time_point now = Clock::now();
  GenerationEnd end{.reason = reason, .error = std::move(error)};
  end.prompt_tokens = static_cast<std::int64_t>(job.request.prompt.size());
  end.reused_tokens = job.reused;
  end.generated_tokens = static_cast<std::int64_t>(stream.ids.size());
  end.queued = job.admitted.value_or(now) - job.submitted;
  if (stream.first_token) end.to_first_token = *stream.first_token - job.submitted;
  end.total = now - job.submitted;
  stream.end = std::move(end);
  stream.ended = true;
  stream.session.reset();
  if (job.open_choices() == 0) job.session.reset();
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
                        .origin = Origin::kGenerated});
      owners_.push_back({job.get(), i});
    }
  }
}

void Batcher::plan_reading() {
  std::vector<Job*> readers;
  std::vector<PromptPart> parts;
  for (auto& job : jobs_) {
    if (!job->reads()) continue;
    readers.push_back(job.get());
    parts.push_back({job->session->position(),
                     static_cast<std::int64_t>(job->request.prompt.size()) - job->read});
  }
  if (readers.empty()) return;
  const std::vector<std::int64_t> rows = share_rows(parts, options_.prompt_rows, turn_++);
  for (std::size_t i = 0; i < readers.size(); ++i) {
    if (rows[i] == 0) continue;
    Job& job = *readers[i];
    items_.push_back({.session = &*job.session,
                      .tokens = std::span(job.request.prompt)
                                    .subspan(static_cast<std::size_t>(job.read),
                                             static_cast<std::size_t>(rows[i])),
                      .origin = Origin::kPrompt});
    owners_.push_back({&job, std::nullopt});
  }
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
  for (std::size_t i = 0; i < items_.size(); ++i) {
    Job& job = *owners_[i].job;
    const std::optional<std::size_t> choice = owners_[i].choice;
    const std::optional<Error>& error = items_[i].error;
    if (choice && error) {
      end_choice(job, *choice, EndReason::kFailed, error);
    } else if (choice) {
      choose_next(job, *choice);
    } else if (error) {
      end_job(job, EndReason::kFailed, error);
    } else {
      note_read(job, static_cast<std::int64_t>(items_[i].tokens.size()));
    }
  }
}

void Batcher::note_read(Job& job, std::int64_t tokens) {
  job.read += tokens;
  stats_.prompt_tokens += static_cast<std::uint64_t>(tokens);
  if (job.read == static_cast<std::int64_t>(job.request.prompt.size())) start_generating(job);
}

void Batcher::start_generating(Job& job) {
  const std::size_t count = job.streams.size();
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
    if (!job.streams[i].ended) choose_next(job, i);
  }
}

void Batcher::choose_next(Job& job, std::size_t choice) {
  Stream& stream = job.streams[choice];
  GeneratedToken token;
  try {
    token.choice = stream.sampler.choose(stream.session->logits(),
                                         static_cast<std::uint64_t>(stream.session->position()));
  } catch (const Error& error) {
    end_choice(job, choice, EndReason::kFailed, error);
    return;
  }
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

}  // namespace baltoro
