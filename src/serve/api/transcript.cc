#include "serve/api/transcript.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace baltoro::serve {
namespace {

// The bytes of the tokens; special ones in a form that no text spells.
std::string spelled(const Tokenizer& tokenizer, std::span<const TokenId> ids) {
  std::string text;
  for (const TokenId id : ids) {
    if (tokenizer.is_special(id)) {
      text += fmt::format("\xFF{}\xFF", id);
    } else {
      text += tokenizer.token_bytes(id);
    }
  }
  return text;
}

}  // namespace

std::vector<TokenId> next_prompt_ids(const Model& model, const AnswerRequest& request,
                                     std::span<const TokenId> generated, const ChatResult& result) {
  Conversation next = *request.conversation;
  next.messages.push_back(to_message(result));
  for (ToolCall& call : next.messages.back().tool_calls) call.form = request.arguments_form;
  next.add_generation_prefix = false;
  next.tool_choice = {};
  next.response_format = {};
  std::vector<TokenId> rendered = model.require_format().render(next);

  std::vector<TokenId> read = request.prompts.front();
  read.insert(read.end(), generated.begin(), generated.end());
  const auto [a, b] = std::ranges::mismatch(read, rendered);
  if (a == read.end() && b == rendered.end()) return {};
  const bool same =
      spelled(model.tokenizer, {a, read.end()}) == spelled(model.tokenizer, {b, rendered.end()});
  return same ? rendered : std::vector<TokenId>{};
}

}  // namespace baltoro::serve
