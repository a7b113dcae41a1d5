// The answer of a model that speaks the K2 format.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "text/chat_output.h"

namespace baltoro {

struct K2ParserOptions {
  bool thinking_variant = false;
  std::vector<std::string> tool_names;  // of the declared tools
  // Ids that calls of the conversation have. A call that takes one of them, or one that the answer
  // has, gets another.
  std::set<std::string> used_ids = {};
};

std::unique_ptr<ChatOutputParser> make_k2_parser(K2ParserOptions options);

}  // namespace baltoro
