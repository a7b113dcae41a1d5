#include "serve/api/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "serve/api/transcript.h"

namespace baltoro::serve {
namespace {

HttpError refusal(const Submission& submission) {
  const int wait = static_cast<int>(submission.retry_after.count());
  switch (submission.refusal) {
    case Refusal::kClientLimit:
      return {.status = 429,
              .message = fmt::format("this client has as many requests as it may have; try again "
                                     "in {} s, or when one of them has ended",
                                     wait),
              .code = "rate_limit_exceeded",
              .retry_after_seconds = wait};
    case Refusal::kDraining:
      return {.status = 503,
              .message = "the server is stopping and accepts no more requests",
              .code = "shutting_down",
              .retry_after_seconds = wait};
    case Refusal::kQueueFull:
    case Refusal::kNone:
      break;
  }
  return {.status = 429,
          .message = fmt::format("the queue of the server is full; try again in {} s", wait),
          .code = "queue_full",
          .retry_after_seconds = wait};
}

HttpError failure(const GenerationEnd& end) {
  if (end.error) return describe(*end.error);
  if (end.reason == EndReason::kDeadline) {
    return {.status = 504,
            .message = fmt::format("the request was not done after {:.0f} s, the server's limit",
                                   end.total.count()),
            .code = "timeout"};
  }
  return {.status = 503,
          .message = "the server ended the request before its answer was complete",
          .code = "cancelled"};
}

class Generation : public std::enable_shared_from_this<Generation> {
 public:
  Generation(std::shared_ptr<Service> service, AnswerRequest request,
             std::shared_ptr<HttpReply> reply, std::unique_ptr<Responder> responder)
      : service_(std::move(service)),
        request_(std::move(request)),
        reply_(std::move(reply)),
        responder_(std::move(responder)) {
    for (int i = 0; i < request_.total_choices(); ++i) {
      readers_.emplace_back(service_->model, request_);
    }
  }

  void start() {
    const auto arrival = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < request_.prompts.size(); ++i) {
      Submission submission;
      try {
        submission = service_->model.submit(submission_of(i, arrival));
        if (submission.ticket == nullptr) throw RequestError(refusal(submission));
      } catch (const std::exception& error) {
        return fail(describe(error));
      }
      const std::lock_guard lock(mutex_);
      tickets_.push_back(std::move(submission.ticket));
      submitted_.notify_all();
    }
    {
      const std::lock_guard lock(mutex_);
      begin();
    }
    reply_->on_close([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->give_up();
    });
  }

 private:
  GenerationRequest submission_of(std::size_t prompt_idx,
                                  std::chrono::steady_clock::time_point arrival) {
    const Model& model = service_->model;
    GenerationRequest out;
    out.prompt = request_.prompts[prompt_idx];
    out.sampling = request_.fields.sampling;
    out.max_tokens = request_.max_tokens;
    out.num_choices = request_.fields.num_choices;
    out.client = request_.client;
    out.banned = model.banned;
    if (!request_.fields.ignore_eos) {
      out.stop_ids = model.generation.stop_ids;
      if (request_.conversation != nullptr) {
        for (const TokenId id : model.require_format().stop_ids()) out.stop_ids.push_back(id);
      }
    }
    out.constraints = std::move(request_.constraints);
    if (model.timeout) out.deadline = arrival + *model.timeout;
    const int first = static_cast<int>(prompt_idx) * request_.fields.num_choices;
    out.on_token = [self = shared_from_this(), first](int choice, const GeneratedToken& token) {
      return self->on_token(first + choice, token);
    };
    out.on_end = [self = shared_from_this(), first](int choice, const GenerationEnd& end) {
      self->service_->finisher.post(
          [self, choice, first, end] { self->finish(first + choice, end); });
    };
    return out;
  }

  // On the scheduler's thread.
  bool on_token(int choice, const GeneratedToken& token) {
    // The ticket ends the choice within a step, as one that was cancelled.
    if (given_up_.load(std::memory_order_relaxed)) return true;
    reply_->note_token(choice);
    ChoiceReader& reader = readers_[static_cast<std::size_t>(choice)];
    const AnswerStep step = reader.feed(token);
    if (!step.empty()) {
      const std::lock_guard lock(mutex_);
      begin();
      if (!over_) responder_->step(choice, step);
    }
    return !reader.done();
  }

