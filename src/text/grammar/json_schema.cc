#include "text/grammar/json_schema.h"

#include <algorithm>
#include <utility>

#include "text/grammar/schema_parts.h"
#include "text/json_print.h"

namespace baltoro {
namespace {

using Kind = JsonValue::Kind;

bool is_any(const SchemaPart& part) { return part.schema.value == nullptr && part.only.empty(); }

// Whether the schema of an object or array says nothing beyond the type.
bool is_open(const SchemaPart& part, const SchemaStyle& style) {
  const auto is_anything = [](const PlacedSchema& schema) {
    return schema.value == nullptr ||
           (schema.value->kind == Kind::kBoolean && schema.value->text == "true");
  };
  if (part.type == SchemaType::kObject) {
    const SchemaObject object = read_object(part, style);
    return object.properties.empty() && object.has_others && is_anything(object.others);
  }
  const SchemaArray array = read_array(part);
  return array.first.empty() && is_anything(array.rest) && array.least == 0 &&
         array.most == SchemaArray::kNoLimit;
}

bool is_composite(SchemaType type) {
  return type == SchemaType::kObject || type == SchemaType::kArray;
}

// Whether the parts are those of a schema that allows everything, which stand together.
bool allow_everything(const std::vector<SchemaPart>& parts) {
  return std::ranges::count_if(parts, is_any) >= 6;
}

bool is_scalar(const JsonValue& value) {
  return value.kind != Kind::kArray && value.kind != Kind::kObject;
}

}  // namespace

SchemaCompiler::SchemaCompiler(GrammarBuilder& builder, const JsonRules& rules, PlacedSchema root,
                               SchemaStyle style)
    : builder_(builder), rules_(rules), root_(std::move(root)), style_(style) {}

RuleId SchemaCompiler::rule(const PlacedSchema& schema) {
  if (schema.value == nullptr) return rules_.value;
  const auto [it, is_new] = by_schema_.try_emplace(schema.value, 0);
  if (is_new) {
    it->second = builder_.add_rule(schema.path);
    Open& open = open_.emplace_back();
    open.rule = it->second;
    open.schema = schema;
  }
  return it->second;
}

RuleId SchemaCompiler::rule(const SchemaPart& part) {
  if (part.only.empty()) {
    switch (part.type) {
      case SchemaType::kObject:
        if (is_open(part, style_)) return rules_.object;
        break;
      case SchemaType::kArray:
        if (is_open(part, style_)) return rules_.array;
        break;
      case SchemaType::kString:
        return rules_.string;
      case SchemaType::kNumber:
        return rules_.number;
      case SchemaType::kInteger:
        return rules_.integer;
      default:
        break;
    }
  }
  const auto [it, is_new] = by_part_.try_emplace({part.schema.value, part.type}, 0);
  if (is_new) {
    it->second = builder_.add_rule(part.schema.path);
    Open& open = open_.emplace_back();
    open.rule = it->second;
    open.parts.push_back(part);
  }
  return it->second;
}

void SchemaCompiler::finish() {
  while (!open_.empty()) {
    const Open open = std::move(open_.back());
    open_.pop_back();
    builder_.go_on_with(open.rule);
    const StateId start = builder_.start(open.rule);
    const StateId end = builder_.add_state();
    builder_.set_final(end);
    if (open.parts.empty()) {
      fill(start, parts(open.schema), end);
    } else {
      fill_part(start, open.parts.front(), end);
    }
  }
}

std::vector<SchemaPart> SchemaCompiler::parts(const PlacedSchema& schema) const {
  return split_schema(root_, schema, style_);
}

SchemaObject SchemaCompiler::object(const SchemaPart& part) const {
  return read_object(part, style_);
}

void SchemaCompiler::fill(StateId from, const std::vector<SchemaPart>& parts, StateId to) {
  const bool everything = allow_everything(parts);
  if (everything) builder_.call(from, rules_.value, to);
  for (const SchemaPart& part : parts) {
    if (everything && is_any(part)) continue;
    if (is_composite(part.type) && part.only.empty()) {
      builder_.call(from, rule(part), to);
    } else {
      fill_part(from, part, to);
    }
  }
}

void SchemaCompiler::fill_part(StateId from, const SchemaPart& part, StateId to) {
  if (!part.only.empty()) return only(from, part.only, to);
  switch (part.type) {
    case SchemaType::kNull:
      return builder_.skip(builder_.text(from, "null"), to);
    case SchemaType::kBoolean:
      builder_.skip(builder_.text(from, "true"), to);
      return builder_.skip(builder_.text(from, "false"), to);
    case SchemaType::kInteger:
      return builder_.call(from, rules_.integer, to);
    case SchemaType::kNumber:
      return builder_.call(from, rules_.number, to);
    case SchemaType::kString:
      return builder_.call(from, rules_.string, to);
    case SchemaType::kObject:
      return fill_object(from, object(part), to);
    case SchemaType::kArray:
      return fill_array(from, read_array(part), to);
  }
}

// Properties in their order. There are two rows of states, one while no property has been written
// and one behind a property, where a comma comes first; what is optional can be passed in both.
void SchemaCompiler::fill_object(StateId from, const SchemaObject& object, StateId to) {
  GrammarBuilder& b = builder_;
  StateId first = b.optional_call(b.text(from, "{"), rules_.space);
  StateId behind = b.add_state();
  std::vector<std::string> names;
  for (const SchemaProperty& property : object.properties) {
    const StateId key = b.add_state(), next_first = b.add_state(), next_behind = b.add_state();
    b.skip(first, key);
    b.skip(b.optional_call(b.text(behind, ","), rules_.space), key);
    const StateId name = b.text(key, quote_json(property.name));
    b.call(json_colon(b, name), rule(property.schema), next_behind);
    if (!property.required) {
      b.skip(first, next_first);
      b.skip(behind, next_behind);
    }
    first = next_first;
    behind = next_behind;
    names.push_back(property.name);
  }
  if (object.has_others) {
    const RuleId name = b.add_rule("other property");
    add_other_text(b, b.text(b.start(name), "\""), names, rules_.plain_name);
    const StateId key = b.add_state();
    b.skip(first, key);
    b.skip(b.optional_call(b.text(behind, ","), rules_.space), key);
    b.call(json_colon(b, b.call(key, name)), rule(object.others), behind);
  }
  const StateId close = b.optional_call(behind, rules_.space);
  b.skip(first, close);
  b.bytes(close, '}', '}', to);
}

void SchemaCompiler::fill_array(StateId from, const SchemaArray& array, StateId to) {
  GrammarBuilder& b = builder_;
  const auto num_first = static_cast<std::int64_t>(array.first.size());
  const bool bounded = array.most != SchemaArray::kNoLimit;
  const std::int64_t num_states =
      bounded ? array.most : std::max({num_first, array.least, std::int64_t{1}});
  const auto item = [&](std::int64_t i) {
    return rule(i < num_first ? array.first[static_cast<std::size_t>(i)] : array.rest);
  };
  const StateId first = b.optional_call(b.text(from, "["), rules_.space);
  const StateId close = b.add_state();
  if (array.least == 0) b.skip(first, close);
  StateId at = first;
  for (std::int64_t i = 0; i < num_states; ++i) {
    if (i > 0) at = b.optional_call(b.text(at, ","), rules_.space);
    at = b.call(at, item(i));
    if (i + 1 < array.least) continue;
    b.skip(at, close);
    b.call(at, rules_.space, close);
  }
  if (!bounded) {
    const StateId next = b.optional_call(b.text(at, ","), rules_.space);
    b.call(next, item(num_states), at);
  }
  b.bytes(close, ']', ']', to);
}

void SchemaCompiler::only(StateId from, const std::vector<const JsonValue*>& values, StateId to) {
  std::vector<std::string> texts;
  for (const JsonValue* value : values) {
    if (is_scalar(*value)) {
      texts.push_back(value->kind == Kind::kString ? quote_json(value->text)
                                                   : std::string(value->source));
    } else {
      builder_.skip(literal(from, *value), to);
    }
  }
  builder_.one_of(from, texts, to);
}

// One value with the white space that JSON may have here.
StateId SchemaCompiler::literal(StateId from, const JsonValue& value) {
  GrammarBuilder& b = builder_;
  if (value.kind == Kind::kString) return b.text(from, quote_json(value.text));
  if (is_scalar(value)) return b.text(from, value.source);
  const bool is_object = value.kind == Kind::kObject;
  StateId at = b.optional_call(b.text(from, is_object ? "{" : "["), rules_.space);
  const std::size_t size = is_object ? value.members.size() : value.items.size();
  for (std::size_t i = 0; i < size; ++i) {
    if (i > 0) at = b.optional_call(b.text(at, ","), rules_.space);
    if (is_object) at = json_colon(b, b.text(at, quote_json(value.members[i].key)));
    at = literal(at, is_object ? value.members[i].value : value.items[i]);
  }
  if (size > 0) at = b.optional_call(at, rules_.space);
  return b.text(at, is_object ? "}" : "]");
}

}  // namespace baltoro
