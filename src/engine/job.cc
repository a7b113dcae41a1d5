#include "engine/job.h"

#include <utility>

#include "core/error.h"
#include "core/log.h"

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
  if (request.max_tokens < 1) {
    fail(ErrorCode::kUsage, "max_tokens is {}; it must be at least 1", request.max_tokens);
  }
  if (request.num_choices < 1 || request.num_choices > max_choices) {
    fail(ErrorCode::kUsage, "{} choices are asked for; there must be 1 to {}, the size of a batch",
         request.num_choices, max_choices);
  }
  check_ids(request.prompt, "prompt", info.vocab_size);
  check_ids(request.stop_ids, "stop_ids", info.vocab_size);
  check_ids(request.banned, "banned", info.vocab_size);
}

}  // namespace

std::unique_ptr<Job> make_job(GenerationRequest request, const EngineInfo& info, int max_choices) {
  check(request, info, max_choices);
  auto job = std::make_unique<Job>();
  job->submitted = Clock::now();
  job->ticket = std::make_shared<Ticket>();
  SamplingParams sampling = request.sampling;
  for (int i = 0; i < request.num_choices; ++i) {
    job->streams.push_back({.sampler = Sampler(sampling, request.banned)});
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
