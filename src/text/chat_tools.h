// Tool declarations as both formats see them: the JSON array of a request.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace baltoro {

// The array as a prompt shows it: keys sorted, compact. Throws Error{kUsage} if `tools` is no JSON
// array of objects.
std::string print_tools(std::string_view tools);

// As print_tools, with the declaration of `name` alone. Throws Error{kUsage} if there is none.
std::string print_tool(std::string_view tools, std::string_view name);

// The names of the declared functions, "" where one has none; empty for an empty text.
std::vector<std::string> tool_names(std::string_view tools);

}  // namespace baltoro
