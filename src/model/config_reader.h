// Typed access to the keys of a config.json that collects what is missing or wrong instead of
// stopping at the first fault. Used by config*.cc alone.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baltoro {

// A key of the model's object, or of the object `section` inside it. `alias` is another spelling of
// the same key; both present must agree.
struct ConfigKey {
  std::string_view name;
  std::string_view alias = {};
  std::string_view section = {};
};

struct IntegerRange {
  std::int64_t least;
  std::int64_t most;
};

// In (above, most]; the flags move each bound in or out.
struct NumberRange {
  double above;
  double most;
  bool above_included = false;
  bool most_excluded = false;
};

// A null value counts as absent. After a fault the getters return zero values, so that reading can
// go on; throw_if_bad() then ends it.
class ConfigReader {
 public:
  // Throws Error{kBadModel} unless `root` is an object. The model's object is root["text_config"]
  // where that is present, else root itself.
  ConfigReader(const nlohmann::json& root, std::string where);

  bool nested() const { return model_ != &root_; }
  const nlohmann::json& root() const { return root_; }
  const std::string& where() const { return where_; }

  // The value, or nullptr. A key of the model's object, or of a section in it, that stands in the
  // outer object too must have the same value there; one that stands only there counts.
  const nlohmann::json* find(const ConfigKey& key);
  bool present(const ConfigKey& key) { return find(key) != nullptr; }

  std::int64_t integer(const ConfigKey& key, IntegerRange range);
  double number(const ConfigKey& key, NumberRange range);
  bool boolean(const ConfigKey& key);
  // One of `choices`, as its index.
  std::size_t choice(const ConfigKey& key, std::initializer_list<std::string_view> choices);
  std::optional<std::int64_t> optional_integer(const ConfigKey& key, IntegerRange range);
  std::optional<double> optional_number(const ConfigKey& key, NumberRange range);
  std::optional<bool> optional_boolean(const ConfigKey& key);
  std::optional<std::size_t> optional_choice(const ConfigKey& key,
                                             std::initializer_list<std::string_view> choices);
  // A list of integers; nothing where it is missing or malformed.
  std::optional<std::vector<std::int64_t>> integers(const ConfigKey& key);

  // Every key of `section` must be among `known`.
  void check_known(std::string_view section, std::initializer_list<std::string_view> known);

  // Records a broken rule: "<key>: <what>".
  void problem(const ConfigKey& key, const std::string& what);
  // The same for a rule of the outer object.
  void problem(std::string what);
  // Throws Error{kBadModel} that lists all missing keys, and all problems.
  void throw_if_bad() const;

 private:
  const nlohmann::json* section_of(const nlohmann::json& object, const ConfigKey& key);
  const nlohmann::json* find_spelling(const nlohmann::json& object, const ConfigKey& key);
  std::string full_name(const ConfigKey& key) const;
  void missing(const ConfigKey& key);

  const nlohmann::json& root_;
  const nlohmann::json* model_;
  std::string where_;
  std::vector<std::string> missing_;
  std::vector<std::string> problems_;
};

}  // namespace baltoro
