// What is to be generated, whichever interface asked for it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "baltoro/chat.h"
#include "serve/api/generation_fields.h"

namespace baltoro::serve {

struct AnswerRequest {
  // Each is answered num_choices times; choice i of prompt p has the number p * num_choices + i.
  std::vector<std::vector<TokenId>> prompts;
  // Of the one prompt: its answers have channels and are searched for stop strings in the content
  // alone. Null: plain text.
  std::shared_ptr<const Conversation> conversation;
  // Of the conversation, one for each choice; none where every answer is possible.
  std::vector<std::shared_ptr<TokenConstraint>> constraints;
  GenerationFields fields;
  std::int64_t max_tokens = 0;  // of each choice
  bool logprobs = false;
  // How the client's next request will give the arguments of calls back.
  ArgumentsForm arguments_form = ArgumentsForm::kText;
  std::string call_id_prefix = "call_";
  std::string client;  // whom the request counts for

  int total_choices() const { return static_cast<int>(prompts.size()) * fields.num_choices; }
};

// How long an answer may be: what the request says, else the model, else the server, within what the
// context leaves. Throws RequestError (400, context_length_exceeded) where the prompt and the length
// that was asked for do not fit; `param` names the prompt.
std::int64_t answer_length(const Model& model, std::size_t prompt_tokens,
                           std::optional<std::int64_t> asked, const std::string& param);

// The prompt of a conversation and what else its answer needs of it, its grammar too: what is wrong
// with a schema is known before anything is queued. Throws as ChatFormat::render,
// ChatFormat::constraint and answer_length.
AnswerRequest chat_answer_request(const Model& model, Conversation conversation,
                                  GenerationFields fields);

}  // namespace baltoro::serve
