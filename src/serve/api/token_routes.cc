#include "serve/api/token_routes.h"

#include <vector>

#include "core/error.h"
#include "serve/api/chat_request.h"

namespace baltoro::serve {

using Kind = JsonValue::Kind;

Json tokenize(const JsonField& request, const Model& model) {
  request.expect(Kind::kObject, "an object");
  if (const auto name = request["model"].optional_string()) model.require_name(*name);
  const bool chat = request["messages"].present();
  if (chat == request["prompt"].present()) {
    fail(ErrorCode::kUsage, "request: expected either \"prompt\" or \"messages\"");
  }
  const std::vector<TokenId> ids =
      chat ? model.require_format().render(parse_chat_conversation(request, model))
           : model.tokenizer.encode(request["prompt"].required_string());
  return {{"count", ids.size()}, {"max_model_len", model.max_context}, {"tokens", ids}};
}

Json detokenize(const JsonField& request, const Model& model) {
  request.expect(Kind::kObject, "an object");
  if (const auto name = request["model"].optional_string()) model.require_name(*name);
  request["tokens"].expect(Kind::kArray, "an array of token ids");
  std::vector<TokenId> ids;
  for (const JsonField& item : request["tokens"].items()) {
    item.expect(Kind::kNumber, "a token id");
    const auto id = integer_in(item, 0, model.tokenizer.vocab_size() - 1);
    ids.push_back(static_cast<TokenId>(*id));
  }
  return {{"prompt", model.tokenizer.decode(ids)}};
}

}  // namespace baltoro::serve
