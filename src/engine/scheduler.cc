// The outside of the scheduler: the queue, the thread, the counters that others read.
#include "baltoro/scheduler.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.h"
#include "engine/batcher.h"
#include "engine/job.h"
#include "engine/request_queue.h"
#include "engine/state_budget.h"
#include "ops/batch.h"

namespace baltoro {
namespace {

void check(const SchedulerOptions& options) {
  constexpr int kMostRunning = 4096;
  if (options.max_running < 1 || options.max_running > kMostRunning) {
    fail(ErrorCode::kUsage, "max_running: {} must be between 1 and {}", options.max_running,
         kMostRunning);
  }
  if (options.max_per_client < 0) {
    fail(ErrorCode::kUsage, "max_per_client: {} must be at least 0 (0 is no limit)",
         options.max_per_client);
  }
  if (options.prompt_rows < kBlockTokens || options.prompt_rows % kBlockTokens != 0) {
    fail(ErrorCode::kUsage, "prompt_rows: {} must be a positive multiple of {}",
         options.prompt_rows, kBlockTokens);
  }
}

SchedulerOptions with_limits(SchedulerOptions options, const EngineInfo& info) {
  if (!options.state_bytes) options.state_bytes = default_state_bytes(info);
  const std::uint64_t prefix =
      options.prefix_bytes.value_or(default_prefix_bytes(info, *options.state_bytes));
  options.prefix_bytes = std::min(prefix, *options.state_bytes);
  return options;
}

// remember(), on its way to the thread.
struct Remembered {
  std::shared_ptr<Ticket> ticket;
  std::size_t choice = 0;
  std::vector<TokenId> as_rendered;
};

}  // namespace

struct Scheduler::Impl {
  Impl(std::shared_ptr<Engine> shared_engine, const SchedulerOptions& given)
      : engine(std::move(shared_engine)),
        options(with_limits(given, engine->info())),
        batcher(engine, options),
        thread([this] { run(); }) {}
  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    wake.notify_one();
    thread.join();
  }

  void run();
  // Waits for work. False: stop.
  bool wait_for_work();
  void note_remembered();
  void end_waiting(std::vector<std::unique_ptr<Job>>& finished);
  void admit();
  void step();
  // Counts, then tells the consumers, who may at once come with their next request.
  void settle(std::vector<std::unique_ptr<Job>> finished);

  Submission refuse(Refusal reason);
  std::chrono::seconds estimate_wait() const;

  const std::shared_ptr<Engine> engine;
  const SchedulerOptions options;

  mutable std::mutex mutex;  // guards what stands here
  std::condition_variable wake;
  std::condition_variable idle;
  RequestQueue queue;
  std::map<std::string, int> requests_of_client;  // waiting and running
  std::size_t open_requests = 0;  // whose consumers have not been told that they ended
  std::vector<Remembered> remembered;
  bool draining = false;
  bool stopping = false;
  SchedulerStats counters;        // `accepted`, `refused`, and the batcher's after its last step
  double seconds_of_request = 1;  // a running mean, from admission to end

  Batcher batcher;  // of the thread alone
  std::thread thread;
};

void Scheduler::Impl::run() {
  while (wait_for_work()) {
    std::vector<std::unique_ptr<Job>> finished;
    end_waiting(finished);
    note_remembered();
    admit();
    step();
    settle(std::move(finished));
  }
  batcher.end_all(EndReason::kCancelled);
  std::vector<std::unique_ptr<Job>> finished;
  end_waiting(finished);
  settle(std::move(finished));
}

bool Scheduler::Impl::wait_for_work() {
  std::unique_lock lock(mutex);
  wake.wait(lock,
            [&] { return stopping || queue.size() > 0 || !remembered.empty() || !batcher.idle(); });
  return !stopping;
}

void Scheduler::Impl::note_remembered() {
  std::vector<Remembered> news;
  {
    const std::lock_guard lock(mutex);
    news.swap(remembered);
  }
  for (const Remembered& one : news) batcher.remember(*one.ticket, one.choice, one.as_rendered);
}

void Scheduler::Impl::end_waiting(std::vector<std::unique_ptr<Job>>& finished) {
  const Clock::time_point now = Clock::now();
  const auto is_late = [&](const Job& job) {
    return job.request.deadline && *job.request.deadline <= now;
  };
  {
    const std::lock_guard lock(mutex);
    finished = queue.take_all(
        [&](const Job& job) { return stopping || job.ticket->cancelled() || is_late(job); });
  }
  for (auto& job : finished) {
    batcher.end_job(*job, is_late(*job) ? EndReason::kDeadline : EndReason::kCancelled);
  }
}

