// Shorthand for tests that send requests to a scheduler and compare them with solo runs.
#pragma once

#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "baltoro/generate.h"
#include "baltoro/scheduler.h"
#include "baltoro/session.h"

namespace baltoro {

// What the choices of one request gave; fills itself from the scheduler's thread.
class Answer {
 public:
  // The request that reports here. Choices end where `stop_after` tokens have come, if not 0.
  GenerationRequest request(std::vector<TokenId> prompt, std::int64_t max_tokens,
                            int num_choices = 1) {
    ids_.resize(static_cast<std::size_t>(num_choices));
    ends_.resize(ids_.size());
    ended_.resize(ids_.size());
    GenerationRequest request;
    request.prompt = std::move(prompt);
    request.max_tokens = max_tokens;
    request.num_choices = num_choices;
    request.sampling = {.temperature = 0.8f, .seed = 7};
    request.on_token = [this](int choice, const GeneratedToken& token) {
      const std::lock_guard lock(mutex_);
      ids_[static_cast<std::size_t>(choice)].push_back(token.choice.token);
      changed_.notify_all();
      return true;
    };
    request.on_end = [this](int choice, const GenerationEnd& end) {
      const std::lock_guard lock(mutex_);
      const auto i = static_cast<std::size_t>(choice);
      EXPECT_EQ(ended_[i], 0) << "on_end came twice";
      ended_[i] = 1;
      ends_[i] = end;
      changed_.notify_all();
    };
    return request;
  }

  // Wait for the end of all choices.
  const std::vector<TokenId>& ids(std::size_t choice = 0) { return wait(), ids_[choice]; }
  const GenerationEnd& end(std::size_t choice = 0) { return wait(), ends_[choice]; }

  void wait_for_tokens(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ids_[0].size() >= count; });
  }
  bool has_ended() {
    const std::lock_guard lock(mutex_);
    return std::ranges::count(ended_, 1) == std::ssize(ended_);
  }
  std::size_t tokens_so_far() {
    const std::lock_guard lock(mutex_);
    return ids_[0].size();
  }

 private:
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return std::ranges::count(ended_, 1) == std::ssize(ended_); });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::vector<TokenId>> ids_;
  std::vector<GenerationEnd> ends_;
  std::vector<int> ended_;
};

// What a session alone answers to the same request.
inline std::vector<TokenId> solo(Engine& engine, const GenerationRequest& request, int choice = 0) {
  Session session = engine.new_session();
  session.prefill(request.prompt);
  GenerateOptions options{.sampling = request.sampling,
                          .max_tokens = request.max_tokens,
                          .stop_ids = request.stop_ids,
                          .stop_strings = {},
                          .banned = request.banned};
  options.sampling.seed += static_cast<std::uint64_t>(choice);
  return generate(session, nullptr, options).ids;
}

}  // namespace baltoro