  // On the finisher's thread, after the choice's last token.
  void finish(int choice, const GenerationEnd& end) {
    count(choice, end);
    if (given_up_) return;
    try {
      const bool failed = end.error || end.reason == EndReason::kCancelled ||
                          end.reason == EndReason::kDeadline || end.reason == EndReason::kFailed;
      if (failed) return fail(failure(end));
      ChoiceReader& reader = readers_[static_cast<std::size_t>(choice)];
      const AnswerStep step = reader.finish(end.reason == EndReason::kStopToken);
      ChoiceEnd choice_end{.result = reader.result()};
      if (const std::string* stop = reader.matched_stop()) choice_end.stop = *stop;
      remember(choice, reader, choice_end.result);
      add(choice, step, choice_end);
    } catch (const std::exception& error) {
      fail(describe(error));
    }
  }

  // What the choice took, however it ended.
  void count(int choice, const GenerationEnd& end) {
    const std::lock_guard lock(mutex_);
    if (choice % request_.fields.num_choices == 0) {  // the choices share their prompt
      usage_.prompt += end.prompt_tokens;
      usage_.cached += end.reused_tokens;
    }
    usage_.completion += end.generated_tokens;
    usage_.reasoning += readers_[static_cast<std::size_t>(choice)].reasoning_tokens();
    reply_->note_usage({.prompt_tokens = usage_.prompt,
                        .reused_tokens = usage_.cached,
                        .completion_tokens = usage_.completion});
  }

  void add(int choice, const AnswerStep& step, const ChoiceEnd& choice_end) {
    const std::lock_guard lock(mutex_);
    begin();
    if (over_) return;
    if (!step.empty()) responder_->step(choice, step);
    responder_->end(choice, choice_end);
    if (++num_ended_ < request_.total_choices()) return;
    over_ = true;
    responder_->complete(usage_);
  }

  void remember(int choice, const ChoiceReader& reader, const ChatResult& result) {
    if (request_.conversation == nullptr || !service_->model.remember) return;
    auto ids = next_prompt_ids(service_->model, request_, reader.ids(), result);
    if (ids.empty()) return;
    std::shared_ptr<Ticket> ticket;
    {
      // The choice may have ended before submit() returned.
      std::unique_lock lock(mutex_);
      submitted_.wait(lock, [&] { return !tickets_.empty() || given_up_; });
      if (given_up_) return;
      ticket = tickets_.front();
    }
    service_->model.remember(ticket, choice, std::move(ids));
  }

  void fail(const HttpError& error) {
    give_up();
    const std::lock_guard lock(mutex_);
    if (std::exchange(over_, true)) return;
    responder_->fail(error);
  }

  // Nobody waits for what still runs.
  void give_up() {
    const std::lock_guard lock(mutex_);
    given_up_ = true;
    for (const auto& ticket : tickets_) ticket->cancel();
    submitted_.notify_all();
  }

  // With mutex_ held: before the first event, whoever has it.
  void begin() {
    if (std::exchange(begun_, true) || over_) return;
    responder_->begin();
  }

  std::shared_ptr<Service> service_;
  AnswerRequest request_;
  std::shared_ptr<HttpReply> reply_;
  // Each is the scheduler's until its choice has ended, and then the finisher's.
  std::vector<ChoiceReader> readers_;
  std::atomic<bool> given_up_ = false;

  std::mutex mutex_;  // for the rest
  std::condition_variable submitted_;
  std::vector<std::shared_ptr<Ticket>> tickets_;
  std::unique_ptr<Responder> responder_;
  Usage usage_;
  int num_ended_ = 0;
  bool begun_ = false;
  bool over_ = false;
};

}  // namespace

void start_generation(std::shared_ptr<Service> service, AnswerRequest request,
                      std::shared_ptr<HttpReply> reply, std::unique_ptr<Responder> responder) {
  std::make_shared<Generation>(std::move(service), std::move(request), std::move(reply),
                               std::move(responder))
      ->start();
}

}  // namespace baltoro::serve
