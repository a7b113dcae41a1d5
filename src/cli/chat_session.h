// One conversation with a model: renders each turn, reuses what the session has read already, and
// splits the answer while it arrives.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "baltoro/chat.h"
#include "baltoro/engine.h"
#include "baltoro/generate.h"
#include "baltoro/session.h"
#include "cli/answer.h"
#include "cli/run_stats.h"

namespace baltoro::cli {

struct ChatAnswer {
  ChatResult result;
  bool cancelled = false;
  RunStats stats;
};

// One thread at a time.
class ChatSession {
 public:
  ChatSession(Engine& engine, const Tokenizer& tokenizer, ChatFormat format,
              GenerateOptions options);

  Conversation& conversation() { return conversation_; }

  // Generates the next message and appends it to the conversation. `on_delta` sees the answer as it
  // arrives; once `cancelled` says so, generation ends and what has arrived is kept. Throws as
  // ChatFormat::render and generate.
  ChatAnswer answer(const std::function<void(const ChatDelta&)>& on_delta,
                    const std::function<bool()>& cancelled);

 private:
  // Brings the session to `ids`, from the longest prefix that is still there. Returns the number of
  // tokens that were read.
  std::int64_t read(const std::vector<TokenId>& ids);

  Engine& engine_;
  const Tokenizer& tokenizer_;
  ChatFormat format_;
  GenerateOptions options_;
  Conversation conversation_;
  std::optional<Session> session_;
  std::vector<Snapshot> snapshots_;  // at the ends of past prompts, in order
};

}  // namespace baltoro::cli
