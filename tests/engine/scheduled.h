// Shorthand for tests that send requests to a scheduler and compare them with solo runs.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "baltoro/generate.h"
#include "baltoro/scheduler.h"
#include "baltoro/session.h"
#include "engine/sessions.h"

namespace baltoro {

inline std::vector<TokenId> operator+(std::vector<TokenId> a, const std::vector<TokenId>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// What the choices of one request gave; fills itself from the scheduler's thread.
class Answer {
 public:
  // The request that reports here.
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
    request.banned = {kNanToken};
    request.on_token = [this](int choice, const GeneratedToken& token) {
      const std::lock_guard lock(mutex_);
      ids_[static_cast<std::size_t>(choice)].push_back(token.choice.token);
      choices_.push_back(token.choice);
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
  // Of all choices, as they came.
  const std::vector<Choice>& choices() { return wait(), choices_; }

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
  std::vector<Choice> choices_;
  std::vector<GenerationEnd> ends_;
  std::vector<int> ended_;
};

// What a session that has read its prompt answers to the request.
inline std::vector<Choice> answer_of(Session& session, const GenerationRequest& request,
                                     int choice = 0) {
  GenerateOptions options{.sampling = request.sampling,
                          .max_tokens = request.max_tokens,
                          .stop_ids = request.stop_ids,
                          .stop_strings = {},
                          .banned = request.banned};
  options.sampling.seed += static_cast<std::uint64_t>(choice);
  std::vector<Choice> choices;
  generate(session, nullptr, options, [&](const GeneratedToken& token) {
    choices.push_back(token.choice);
    return true;
  });
  return choices;
}

inline std::vector<Choice> cold(Engine& engine, const GenerationRequest& request) {
  Session session = engine.new_session();
  session.prefill(request.prompt);
  return answer_of(session, request);
}

inline std::vector<TokenId> ids_of(const std::vector<Choice>& choices) {
  std::vector<TokenId> ids;
  for (const Choice& choice : choices) ids.push_back(choice.token);
  return ids;
}

// What a session alone answers to the same request.
inline std::vector<TokenId> solo(Engine& engine, const GenerationRequest& request, int choice = 0) {
  Session session = engine.new_session();
  session.prefill(request.prompt);
  return ids_of(answer_of(session, request, choice));
}

// All that was reported, bit for bit: with num_logprobs at least the vocabulary, all logits up to
// their common norm.
inline ::testing::AssertionResult same_choices(const std::vector<Choice>& a,
                                               const std::vector<Choice>& b) {
  if (ids_of(a) != ids_of(b)) return ::testing::AssertionFailure() << "the tokens differ";
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].top.size() != b[i].top.size()) return ::testing::AssertionFailure() << "at " << i;
    for (std::size_t k = 0; k < a[i].top.size(); ++k) {
      const TokenLogprob &x = a[i].top[k], &y = b[i].top[k];
      if (x.token != y.token || std::memcmp(&x.logprob, &y.logprob, sizeof(float)) != 0) {
        return ::testing::AssertionFailure()
               << "token " << i << ", rank " << k << ": " << x.token << " " << x.logprob << " and "
               << y.token << " " << y.logprob;
      }
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace baltoro