void Scheduler::Impl::admit() {
  const auto ask = [&](Job& job) {
    if (!batcher.has_room(job)) return RequestQueue::Verdict::kWait;
    return batcher.should_wait(job) ? RequestQueue::Verdict::kSkip : RequestQueue::Verdict::kTake;
  };
  while (true) {
    std::unique_ptr<Job> job;
    {
      const std::lock_guard lock(mutex);
      job = queue.take(ask);
    }
    if (job == nullptr) return;
    batcher.admit(std::move(job));
  }
}

// What nobody foresaw, such as memory that is short for the bookkeeping, ends what runs and no more.
void Scheduler::Impl::step() {
  if (batcher.idle()) return;
  try {
    batcher.step();
  } catch (const std::exception& failure) {
    batcher.end_all(EndReason::kFailed, Error(ErrorCode::kInternal, failure.what()));
  }
}

void Scheduler::Impl::settle(std::vector<std::unique_ptr<Job>> finished) {
  for (auto& job : batcher.take_finished()) finished.push_back(std::move(job));
  {
    const std::lock_guard lock(mutex);
    for (const auto& job : finished) {
      const auto client = requests_of_client.find(job->request.client);
      if (--client->second == 0) requests_of_client.erase(client);
      if (job->admitted) {
        const std::chrono::duration<double> taken = Clock::now() - *job->admitted;
        seconds_of_request += 0.1 * (taken.count() - seconds_of_request);
      }
    }
    const std::uint64_t accepted = counters.accepted, refused = counters.refused;
    counters = batcher.stats();
    counters.accepted = accepted;
    counters.refused = refused;
  }
  for (const Batcher::Ending& ending : batcher.take_endings()) {
    tell_end(*ending.job, ending.choice);
  }
  if (finished.empty()) return;
  const std::lock_guard lock(mutex);
  open_requests -= finished.size();
  if (open_requests == 0) idle.notify_all();
}

// How long the queue takes to move on by one request.
std::chrono::seconds Scheduler::Impl::estimate_wait() const {
  const double seconds =
      seconds_of_request * static_cast<double>(queue.size() + 1) / options.max_running;
  return std::chrono::seconds(static_cast<std::int64_t>(std::clamp(seconds, 1.0, 600.0)));
}

Submission Scheduler::Impl::refuse(Refusal reason) {
  ++counters.refused;
  return {.ticket = nullptr, .refusal = reason, .retry_after = estimate_wait()};
}

Scheduler::Scheduler(std::shared_ptr<Engine> engine, const SchedulerOptions& options) {
  check(options);
  impl_ = std::make_unique<Impl>(std::move(engine), options);
}

Scheduler::~Scheduler() = default;

Submission Scheduler::submit(GenerationRequest request) {
  std::unique_ptr<Job> job = make_job(std::move(request), impl_->engine->info(),
                                      impl_->options.max_running, *impl_->options.state_bytes);
  Submission result{.ticket = job->ticket, .refusal = Refusal::kNone, .retry_after = {}};
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->draining || impl_->stopping) return impl_->refuse(Refusal::kDraining);
    const auto client = impl_->requests_of_client.find(job->request.client);
    const int open = client == impl_->requests_of_client.end() ? 0 : client->second;
    if (impl_->options.max_per_client > 0 && open >= impl_->options.max_per_client) {
      return impl_->refuse(Refusal::kClientLimit);
    }
    if (impl_->queue.size() >= impl_->options.max_waiting) {
      return impl_->refuse(Refusal::kQueueFull);
    }
    ++impl_->requests_of_client[job->request.client];
    ++impl_->open_requests;
    ++impl_->counters.accepted;
    impl_->queue.push(std::move(job));
  }
  impl_->wake.notify_one();
  return result;
}

void Scheduler::remember(const std::shared_ptr<Ticket>& ticket, int choice,
                         std::vector<TokenId> as_rendered) {
  if (ticket == nullptr || choice < 0) {
    fail(ErrorCode::kUsage, "remember: choice {} of {} ticket", choice,
         ticket == nullptr ? "no" : "a");
  }
  if (as_rendered.empty()) return;
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->remembered.push_back({ticket, static_cast<std::size_t>(choice), std::move(as_rendered)});
  }
  impl_->wake.notify_one();
}

std::int64_t Scheduler::most_tokens(std::int64_t prompt_tokens, int num_choices) const {
  return baltoro::most_tokens(impl_->engine->info(), prompt_tokens, num_choices,
                              *impl_->options.state_bytes);
}

bool Scheduler::drain(std::chrono::milliseconds timeout) {
  std::unique_lock lock(impl_->mutex);
  impl_->draining = true;
  return impl_->idle.wait_for(lock, timeout, [&] { return impl_->open_requests == 0; });
}

SchedulerStats Scheduler::stats() const {
  const std::lock_guard lock(impl_->mutex);
  SchedulerStats stats = impl_->counters;
  stats.waiting = impl_->queue.size();
  return stats;
}

const Engine& Scheduler::engine() const noexcept { return *impl_->engine; }

}  // namespace baltoro
