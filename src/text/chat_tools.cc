#include "text/chat_tools.h"

#include <fmt/ranges.h>

#include "core/error.h"
#include "text/json_print.h"
#include "text/json_value.h"

namespace baltoro {
namespace {

JsonValue parse_tools(std::string_view tools) {
  JsonValue array = parse_json(tools, "tools");
  if (array.kind != JsonValue::Kind::kArray) {
    fail(ErrorCode::kUsage, "tools: expected an array of declarations, found {}",
         kind_name(array.kind));
  }
  for (const JsonValue& tool : array.items) {
    if (tool.kind == JsonValue::Kind::kObject) continue;
    fail(ErrorCode::kUsage, "tools: expected an array of objects, found {} in it",
         kind_name(tool.kind));
  }
  return array;
}

std::string tool_name(const JsonValue& tool) {
  const JsonValue* function = tool.find("function");
  const JsonValue* name = (function != nullptr ? function : &tool)->find("name");
  const bool named = name != nullptr && name->kind == JsonValue::Kind::kString;
  return named ? name->text : std::string();
}

}  // namespace

std::string print_tools(std::string_view tools) {
  return print_json(parse_tools(tools), JsonStyle::kSortedCompact);
}

std::string print_tool(std::string_view tools, std::string_view name) {
  JsonValue array = parse_tools(tools.empty() ? "[]" : tools);
  std::erase_if(array.items, [&](const JsonValue& tool) { return tool_name(tool) != name; });
  if (array.items.empty()) {
    fail(ErrorCode::kUsage, "tool_choice: no tool \"{}\" is declared; declared are: {}", name,
         fmt::join(tool_names(tools), ", "));
  }
  return print_json(array, JsonStyle::kSortedCompact);
}

std::vector<std::string> tool_names(std::string_view tools) {
  std::vector<std::string> names;
  if (tools.empty()) return names;
  for (const JsonValue& tool : parse_tools(tools).items) names.push_back(tool_name(tool));
  return names;
}

}  // namespace baltoro
