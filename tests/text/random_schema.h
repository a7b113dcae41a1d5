// Random schemas of the supported keywords, and random documents that often satisfy them.
#pragma once

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "text/schema_check.h"

namespace baltoro {

class SchemaMaker {
 public:
  explicit SchemaMaker(unsigned seed) : random_(seed) {}

  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  bool chance(int percent) { return below(100) < percent; }

  // A schema with definitions that may refer to each other and to the whole.
  Json root() {
    Json defs = Json::object();
    num_defs_ = 3;
    for (int i = 0; i < num_defs_; ++i) defs["d" + std::to_string(i)] = structure(2);
    Json schema = this->schema(3);
    if (schema.is_boolean()) schema = Json::object();
    schema["$defs"] = defs;
    return schema;
  }

  // A document of at most `depth` levels.
  Json any(int depth) {
    switch (below(depth > 0 ? 7 : 5)) {
      case 0:
        return nullptr;
      case 1:
        return chance(50);
      case 2:
        return below(30) - 5;
      case 3:
        return (below(40) - 10) / 4.0 + 0.125;
      case 4:
        return word();
      case 5: {
        Json array = Json::array();
        for (int i = below(4); i > 0; --i) array.push_back(any(depth - 1));
        return array;
      }
      default: {
        Json object = Json::object();
        for (int i = below(4); i > 0; --i) object[word()] = any(depth - 1);
        return object;
      }
    }
  }

  // A document that follows the schema, but for a mistake now and then.
  Json document(const Json& root, const Json& schema, int depth) {
    if (depth <= 0 || chance(4)) return any(1);
    if (schema.is_boolean()) return any(depth - 1);
    if (schema.contains("$ref")) {
      const std::string ref = schema["$ref"];
      return document(root, root.at(Json::json_pointer(ref.substr(1))), depth - 1);
    }
    if (schema.contains("anyOf")) return document(root, pick(schema["anyOf"]), depth - 1);
    if (schema.contains("const")) return schema["const"];
    if (schema.contains("enum")) return pick(schema["enum"]);
    Json type = schema.value("type", Json());
    if (type.is_array()) type = pick(type);
    if (type == "null") return nullptr;
    if (type == "boolean") return chance(50);
    if (type == "integer") return below(2000) - 1000;
    if (type == "number") return chance(50) ? Json(below(100) / 8.0) : Json(below(100));
    if (type == "string") return word();
    if (type == "object" || schema.contains("properties")) return object(root, schema, depth);
    if (type == "array" || schema.contains("items")) return array(root, schema, depth);
    return any(depth - 1);
  }

  std::string word() {
    static const std::vector<std::string> kWords = {"",
                                                    "a",
                                                    "b",
                                                    "ab",
                                                    "abc",
                                                    "name",
                                                    "na",
                                                    "\xC3\xA9",
                                                    "a\"b",
                                                    "a\\",
                                                    "x\n",
                                                    "\xE2\x82\xAC",
                                                    "\xF0\x9F\x98\x80",
                                                    "\x01",
                                                    "\x7F",
                                                    "name2",
                                                    "\xC3\xA8"};
    return kWords[static_cast<std::size_t>(below(static_cast<int>(kWords.size())))];
  }

 private:
  const Json& pick(const Json& list) {
    return list[static_cast<std::size_t>(below(static_cast<int>(list.size())))];
  }

  // Names without escapes, since keys that are not listed have none.
  std::string name() {
    static const std::vector<std::string> kNames = {
        "a", "b", "ab", "abc", "name", "na", "\xC3\xA9", "\xC3\xA8", "x y", "\xE2\x82\xAC"};
    return kNames[static_cast<std::size_t>(below(static_cast<int>(kNames.size())))];
  }

  Json schema(int depth) {
    if (chance(3)) return true;
    if (chance(2)) return false;
    if (chance(15)) return {{"$ref", "#/$defs/d" + std::to_string(below(num_defs_))}};
    if (chance(12) && depth > 0) {
      Json list = Json::array();
      for (int i = 1 + below(3); i > 0; --i) list.push_back(schema(depth - 1));
      return {{"anyOf", list}};
    }
    if (chance(8)) return {{"const", any(2)}};
    if (chance(12)) {
      Json list = Json::array();
      for (int i = 1 + below(5); i > 0; --i) list.push_back(any(1));
      return {{"enum", list}};
    }
    if (depth > 0 && chance(55)) return structure(depth);
    static const std::vector<std::string> kTypes = {"null",   "boolean", "integer", "number",
                                                    "string", "object",  "array"};
    const auto type = [&] { return kTypes[static_cast<std::size_t>(below(7))]; };
    if (chance(20)) return {{"type", Json::array({type(), type()})}};
    return {{"type", type()}, {"description", "of no account"}};
  }

  Json structure(int depth) {
    Json schema = Json::object();
    if (chance(50)) {
      if (chance(80)) schema["type"] = "array";
      if (chance(80)) schema["items"] = this->schema(depth - 1);
      if (chance(30)) schema["minItems"] = below(3);
      if (chance(30)) schema["maxItems"] = 2 + below(3);
      if (chance(20)) {
        schema["prefixItems"] = Json::array({this->schema(depth - 1), this->schema(depth - 1)});
      }
      return schema;
    }
    if (chance(80)) schema["type"] = "object";
    schema["properties"] = Json::object();
    for (int i = below(5); i > 0; --i) schema["properties"][name()] = this->schema(depth - 1);
    Json required = Json::array();
    for (const auto& item : schema["properties"].items()) {
      if (chance(50)) required.push_back(item.key());
    }
    if (chance(10)) required.push_back("abc");
    if (!required.empty()) schema["required"] = required;
    if (chance(60)) {
      schema["additionalProperties"] =
          chance(60) && std::find(required.begin(), required.end(), "abc") == required.end()
              ? Json(false)
              : this->schema(0);
    }
    return schema;
  }

  Json object(const Json& root, const Json& schema, int depth) {
    Json out = Json::object();
    const Json properties = schema.value("properties", Json::object());
    const Json required = schema.value("required", Json::array());
    for (const auto& item : properties.items()) {
      const bool needed = std::find(required.begin(), required.end(), item.key()) != required.end();
      if (needed ? chance(97) : chance(50)) {
        out[item.key()] = document(root, item.value(), depth - 1);
      }
    }
    for (const Json& key : required) {
      if (!out.contains(key.get<std::string>()) && chance(90)) {
        out[key.get<std::string>()] =
            document(root, schema.value("additionalProperties", Json(true)), depth - 1);
      }
    }
    while (chance(25)) {
      out[name()] = document(root, schema.value("additionalProperties", Json(true)), depth - 1);
    }
    return out;
  }

  Json array(const Json& root, const Json& schema, int depth) {
    Json out = Json::array();
    const Json first = schema.value("prefixItems", Json::array());
    const int least = schema.value("minItems", 0);
    for (int i = 0; i < least || chance(50); ++i) {
      const auto at = static_cast<std::size_t>(i);
      const Json& item = at < first.size() ? first[at] : schema.value("items", Json(true));
      out.push_back(document(root, item, depth - 1));
    }
    return out;
  }

  std::mt19937 random_;
  int num_defs_ = 1;
};

}  // namespace baltoro
