#include "text/grammar/schema_parts.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "core/error.h"

namespace baltoro {
namespace {

using Kind = JsonValue::Kind;

// Chains of references without anything between them are not followed further.
constexpr int kMaxDepth = 256;
// Longer arrays are either unbounded or not worth a state for each item.
constexpr std::int64_t kMaxItems = 4096;

constexpr std::array<std::string_view, 12> kAnnotations = {
    "title", "description", "default",  "examples", "example",    "$schema",
    "$defs", "definitions", "$comment", "readOnly", "deprecated", "writeOnly"};
constexpr std::array<std::string_view, 12> kSupported = {
    "$ref",     "anyOf", "enum",     "const",    "type",        "properties",
    "required", "items", "minItems", "maxItems", "prefixItems", "additionalProperties"};

bool is_one_of(std::string_view word, std::span<const std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

std::string at(const std::string& path, std::string_view key) {
  return fmt::format("{}.{}", path, key);
}

PlacedSchema member(const PlacedSchema& schema, std::string_view key) {
  return {schema.value->find(key), at(schema.path, key)};
}

void expect(const PlacedSchema& place, Kind kind, std::string_view expected) {
  if (place.value->kind == kind) return;
  fail(ErrorCode::kUsage, "{}: expected {}, found {}", place.path, expected,
       kind_name(place.value->kind));
}

void check_keywords(const PlacedSchema& schema) {
  for (const JsonMember& m : schema.value->members) {
    // An id changes nothing while references stay within the document.
    if (m.key == "$id" || is_one_of(m.key, kAnnotations) || is_one_of(m.key, kSupported)) continue;
    fail(ErrorCode::kUnsupported,
         "{}: the keyword \"{}\" is not supported; supported are {}, and annotations",
         at(schema.path, m.key), m.key, fmt::join(kSupported, ", "));
  }
}

// Beside `keyword` there may be annotations and `allowed` alone: others would restrict it further.
void check_alone(const PlacedSchema& schema, std::string_view keyword, std::string_view allowed) {
  for (const JsonMember& m : schema.value->members) {
    if (m.key == keyword || m.key == allowed || m.key == "$id") continue;
    if (is_one_of(m.key, kAnnotations)) continue;
    fail(ErrorCode::kUnsupported, "{}: the keyword \"{}\" beside \"{}\" is not supported",
         at(schema.path, m.key), m.key, keyword);
  }
}

std::optional<SchemaType> type_of(std::string_view name) {
  static const std::map<std::string_view, SchemaType> kTypes = {
      {"null", SchemaType::kNull},       {"boolean", SchemaType::kBoolean},
      {"integer", SchemaType::kInteger}, {"number", SchemaType::kNumber},
      {"string", SchemaType::kString},   {"object", SchemaType::kObject},
      {"array", SchemaType::kArray}};
  const auto it = kTypes.find(name);
  if (it == kTypes.end()) return std::nullopt;
  return it->second;
}

SchemaType read_type(const PlacedSchema& place) {
  expect(place, Kind::kString, "the name of a type");
  const auto type = type_of(place.value->text);
  if (!type) {
    fail(ErrorCode::kUsage,
         "{}: \"{}\" is no type; types are string, number, integer, boolean, null, object, array",
         place.path, place.value->text);
  }
  return *type;
}

using Types = std::set<SchemaType>;

// The types that the schema names or that its keywords are about; empty: it says nothing of them.
Types read_types(const PlacedSchema& schema) {
  const PlacedSchema type = member(schema, "type");
  Types types;
  if (type.value == nullptr) {
    for (const char* key : {"properties", "required", "additionalProperties"}) {
      if (schema.value->find(key) != nullptr) types.insert(SchemaType::kObject);
    }
    for (const char* key : {"items", "prefixItems", "minItems", "maxItems"}) {
      if (schema.value->find(key) != nullptr) types.insert(SchemaType::kArray);
    }
    return types;
  }
  if (type.value->kind != Kind::kArray) return {read_type(type)};
  if (type.value->items.empty()) {
    fail(ErrorCode::kUsage, "{}: an empty list of types allows nothing", type.path);
  }
  for (const JsonValue& item : type.value->items) types.insert(read_type({&item, type.path}));
  if (types.contains(SchemaType::kNumber)) types.erase(SchemaType::kInteger);
  return types;
}

bool is_integer(const JsonValue& value) {
  return value.text.find_first_of(".eE") == std::string::npos;
}

// The type of a value, among those allowed; an integer is a number, too.
std::optional<SchemaType> type_among(const JsonValue& value, const Types& allowed) {
  const auto pick = [&](SchemaType type) -> std::optional<SchemaType> {
    if (allowed.empty() || allowed.contains(type)) return type;
    return std::nullopt;
  };
  switch (value.kind) {
    case Kind::kNull:
      return pick(SchemaType::kNull);
    case Kind::kBoolean:
      return pick(SchemaType::kBoolean);
    case Kind::kNumber: {
      const bool integer = is_integer(value) && allowed.contains(SchemaType::kInteger);
      return pick(integer ? SchemaType::kInteger : SchemaType::kNumber);
    }
    case Kind::kString:
      return pick(SchemaType::kString);
    case Kind::kArray:
      return pick(SchemaType::kArray);
    case Kind::kObject:
      return pick(SchemaType::kObject);
  }
  return std::nullopt;
}

// Walks a schema and what it refers to.
class Splitter {
 public:
  Splitter(const PlacedSchema& root, const SchemaStyle& style) : root_(root), style_(style) {}

  void add(const PlacedSchema& schema, int depth) {
    if (schema.value == nullptr) return everything();
    if (schema.value->kind == Kind::kBoolean) {
      if (schema.value->text == "true") everything();
      return;
    }
    expect(schema, Kind::kObject, "a schema, which is an object or a boolean");
    const auto [state, is_new] = seen_.emplace(schema.value, true);
    if (!is_new) {
      if (!state->second) return;  // a union already has it
      fail(ErrorCode::kUnsupported, "{}: it leads back to itself with nothing in between",
           schema.path);
    }
    if (depth > kMaxDepth) {
      fail(ErrorCode::kUnsupported, "{}: more than {} references and anyOf in a row", schema.path,
           kMaxDepth);
    }
    if (!style_.lenient) check_keywords(schema);
    add_keywords(schema, depth);
    state->second = false;
  }

  std::vector<SchemaPart> take() { return std::move(parts_); }

 private:
  void add_keywords(const PlacedSchema& schema, int depth) {
    if (schema.value->find("$ref") != nullptr) {
      if (!style_.lenient) check_alone(schema, "$ref", {});
      return add(resolve(member(schema, "$ref")), depth + 1);
    }
    if (const PlacedSchema list = alternatives(schema); list.value != nullptr) {
      return add_alternatives(list, depth);
    }
    for (const char* keyword : {"enum", "const"}) {
      if (schema.value->find(keyword) == nullptr) continue;
      if (!style_.lenient) check_alone(schema, keyword, "type");
      return add_values(schema, member(schema, keyword));
    }
    const Types types = read_types(schema);
    if (types.empty()) return everything();
    for (const SchemaType type : types) parts_.push_back({type, schema, {}});
  }

  // The list of anyOf, or what is taken for it where the style is lenient.
  PlacedSchema alternatives(const PlacedSchema& schema) const {
    const PlacedSchema any_of = member(schema, "anyOf");
    if (!style_.lenient) {
      if (any_of.value != nullptr) check_alone(schema, "anyOf", {});
      return any_of;
    }
    // Beside what says more, they most often say which properties go together.
    if (schema.value->find("properties") != nullptr) return {nullptr, {}};
    if (any_of.value != nullptr) return any_of;
    const PlacedSchema one_of = member(schema, "oneOf"), all_of = member(schema, "allOf");
    if (one_of.value != nullptr) return one_of;
    const bool single = all_of.value != nullptr && all_of.value->items.size() == 1;
    return single ? all_of : PlacedSchema{nullptr, {}};
  }

  void add_alternatives(const PlacedSchema& list, int depth) {
    expect(list, Kind::kArray, "a list of schemas");
    for (std::size_t i = 0; i < list.value->items.size(); ++i) {
      add({&list.value->items[i], fmt::format("{}[{}]", list.path, i)}, depth + 1);
    }
  }

  void add_values(const PlacedSchema& schema, const PlacedSchema& values) {
    const bool is_enum = values.path.ends_with(".enum");
    if (is_enum) expect(values, Kind::kArray, "a list of values");
    const Types types = read_types(schema);
    std::map<SchemaType, std::vector<const JsonValue*>> by_type;
    const auto add_value = [&](const JsonValue& value) {
      if (const auto type = type_among(value, types)) by_type[*type].push_back(&value);
    };
    if (is_enum) {
      std::ranges::for_each(values.value->items, add_value);
    } else {
      add_value(*values.value);
    }
    for (auto& [type, only] : by_type) parts_.push_back({type, schema, std::move(only)});
  }

  void everything() {
    if (std::exchange(everything_, true)) return;
    for (const SchemaType type : {SchemaType::kNull, SchemaType::kBoolean, SchemaType::kNumber,
                                  SchemaType::kString, SchemaType::kObject, SchemaType::kArray}) {
      parts_.push_back({type, {nullptr, {}}, {}});
    }
  }

  // A reference within the document, "#/$defs/name".
  PlacedSchema resolve(const PlacedSchema& ref) const {
    expect(ref, Kind::kString, "a reference");
    const std::string& text = ref.value->text;
    if (text != "#" && !text.starts_with("#/")) {
      fail(ErrorCode::kUnsupported,
           "{}: \"{}\" does not begin with \"#\"; only references within the schema are supported",
           ref.path, text);
    }
    PlacedSchema found = root_;
    for (std::size_t begin = 1; begin < text.size();) {
      const std::size_t end = std::min(text.find('/', begin + 1), text.size());
      found = step(found, unescape(text.substr(begin + 1, end - begin - 1)));
      if (found.value == nullptr) {
        fail(ErrorCode::kUsage, "{}: the schema has nothing at \"{}\"", ref.path, text);
      }
      begin = end;
    }
    return found;
  }

  static PlacedSchema step(const PlacedSchema& from, const std::string& key) {
    if (from.value->kind != Kind::kArray) return member(from, key);
    std::size_t i = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), i);
    const bool valid = error == std::errc() && end == key.data() + key.size();
    if (!valid || i >= from.value->items.size()) return {nullptr, {}};
    return {&from.value->items[i], fmt::format("{}[{}]", from.path, i)};
  }

