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
#include "text/answer_stream.h"

namespace baltoro::cli {

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
