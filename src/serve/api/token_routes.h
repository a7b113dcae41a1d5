// /tokenize and /detokenize: what the server's prompts are made of.
#pragma once

#include "serve/api/json.h"
#include "serve/api/model.h"
#include "text/json_field.h"

namespace baltoro::serve {

// {"prompt"} is plain text, {"messages", ...} the prompt of a chat. Gives {"tokens", "count",
// "max_model_len"}. Throws Error{kUsage} with the path.
Json tokenize(const JsonField& request, const Model& model);

// {"tokens"} gives {"prompt"}; bytes that are no UTF-8 become U+FFFD. Throws Error{kUsage} with the
// path.
Json detokenize(const JsonField& request, const Model& model);

}  // namespace baltoro::serve