  static std::string unescape(std::string_view key) {
    std::string out;
    for (std::size_t i = 0; i < key.size(); ++i) {
      const bool escaped = key[i] == '~' && i + 1 < key.size();
      if (escaped) ++i;
      out += !escaped ? key[i] : key[i] == '1' ? '/' : '~';
    }
    return out;
  }

  const PlacedSchema& root_;
  const SchemaStyle& style_;
  std::map<const JsonValue*, bool> seen_;  // true: its own alternatives are being read
  std::vector<SchemaPart> parts_;
  bool everything_ = false;
};

std::int64_t read_count(const PlacedSchema& place, std::int64_t missing) {
  if (place.value == nullptr) return missing;
  expect(place, Kind::kNumber, "a number");
  const std::string& text = place.value->text;
  std::int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error == std::errc::result_out_of_range || count > kMaxItems) {
    fail(ErrorCode::kUnsupported, "{}: it is {}; at most {} is supported", place.path, text,
         kMaxItems);
  }
  if (error != std::errc() || end != text.data() + text.size() || count < 0) {
    fail(ErrorCode::kUsage, "{}: it is {}; it must be an integer of at least 0", place.path, text);
  }
  return count;
}

void check_properties(const PlacedSchema& place) {
  if (place.value != nullptr) expect(place, Kind::kObject, "an object of schemas");
}

}  // namespace

