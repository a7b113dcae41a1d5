// Who answers in `baltoro chat`: a model of this process (chat_session.h), or a server
// (chat_server.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "baltoro/chat.h"
#include "cli/run_stats.h"

namespace baltoro::cli {

struct ChatAnswer {
  ChatResult result;
  bool cancelled = false;
  RunStats stats;
};

// One thread at a time.
class ChatPartner {
 public:
  virtual ~ChatPartner() = default;

  // The next message of the conversation. `on_delta` sees it as it arrives; once `cancelled` says
  // so, it ends and what has arrived is kept. Throws Error; the next answer is not harmed by it.
  virtual ChatAnswer answer(const Conversation& conversation, std::uint64_t seed,
                            const std::function<void(const ChatDelta&)>& on_delta,
                            const std::function<bool()>& cancelled) = 0;
  // Throws Error{kUsage, kUnsupported} with the path of the message that cannot be part of a
  // conversation here, as far as that can be known without asking.
  virtual void check(const Conversation& conversation) const = 0;
  // Whether a conversation may say whether to think.
  virtual bool has_thinking() const = 0;
  // Lines for people about how an answer came.
  virtual std::string describe(const ChatAnswer& answer) const = 0;
};

}  // namespace baltoro::cli
