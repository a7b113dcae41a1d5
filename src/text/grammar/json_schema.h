// JSON schemas as rules of a grammar (docs/structured_output.md). First each schema becomes a list
// of parts of one JSON type (schema_parts), which JSON text and the arguments of a call in a chat
// format are then written from.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/grammar/grammar.h"
#include "text/grammar/json_grammar.h"
#include "text/json_value.h"

namespace baltoro {

struct SchemaStyle {
  // Keywords that are not supported are left out of account, not refused: what is accepted may then
  // break the schema.
  bool lenient = false;
  // Where an object declares properties and says nothing of others, there are none.
  bool closed = false;
};

enum class SchemaType : std::uint8_t {
  kNull,
  kBoolean,
  kInteger,
  kNumber,
  kString,
  kObject,
  kArray,
};

// A schema and its place in the request, for messages.
struct PlacedSchema {
  const JsonValue* value = nullptr;
  std::string path = {};
};

// Values of one type that a schema allows. Without a schema: all of the type.
struct SchemaPart {
  SchemaType type;
  PlacedSchema schema;
  std::vector<const JsonValue*> only;  // not empty: these alone (enum, const)
};

struct SchemaProperty {
  std::string name;
  PlacedSchema schema;  // without a value: anything
  bool required = false;
};

// What an object schema says. `others` is the schema of the properties that are not listed.
struct SchemaObject {
  std::vector<SchemaProperty> properties;  // in the order in which they are to be written
  bool has_others = false;
  PlacedSchema others;  // without a value: anything
};

struct SchemaArray {
  static constexpr std::int64_t kNoLimit = -1;
  std::vector<PlacedSchema> first;  // prefixItems
  PlacedSchema rest;                // without a value: anything
  std::int64_t least = 0;
  std::int64_t most = kNoLimit;
};

// Compiles the schemas of one JSON document. The document, the builder and the rules must outlive
// it. All throw Error{kUsage} for what is no schema and Error{kUnsupported} for what is not
// supported, naming keyword and path.
class SchemaCompiler {
 public:
  SchemaCompiler(GrammarBuilder& builder, const JsonRules& rules, PlacedSchema root,
                 SchemaStyle style);

  const PlacedSchema& root() const { return root_; }

  // The rule of the JSON texts that satisfy the schema. It is empty until finish().
  RuleId rule(const PlacedSchema& schema);
  // The same for one part of it.
  RuleId rule(const SchemaPart& part);
  // Fills all rules that were asked for, and those that they need.
  void finish();

  std::vector<SchemaPart> parts(const PlacedSchema& schema) const;
  SchemaObject object(const SchemaPart& part) const;

  GrammarBuilder& builder() { return builder_; }
  const JsonRules& json() const { return rules_; }

 private:
  struct Open {
    RuleId rule = 0;
    PlacedSchema schema = {};
    std::vector<SchemaPart> parts = {};  // those of the schema, where there are none
  };

  void fill(StateId from, const std::vector<SchemaPart>& parts, StateId to);
  void fill_part(StateId from, const SchemaPart& part, StateId to);
  void fill_object(StateId from, const SchemaObject& object, StateId to);
  void fill_array(StateId from, const SchemaArray& array, StateId to);
  void only(StateId from, const std::vector<const JsonValue*>& values, StateId to);
  StateId literal(StateId from, const JsonValue& value);

  GrammarBuilder& builder_;
  const JsonRules& rules_;
  PlacedSchema root_;
  SchemaStyle style_;
  std::map<const JsonValue*, RuleId> by_schema_;
  std::map<std::pair<const JsonValue*, SchemaType>, RuleId> by_part_;
  std::vector<Open> open_;  // rules that are not filled yet
};

}  // namespace baltoro
