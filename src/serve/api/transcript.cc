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

// The conversation with its answer, as the next request has it.
Conversation with_answer(const AnswerRequest& request, const ChatResult& result) {
  Conversation next = *request.conversation;
  next.messages.push_back(to_message(result));
  for (ToolCall& call : next.messages.back().tool_calls) call.form = request.arguments_form;
  next.add_generation_prefix = false;
  next.tool_choice = {};
  next.response_format = {};
  return next;
}

// render(next). Only what differs from the prompt is encoded anew.
std::vector<TokenId> render_after(const ChatFormat& format, const AnswerRequest& request,
                                  const Conversation& next) {
  const std::vector<PromptSegment> old_segments = format.segments(*request.conversation);
  const std::vector<PromptSegment> new_segments = format.segments(next);
  const auto [a, b] = std::ranges::mismatch(old_segments, new_segments);
  std::vector<TokenId> ids = request.prompts.front();
  ids.resize(ids.size() - format.encode({a, old_segments.end()}).size());
  const std::vector<TokenId> rest = format.encode({b, new_segments.end()});
  ids.insert(ids.end(), rest.begin(), rest.end());
  return ids;
}

}  // namespace

std::vector<TokenId> next_prompt_ids(const Model& model, const AnswerRequest& request,
                                     std::span<const TokenId> generated, const ChatResult& result) {
  std::vector<TokenId> rendered =
      render_after(model.require_format(), request, with_answer(request, result));
  std::vector<TokenId> read = request.prompts.front();
  read.insert(read.end(), generated.begin(), generated.end());
  const auto [a, b] = std::ranges::mismatch(read, rendered);
  if (a == read.end() && b == rendered.end()) return {};
  const bool same =
      spelled(model.tokenizer, {a, read.end()}) == spelled(model.tokenizer, {b, rendered.end()});
  return same ? rendered : std::vector<TokenId>{};
}

}  // namespace baltoro::serve
