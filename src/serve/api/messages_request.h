// The request of /v1/messages, Anthropic's interface: its blocks become a Conversation.
#pragma once

#include "serve/api/answer_request.h"
#include "text/json_field.h"

namespace baltoro::serve {

// The conversation alone, for /v1/messages/count_tokens too. Throws Error{kUsage} naming the path of a
// wrong value, Error{kUnsupported} for blocks that are not text.
Conversation parse_messages_conversation(const JsonField& request, const Model& model);

// Fields that it does not know are ignored. Throws as parse_messages_conversation and
// chat_answer_request.
AnswerRequest parse_messages_request(const JsonField& request, const Model& model);

}  // namespace baltoro::serve
