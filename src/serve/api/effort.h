// How much to think: the words of the interfaces and those of the chat format.
#pragma once

#include "baltoro/chat.h"
#include "text/json_field.h"

namespace baltoro::serve {

// Sets thinking and thinking_effort of the conversation: none and minimal are no thinking, low is
// low, medium and high are high, xhigh and max are max, since models are trained on these three.
// Without the field nothing changes. Throws Error{kUsage} for another word, Error{kUnsupported}
// where the model cannot do without thinking.
void apply_effort(const JsonField& effort, ChatFormat::Kind kind, Conversation& conversation);

// Turns thinking off, where the model does not think anyway too. Throws as apply_effort; `path` is
// the field that asked for it.
void disable_thinking(const std::string& path, ChatFormat::Kind kind, Conversation& conversation);

}  // namespace baltoro::serve
