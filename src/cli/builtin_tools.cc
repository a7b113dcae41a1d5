#include "cli/builtin_tools.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <time.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "baltoro/error.h"
#include "cli/calculator.h"
#include "core/error.h"

namespace baltoro::cli {
namespace {

using nlohmann::json;

std::string text_argument(const json& arguments, const char* key) {
  const auto it = arguments.find(key);
  if (it == arguments.end()) return {};
  if (!it->is_string()) fail(ErrorCode::kUsage, "the argument {} must be text", key);
  return it->get<std::string>();
}

// "Europe/Paris" for "Paris"; nothing where the time zone database does not name the place.
std::optional<std::string> zone_of(std::string place) {
  namespace fs = std::filesystem;
  std::ranges::replace(place, ' ', '_');
  // Only a plain name: it becomes part of a path.
  const auto plain = [](char c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; };
  if (!std::ranges::all_of(place, [&](char c) { return plain(c) || c == '_' || c == '-'; }))
    return {};
  const fs::path root = "/usr/share/zoneinfo";
  for (const char* region :
       {"Europe", "America", "Asia", "Africa", "Australia", "Pacific", "Atlantic", "Indian"}) {
    std::error_code error;
    if (fs::is_regular_file(root / region / place, error))
      return fmt::format("{}/{}", region, place);
  }
  return {};
}

std::string clock_text() {
  const time_t now = ::time(nullptr);
  tm local{};
  ::localtime_r(&now, &local);
  return fmt::format("{:02}:{:02}", local.tm_hour, local.tm_min);
}

// The time here, or in a place that the time zone database knows.
std::string tell_time(const std::string& place) {
  if (place.empty()) return clock_text();
  const std::optional<std::string> zone = zone_of(place);
  if (!zone) fail(ErrorCode::kUsage, "no time zone is known for {}", place);
  const char* const before = ::getenv("TZ");
  const std::optional<std::string> saved =
      before ? std::optional<std::string>(before) : std::nullopt;
  ::setenv("TZ", zone->c_str(), 1);
  ::tzset();
  std::string text = clock_text();
  if (saved) {
    ::setenv("TZ", saved->c_str(), 1);
  } else {
    ::unsetenv("TZ");
  }
  ::tzset();
  return text;
}

}  // namespace

std::string_view builtin_tools() {
  return R"([{"type":"function","function":{"name":"calculator","description":"Works out an arithmetic expression.",)"
         R"("parameters":{"type":"object","properties":{"expression":{"type":"string"}},"required":["expression"]}}},)"
         R"({"type":"function","function":{"name":"clock","description":"Tells the time.",)"
         R"("parameters":{"type":"object","properties":{"place":{"type":"string"}}}}}])";
}

std::string run_builtin_tool(const ToolCall& call) {
  try {
    const json arguments = json::parse(call.arguments.empty() ? "{}" : call.arguments);
    if (!arguments.is_object()) fail(ErrorCode::kUsage, "the arguments are no object");
    if (call.name == "calculator") return evaluate(text_argument(arguments, "expression"));
    if (call.name == "clock") return tell_time(text_argument(arguments, "place"));
    fail(ErrorCode::kUsage, "there is no tool {}", call.name);
  } catch (const Error& error) {
    return fmt::format("error: {}", error.what());
  } catch (const json::exception&) {
    return "error: the arguments are no JSON";
  }
}

}  // namespace baltoro::cli
