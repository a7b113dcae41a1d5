// The request of /v1/chat/completions.
#pragma once

#include "serve/api/answer_request.h"
#include "text/json_field.h"

namespace baltoro::serve {

// The conversation alone, for /tokenize too. Throws as parse_conversation.
Conversation parse_chat_conversation(const JsonField& request, const Model& model);

// Fields that it does not know are ignored, as OpenAI does. Throws Error{kUsage} naming the path of a
// wrong value, Error{kUnsupported}, and as chat_answer_request.
AnswerRequest parse_chat_request(const JsonField& request, const Model& model);

}  // namespace baltoro::serve
