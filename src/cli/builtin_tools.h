// The tools that `baltoro chat --tools` declares and runs on this machine.
#pragma once

#include <string>
#include <string_view>

#include "baltoro/chat.h"

namespace baltoro::cli {

// JSON array of the declarations of `calculator` and `clock`.
std::string_view builtin_tools();

// What the model is told: the result, or "error: ..." for an unknown tool or bad arguments.
std::string run_builtin_tool(const ToolCall& call);

}  // namespace baltoro::cli
