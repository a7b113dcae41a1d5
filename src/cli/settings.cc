#include "cli/settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/arguments.h"
#include "cli/format.h"
#include "core/error.h"
#include "core/suggest.h"
#include "io/json_file.h"

namespace baltoro::cli {
namespace {

// "max-running" of --max-running, "model" of MODEL.
std::string setting_name(const CLI::Option& option) {
  if (!option.get_lnames().empty()) return option.get_lnames().front();
  std::string name = option.get_name();
  std::ranges::transform(name, name.begin(), ::tolower);
  return name;
}

std::string variable_name(const std::string& prefix, std::string name) {
  std::ranges::transform(name, name.begin(),
                         [](char c) { return c == '-' ? '_' : static_cast<char>(::toupper(c)); });
  return prefix + name;
}

std::string config_key(std::string name) {
  std::ranges::replace(name, '-', '_');
  return name;
}

bool takes_several(const CLI::Option& option) { return option.get_items_expected_max() > 1; }

// Gives an option what another source than the command line says.
void give(CLI::Option& option, const std::vector<std::string>& values, const std::string& source) {
  try {
    for (const std::string& value : values) option.add_result(value);
    option.run_callback();
  } catch (const CLI::Error& error) {
    fail(ErrorCode::kUsage, "{}: {}", source, error.what());
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", source, error.what());
  }
}

std::string scalar_text(const nlohmann::json& value, const std::string& where) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number() || value.is_boolean()) return value.dump();
  fail(ErrorCode::kUsage, "{} is {}; it must be a text, a number, true or false", where,
       value.type_name());
}

std::vector<std::string> config_values(const CLI::Option& option, const nlohmann::json& value,
                                       const std::string& where) {
  if (!value.is_array()) return {scalar_text(value, where)};
  if (!takes_several(option)) {
    fail(ErrorCode::kUsage, "{} is a list; the option takes one value", where);
  }
  std::vector<std::string> values;
  for (const nlohmann::json& item : value) values.push_back(scalar_text(item, where));
  return values;
}

class SettingResolver {
 public:
  SettingResolver(CLI::App& app, const SettingSources& sources) : app_(app), sources_(sources) {
    for (CLI::Option* option : app.get_options()) {
      const std::string name = setting_name(*option);
      if (std::ranges::find(sources.silent, name) == sources.silent.end()) {
        options_.emplace_back(name, option);
      }
    }
    for (const auto& [name, option] : options_) {
      if (option->count() > 0) origins_[name] = "command line";
    }
  }

  std::vector<Setting> resolve() {
    read_environment();
    const CLI::Option* file = app_.get_option(sources_.config_option);
    if (file->count() > 0) read_config(file->results().front());
    std::vector<Setting> settings;
    for (const auto& [name, option] : options_) settings.push_back(describe_setting(name, *option));
    return settings;
  }

 private:
  CLI::Option* find(const std::string& name) const {
    const auto found =
        std::ranges::find(options_, name, &std::pair<std::string, CLI::Option*>::first);
    return found == options_.end() ? nullptr : found->second;
  }

  // The source that wins is the first to have given a value.
  bool claim(const std::string& name, const std::string& source) {
    return origins_.emplace(name, source).second;
  }

  void read_environment() {
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string_view text = *entry;
      if (!text.starts_with(sources_.env_prefix)) continue;
      const std::size_t equals = std::min(text.find('='), text.size());
      const std::string variable(text.substr(0, equals));
      const std::string value(text.substr(std::min(equals + 1, text.size())));
      const auto named = std::ranges::find_if(options_, [&](const auto& option) {
        return variable_name(sources_.env_prefix, option.first) == variable;
      });
      if (named == options_.end()) unknown_variable(variable);
      if (!claim(named->first, variable)) continue;
      CLI::Option& option = *named->second;
      give(option, takes_several(option) ? split_list(value) : std::vector{value}, variable);
    }
  }

  [[noreturn]] void unknown_variable(const std::string& variable) const {
    std::vector<std::string> known;
    for (const auto& [name, option] : options_) {
      known.push_back(variable_name(sources_.env_prefix, name));
    }
    const std::string best = nearest(variable, known);
    fail(ErrorCode::kUsage, "the environment has {}, which is no option{}", variable,
         best.empty() ? "" : fmt::format("; did you mean {}?", best));
  }

  void read_config(const std::string& path) {
    try {
      const JsonDocument document = parse_json(read_text(path), path);
      if (!document->is_object()) {
        fail(ErrorCode::kUsage, "{} must be an object: {{\"option\": value, ...}}", path);
      }
      for (const auto& [key, value] : document->items()) read_config_key(path, key, value);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kBadModel) throw;
      fail(ErrorCode::kUsage, "{}", error.what());
    }
  }

  void read_config_key(const std::string& path, const std::string& key,
                       const nlohmann::json& value) {
    std::vector<std::string> known;
    for (const auto& [name, option] : options_) known.push_back(config_key(name));
    const auto found = std::ranges::find(known, key);
    if (found == known.end() || "--" + key == sources_.config_option) {
      const std::string best = nearest(key, known);
      fail(ErrorCode::kUsage, "{}: \"{}\" is no option{}", path, key,
           best.empty() ? "" : fmt::format("; did you mean \"{}\"?", best));
    }
    const auto& [name, option] = options_[static_cast<std::size_t>(found - known.begin())];
    const std::string where = fmt::format("{}: \"{}\"", path, key);
    const std::vector<std::string> values = config_values(*option, value, where);
    if (claim(name, path)) give(*option, values, where);
  }

  Setting describe_setting(const std::string& name, const CLI::Option& option) const {
    const auto origin = origins_.find(name);
    if (origin == origins_.end()) return {name, option.get_default_str(), "default"};
    const bool secret = std::ranges::find(sources_.secret, name) != sources_.secret.end();
    std::vector<std::string> values = option.results();
    if (secret) std::ranges::fill(values, "***");
    return {name, fmt::format("{}", fmt::join(values, ", ")), origin->second};
  }

  CLI::App& app_;
  const SettingSources& sources_;
  std::vector<std::pair<std::string, CLI::Option*>> options_;
  std::map<std::string, std::string> origins_;
};

}  // namespace

std::vector<Setting> resolve_settings(CLI::App& app, const SettingSources& sources) {
  return SettingResolver(app, sources).resolve();
}

}  // namespace baltoro::cli
