// What the handlers need of a loaded model. Plain data and two functions, so that tests can do without
// an engine.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "baltoro/chat.h"
#include "baltoro/scheduler.h"
#include "baltoro/tokenizer.h"

namespace baltoro::serve {

// Set before the first request, then read by many threads.
struct Model {
  // As clients may call it; answers give the first.
  std::vector<std::string> names;
  Tokenizer tokenizer;
  std::optional<ChatFormat> format;  // absent: plain completions alone
  GenerationDefaults generation;
  std::int64_t created = 0;  // seconds since 1970
  std::int64_t vocab_size = 0;
  std::int64_t max_context = 0;                 // tokens of prompt and answer
  std::int64_t default_max_tokens = 0;          // of an answer where neither request nor model says
  std::optional<std::chrono::seconds> timeout;  // of a request, from its arrival
  std::string fingerprint;
  std::vector<TokenId> banned;
  // As Scheduler::submit and Scheduler::remember.
  std::function<Submission(GenerationRequest)> submit;
  std::function<void(const std::shared_ptr<Ticket>&, int, std::vector<TokenId>)> remember;

  const std::string& name() const { return names.front(); }
  // Throws RequestError (404) for a name that it does not have.
  void require_name(std::string_view name) const;
  // Throws RequestError (400) where the checkpoint has no chat format.
  const ChatFormat& require_format() const;
};

struct ModelOptions {
  std::vector<std::string> names;
  std::int64_t default_max_tokens = 4096;
  std::optional<std::chrono::seconds> timeout = {};
};

// The scheduler must outlive all use of the model.
Model serve_model(Scheduler& scheduler, Tokenizer tokenizer, std::optional<ChatFormat> format,
                  const ModelOptions& options);

}  // namespace baltoro::serve
