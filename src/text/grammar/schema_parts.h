// Reading of one JSON schema: what it refers to, the types it allows, its properties and items.
#pragma once

#include <vector>

#include "text/grammar/json_schema.h"

namespace baltoro {

// Splits a schema by type; $ref, anyOf, type lists, enum and const are followed. A schema that allows
// everything gives one part of each type, without a schema.
std::vector<SchemaPart> split_schema(const PlacedSchema& root, const PlacedSchema& schema,
                                     const SchemaStyle& style);

SchemaObject read_object(const SchemaPart& part, const SchemaStyle& style);

SchemaArray read_array(const SchemaPart& part);

}  // namespace baltoro
