// Where a model's bytes are and how they came there, for people and for programs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "baltoro/engine.h"

namespace baltoro::cli {

// Lines of "limit …", and for a plan that leaves weights in the files "files …" and "disk …".
// `decode_bytes`: weights that one token reads, wherever they are. Texts begin in column `indent`.
std::string describe(const MemoryPlan& plan, std::int64_t decode_bytes, int indent);
nlohmann::ordered_json to_json(const MemoryPlan& plan);

// A line "load …" for what was copied into memory and one for what was copied to a device: bytes,
// seconds, and of the latter which side bounds it. Nothing for weights that are mapped.
std::string describe(const LoadTimes& times, const MemoryPlan& plan, int indent);
nlohmann::ordered_json to_json(const LoadTimes& times, const MemoryPlan& plan);

}  // namespace baltoro::cli
