// An independent reading of the schemas that are supported: whether a document satisfies one, with
// the order of properties that answers have.
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace baltoro {

using Json = nlohmann::ordered_json;

class SchemaCheck {
 public:
  explicit SchemaCheck(const Json& root) : root_(root) {}

  bool accepts(const Json& document) const { return accepts(root_, document); }

 private:
  bool accepts(const Json& schema, const Json& doc) const {
    if (schema.is_boolean()) return schema.get<bool>();
    if (schema.contains("$ref")) {
      const std::string ref = schema["$ref"];
      return accepts(root_.at(Json::json_pointer(ref.substr(1))), doc);
    }
    if (schema.contains("anyOf")) {
      return std::ranges::any_of(schema["anyOf"], [&](const Json& s) { return accepts(s, doc); });
    }
    if (!type_fits(schema, doc)) return false;
    if (schema.contains("const")) return schema["const"] == doc;
    if (schema.contains("enum")) {
      return std::ranges::find(schema["enum"], doc) != schema["enum"].end();
    }
    if (doc.is_object()) return object_fits(schema, doc);
    if (doc.is_array()) return array_fits(schema, doc);
    return true;
  }

  static bool is(const std::string& type, const Json& doc) {
    if (type == "null") return doc.is_null();
    if (type == "boolean") return doc.is_boolean();
    if (type == "integer") return doc.is_number_integer();
    if (type == "number") return doc.is_number();
    if (type == "string") return doc.is_string();
    if (type == "object") return doc.is_object();
    return doc.is_array();
  }

  // Keywords of objects and arrays imply the type where none is given.
  static bool type_fits(const Json& schema, const Json& doc) {
    if (schema.contains("type")) {
      const Json& type = schema["type"];
      if (type.is_string()) return is(type, doc);
      return std::ranges::any_of(type, [&](const Json& t) { return is(t, doc); });
    }
    const auto any = [&](std::initializer_list<const char*> keys) {
      return std::ranges::any_of(keys, [&](const char* key) { return schema.contains(key); });
    };
    const bool object = any({"properties", "required", "additionalProperties"});
    const bool array = any({"items", "prefixItems", "minItems", "maxItems"});
    return (!object && !array) || (object && doc.is_object()) || (array && doc.is_array());
  }

  bool object_fits(const Json& schema, const Json& doc) const {
    std::vector<std::string> order;
    const Json properties = schema.value("properties", Json::object());
    for (const auto& item : properties.items()) order.push_back(item.key());
    const std::vector<std::string> required = schema.value("required", std::vector<std::string>());
    for (const std::string& name : required) {
      if (std::ranges::find(order, name) == order.end()) order.push_back(name);
      if (!doc.contains(name)) return false;
    }
    const bool says_more =
        !order.empty() || schema.value("additionalProperties", Json(true)) != Json(true);
    std::size_t last = 0;
    for (const auto& item : doc.items()) {
      const auto place =
          static_cast<std::size_t>(std::ranges::find(order, item.key()) - order.begin());
      if (place < last) return false;
      last = place;
      if (place == order.size() && says_more &&
          Json(item.key()).dump().find('\\') != std::string::npos) {
        return false;  // names that are not listed are written without escapes
      }
      const Json sub = properties.contains(item.key())
                           ? properties[item.key()]
                           : schema.value("additionalProperties", Json(true));
      if (!accepts(sub, item.value())) return false;
    }
    return true;
  }

  bool array_fits(const Json& schema, const Json& doc) const {
    if (doc.size() < schema.value("minItems", std::size_t{0})) return false;
    if (doc.size() > schema.value("maxItems", doc.size())) return false;
    const Json first = schema.value("prefixItems", Json::array());
    const Json rest = schema.value("items", Json(true));
    for (std::size_t i = 0; i < doc.size(); ++i) {
      if (!accepts(i < first.size() ? first[i] : rest, doc[i])) return false;
    }
    return true;
  }

  const Json& root_;
};

}  // namespace baltoro
