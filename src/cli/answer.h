// One answer of a chat: generates it, splits it into channels and ends it at a stop string.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "baltoro/chat.h"
#include "baltoro/generate.h"
#include "baltoro/session.h"
#include "baltoro/tokenizer.h"
#include "engine/stop_matcher.h"

namespace baltoro::cli {

// A ChatParser whose content ends before the first stop string. Reasoning and tool calls are not
// searched. One thread at a time.
class AnswerStream {
 public:
  // Throws Error{kUsage} for an empty stop string.
  AnswerStream(ChatParser parser, std::vector<std::string> stops);

  // As of ChatParser, less what a stop string might still take back.
  std::vector<ChatDelta> feed(TokenId id);
  std::vector<ChatDelta> finish(bool stopped);
  // Whether a stop string was seen: nothing comes after it.
  bool matched() const { return matcher_.matched(); }
  // Final after finish().
  ChatResult result() const;

 private:
  std::vector<ChatDelta> cut(std::vector<ChatDelta> deltas);

  ChatParser parser_;
  StopMatcher matcher_;
  std::string content_;
};

struct Answer {
  ChatResult result;
  std::int64_t num_tokens = 0;  // the stop token included
  bool cancelled = false;
};

// Generates from the prompt that `session` has read; the stop strings of `options` hold for the
// content. `on_delta` sees the answer as it arrives; once `cancelled` says so, generation ends and
// what has arrived is kept. Throws as generate().
Answer generate_answer(Session& session, const Tokenizer& tokenizer, ChatParser parser,
                       GenerateOptions options,
                       const std::function<void(const ChatDelta&)>& on_delta = {},
                       const std::function<bool()>& cancelled = {});

}  // namespace baltoro::cli
