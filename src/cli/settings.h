// Values of options that the command line does not give: from environment variables, then from a
// configuration file in JSON.
#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baltoro::cli {

// Where an option's value came from.
struct Setting {
  std::string name;    // "max-running"
  std::string value;   // several are joined by ", "
  std::string source;  // "command line", "BALTORO_SERVE_PORT", "serve.json", "default"

  bool is_default() const { return source == "default"; }
};

struct SettingSources {
  std::string env_prefix;                // of "BALTORO_SERVE_" and the option's name: MAX_RUNNING
  std::string config_option;             // which names the file, "--config"
  std::vector<std::string> secret = {};  // names whose values are not told
  std::vector<std::string> silent = {};  // names that only the command line has, such as "help"
};

// Gives the options of `app`, which has been parsed, the values that they lack, and tells all in
// their order. Keys of the file are names with '_' for '-': {"max_running": 8, "api_key": ["a",
// "b"]}; in a variable, several values stand between commas. Throws Error{kUsage} that begins with
// the source, for a value as the option has it, and for a key or a variable with the prefix that is
// no option.
std::vector<Setting> resolve_settings(CLI::App& app, const SettingSources& sources);

}  // namespace baltoro::cli
