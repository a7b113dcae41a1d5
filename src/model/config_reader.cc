#include "model/config_reader.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "io/listing.h"

namespace baltoro {
namespace {

using nlohmann::json;

// The value for a message, cut where it is long.
std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

const json* member(const json& object, std::string_view name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

// A hostile file may break a rule a million times; the first faults say enough.
constexpr std::size_t kMaxListed = 50;

void add_once(std::vector<std::string>& list, std::string text) {
  if (list.size() == kMaxListed) return;
  if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(std::move(text));
}

}  // namespace

ConfigReader::ConfigReader(const json& root, std::string where)
    : root_(root), model_(&root), where_(std::move(where)) {
  if (!root.is_object()) {
    fail(ErrorCode::kBadModel, "{}: expected an object, found {}", where_, shown(root));
  }
  if (const json* text = member(root, "text_config")) {
    if (!text->is_object()) {
      fail(ErrorCode::kBadModel, "{}: text_config: expected an object, found {}", where_,
           shown(*text));
    }
    model_ = text;
  }
}

std::string ConfigReader::full_name(const ConfigKey& key) const {
  std::string name = nested() ? "text_config." : "";
  if (!key.section.empty()) name += std::string(key.section) + ".";
  return name + std::string(key.name);
}

void ConfigReader::missing(const ConfigKey& key) { add_once(missing_, full_name(key)); }

void ConfigReader::problem(const ConfigKey& key, const std::string& what) {
  add_once(problems_, full_name(key) + ": " + what);
}

void ConfigReader::problem(std::string what) { add_once(problems_, std::move(what)); }

const json* ConfigReader::section_of(const json& object, const ConfigKey& key) {
  if (key.section.empty()) return &object;
  const json* section = member(object, key.section);
  if (section != nullptr && !section->is_object()) {
    problem({key.section}, fmt::format("expected an object, found {}", shown(*section)));
    return nullptr;
  }
  return section;
}

const json* ConfigReader::find_spelling(const json& object, const ConfigKey& key) {
  const json* value = member(object, key.name);
  const json* other = key.alias.empty() ? nullptr : member(object, key.alias);
  if (value != nullptr && other != nullptr && *value != *other) {
    problem(key, fmt::format("{} and {} are both present and differ: {} and {}", key.name,
                             key.alias, shown(*value), shown(*other)));
  }
  return value != nullptr ? value : other;
}

const json* ConfigReader::find(const ConfigKey& key) {
  const json* section = section_of(*model_, key);
  const json* value = section == nullptr ? nullptr : find_spelling(*section, key);
  if (!nested()) return value;
  const json* outer_section = section_of(root_, key);
  const json* outer = outer_section == nullptr ? nullptr : find_spelling(*outer_section, key);
  if (value != nullptr && outer != nullptr && *value != *outer) {
    problem(key, fmt::format("{} here and {} in the outer object differ; keep one of them",
                             shown(*value), shown(*outer)));
  }
  return value != nullptr ? value : outer;
}

std::optional<std::int64_t> ConfigReader::optional_integer(const ConfigKey& key,
                                                           IntegerRange range) {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_integer()) {
    problem(key, fmt::format("expected an integer, found {}", shown(*value)));
    return std::nullopt;
  }
  // Unsigned values beyond int64 are out of every range.
  const bool fits = !value->is_number_unsigned() ||
                    value->get<std::uint64_t>() <= static_cast<std::uint64_t>(INT64_MAX);
  const std::int64_t number = fits ? value->get<std::int64_t>() : -1;
  if (!fits || number < range.least || number > range.most) {
    problem(key, fmt::format("{} is out of range; the rule is {} to {}", shown(*value), range.least,
                             range.most));
    return std::nullopt;
  }
  return number;
}

std::optional<double> ConfigReader::optional_number(const ConfigKey& key, NumberRange range) {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) {
    problem(key, fmt::format("expected a number, found {}", shown(*value)));
    return std::nullopt;
  }
  const double number = value->get<double>();
  const bool above = range.above_included ? number >= range.above : number > range.above;
  const bool below = range.most_excluded ? number < range.most : number <= range.most;
  if (!std::isfinite(number) || !above || !below) {
    problem(key, fmt::format("{} is out of range; the rule is {}{}, {}{}", shown(*value),
                             range.above_included ? "[" : "(", range.above, range.most,
                             range.most_excluded ? ")" : "]"));
    return std::nullopt;
  }
  return number;
}

std::optional<bool> ConfigReader::optional_boolean(const ConfigKey& key) {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) {
    problem(key, fmt::format("expected true or false, found {}", shown(*value)));
    return std::nullopt;
  }
  return value->get<bool>();
}

std::optional<std::size_t> ConfigReader::optional_choice(
    const ConfigKey& key, std::initializer_list<std::string_view> choices) {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) {
    const auto found = std::find(choices.begin(), choices.end(),
                                 std::string_view(value->get_ref<const std::string&>()));
    if (found != choices.end()) return static_cast<std::size_t>(found - choices.begin());
  }
  problem(key, fmt::format("{} is not known; the rule is one of {}", shown(*value),
                           fmt::join(choices, ", ")));
  return std::nullopt;
}

std::int64_t ConfigReader::integer(const ConfigKey& key, IntegerRange range) {
  if (!present(key)) missing(key);
  return optional_integer(key, range).value_or(0);
}

double ConfigReader::number(const ConfigKey& key, NumberRange range) {
  if (!present(key)) missing(key);
  return optional_number(key, range).value_or(0.0);
}

bool ConfigReader::boolean(const ConfigKey& key) {
  if (!present(key)) missing(key);
  return optional_boolean(key).value_or(false);
}

std::size_t ConfigReader::choice(const ConfigKey& key,
                                 std::initializer_list<std::string_view> choices) {
  if (!present(key)) missing(key);
  return optional_choice(key, choices).value_or(0);
}

std::optional<std::vector<std::int64_t>> ConfigReader::integers(const ConfigKey& key) {
  const json* value = find(key);
  if (value == nullptr) {
    missing(key);
    return std::nullopt;
  }
  const bool is_list =
      value->is_array() && std::all_of(value->begin(), value->end(),
                                       [](const json& item) { return item.is_number_integer(); });
  if (!is_list) {
    problem(key, fmt::format("expected a list of integers, found {}", shown(*value)));
    return std::nullopt;
  }
  return value->get<std::vector<std::int64_t>>();
}

void ConfigReader::check_known(std::string_view section,
                               std::initializer_list<std::string_view> known) {
  const json* object = section_of(*model_, {.name = section, .section = section});
  if (object == nullptr) return;
  for (const auto& [name, value] : object->items()) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      problem({.name = name, .section = section},
              fmt::format("unknown key; the rule is one of {}", fmt::join(known, ", ")));
    }
  }
}

void ConfigReader::throw_if_bad() const {
  if (missing_.empty() && problems_.empty()) return;
  std::string text = where_ + ":";
  if (!missing_.empty()) {
    text += fmt::format(" {} missing: {}", counted(missing_.size(), "key is", "keys are"),
                        fmt::join(missing_, ", "));
  }
  if (!missing_.empty() && !problems_.empty()) text += ";";
  if (!problems_.empty()) text += fmt::format(" {}", fmt::join(problems_, "; "));
  throw Error(ErrorCode::kBadModel, text);
}

}  // namespace baltoro
