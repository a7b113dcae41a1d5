// The answer of a model that speaks XTML, as the prompt's generation prefix left it open.
#pragma once

#include <memory>
#include <string>

#include "text/chat_output.h"

namespace baltoro {

struct XtmlParserOptions {
  bool thinking = true;  // the prompt opened the think channel, not the response
  std::string call_id_prefix = "call_";
};

std::unique_ptr<ChatOutputParser> make_xtml_parser(XtmlParserOptions options);

}  // namespace baltoro
