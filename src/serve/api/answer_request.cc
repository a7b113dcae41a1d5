#include "serve/api/answer_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "serve/api/errors.h"

namespace baltoro::serve {

std::int64_t answer_length(const Model& model, std::size_t prompt_tokens,
                           std::optional<std::int64_t> asked, const std::string& param) {
  const auto prompt = static_cast<std::int64_t>(prompt_tokens);
  const std::int64_t room = model.max_context - prompt;
  if (room < asked.value_or(1)) {
    throw RequestError(
        {.status = 400,
         .message = fmt::format("{}: the prompt has {} tokens and the answer may have {}, but this "
                                "model's context holds {}; shorten the prompt or lower max_tokens",
                                param, prompt, asked.value_or(1), model.max_context),
         .param = param,
         .code = "context_length_exceeded"});
  }
  const std::int64_t usual = model.generation.max_new_tokens.value_or(model.default_max_tokens);
  return asked.value_or(std::min(usual, room));
}

AnswerRequest chat_answer_request(const Model& model, Conversation conversation,
                                  GenerationFields fields) {
  AnswerRequest request;
  for (int i = 0; i < fields.num_choices; ++i) {
    auto constraint = model.require_format().constraint(conversation);
    if (constraint == nullptr) break;
    request.constraints.push_back(std::move(constraint));
  }
  request.prompts.push_back(model.require_format().render(conversation));
  request.max_tokens =
      answer_length(model, request.prompts.front().size(), fields.max_tokens, "messages");
  request.conversation = std::make_shared<const Conversation>(std::move(conversation));
  request.fields = std::move(fields);
  return request;
}

}  // namespace baltoro::serve