std::vector<SchemaPart> split_schema(const PlacedSchema& root, const PlacedSchema& schema,
                                     const SchemaStyle& style) {
  Splitter splitter(root, style);
  splitter.add(schema, 0);
  return splitter.take();
}

SchemaObject read_object(const SchemaPart& part, const SchemaStyle& style) {
  SchemaObject object;
  if (part.schema.value == nullptr) {
    object.has_others = true;
    return object;
  }
  const PlacedSchema properties = member(part.schema, "properties");
  check_properties(properties);
  const PlacedSchema others = member(part.schema, "additionalProperties");
  if (others.value != nullptr) {
    const bool refused = others.value->kind == Kind::kBoolean && others.value->text == "false";
    object.has_others = !refused;
    if (!refused) object.others = others;
  } else {
    object.has_others = !(style.closed && properties.value != nullptr);
  }
  std::map<std::string_view, std::size_t> by_name;
  if (properties.value != nullptr) {
    for (const JsonMember& m : properties.value->members) {
      by_name.emplace(m.key, object.properties.size());
      object.properties.push_back({m.key, {&m.value, at(properties.path, m.key)}, false});
    }
  }
  const PlacedSchema required = member(part.schema, "required");
  if (required.value == nullptr) return object;
  expect(required, Kind::kArray, "a list of names");
  for (const JsonValue& name : required.value->items) {
    expect({&name, required.path}, Kind::kString, "a list of names");
    const auto [it, is_new] = by_name.emplace(name.text, object.properties.size());
    if (!is_new) {
      object.properties[it->second].required = true;
      continue;
    }
    if (!object.has_others) {
      if (style.lenient) continue;
      fail(ErrorCode::kUsage,
           "{}: \"{}\" is required, but it is no property, and there are no others", required.path,
           name.text);
    }
    object.properties.push_back({name.text, object.others, true});
  }
  return object;
}

SchemaArray read_array(const SchemaPart& part) {
  SchemaArray array;
  if (part.schema.value == nullptr) return array;
  const PlacedSchema first = member(part.schema, "prefixItems");
  if (first.value != nullptr) {
    expect(first, Kind::kArray, "a list of schemas");
    for (std::size_t i = 0; i < first.value->items.size(); ++i) {
      array.first.push_back({&first.value->items[i], fmt::format("{}[{}]", first.path, i)});
    }
  }
  const PlacedSchema items = member(part.schema, "items");
  if (items.value != nullptr) array.rest = items;
  array.least = read_count(member(part.schema, "minItems"), 0);
  array.most = read_count(member(part.schema, "maxItems"), SchemaArray::kNoLimit);
  if (array.most != SchemaArray::kNoLimit && array.most < array.least) {
    fail(ErrorCode::kUsage, "{}: it is {}, below minItems, which is {}",
         at(part.schema.path, "maxItems"), array.most, array.least);
  }
  return array;
}

}  // namespace baltoro
