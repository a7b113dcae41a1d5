#include "engine/job.h"

#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "engine/state_budget.h"

namespace baltoro {
namespace {

void check_ids(const std::vector<TokenId>& ids, const char* what, std::int64_t vocab_size) {
  for (TokenId id : ids) {
    if (id < 0 || id >= vocab_size) {
      fail(ErrorCode::kUsage, "{}: token id {} is outside the vocabulary [0, {})", what, id,
           vocab_size);
    }
  }
}

void check(const GenerationRequest& request, const EngineInfo& info, int max_choices) {
  if (request.prompt.empty()) {
    fail(ErrorCode::kUsage, "the prompt has no tokens; it needs at least one");
  }
  if (request.max_tokens < 1 || request.max_tokens > kMostTokens) {
    fail(ErrorCode::kUsage, "max_tokens is {}; it must be between 1 and {}", request.max_tokens,
         kMostTokens);
  }
  if (request.num_choices < 1 || request.num_choices > max_choices) {
    fail(ErrorCode::kUsage, "{} choices are asked for; there must be 1 to {}, the size of a batch",
         request.num_choices, max_choices);
  }
  check_ids(request.prompt, "prompt", info.vocab_size);
  check_ids(request.stop_ids, "stop_ids", info.vocab_size);
  check_ids(request.banned, "banned", info.vocab_size);
  for (const TokenBias& entry : request.sampling.logit_bias) {
    check_ids({entry.token}, "logit_bias", info.vocab_size);
  }
  const auto choices = static_cast<std::size_t>(request.num_choices);
  if (!request.constraints.empty() && request.constraints.size() != choices) {
    fail(ErrorCode::kUsage, "there are {} constraints for {} choices; give one for each, or none",
         request.constraints.size(), choices);
  }
}

void check_fits(const GenerationRequest& request, const EngineInfo& info, std::uint64_t needed,
                std::uint64_t state_bytes) {
  if (needed <= state_bytes) return;
  const auto prompt_tokens = static_cast<std::int64_t>(request.prompt.size());
  fail(
      ErrorCode::kDoesNotFit,
      "a prompt of {} tokens and {} answers of up to {} take up to {} bytes of state, the limit is "
      "{}; ask for at most {} tokens",
      prompt_tokens, request.num_choices, request.max_tokens, needed, state_bytes,
      most_tokens(info, prompt_tokens, request.num_choices, state_bytes));
}

}  // namespace

std::unique_ptr<Job> make_job(GenerationRequest request, const EngineInfo& info, int max_choices,
                              std::uint64_t state_bytes) {
  check(request, info, max_choices);
  auto job = std::make_unique<Job>();
  job->most_bytes = request_bytes(info, static_cast<std::int64_t>(request.prompt.size()),
                                  request.max_tokens, request.num_choices);
  check_fits(request, info, job->most_bytes, state_bytes);
  job->submitted = Clock::now();
  job->ticket = std::make_shared<Ticket>();
  SamplingParams sampling = request.sampling;
  for (int i = 0; i < request.num_choices; ++i) {
    const auto constraint =
        request.constraints.empty() ? nullptr : request.constraints[static_cast<std::size_t>(i)];
    job->streams.push_back({.sampler = Sampler(sampling, request.banned, constraint)});
    job->streams.back().sampler.read_prompt(request.prompt);
    ++sampling.seed;
  }
  job->request = std::move(request);
  return job;
}

void tell_end(const Job& job, std::size_t choice) {
  if (!job.request.on_end) return;
  try {
    job.request.on_end(static_cast<int>(choice), job.streams[choice].end);
  } catch (const std::exception& failure) {
    log::warning("the consumer of a request threw at its end: {}", failure.what());
  } catch (...) {
    log::warning("the consumer of a request threw at its end");
  }
}

}  // namespace baltoro
