// How a finished answer will come back in the next request of its conversation.
#pragma once

#include <span>
#include <vector>

#include "serve/api/answer_request.h"

namespace baltoro::serve {

// The ids with which a later prompt will begin that holds the conversation and the answer, for
// Scheduler::remember. Empty where there is nothing to remember: the ids are those that were
// generated, or the later prompt will say something else than what the model has read and written (it
// was cut off, or asked for in a way that the next request does not repeat).
// `generated` are the ids of the answer, a stop token included.
std::vector<TokenId> next_prompt_ids(const Model& model, const AnswerRequest& request,
                                     std::span<const TokenId> generated, const ChatResult& result);

}  // namespace baltoro::serve
