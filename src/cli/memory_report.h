// Where a model's bytes are, for people and for programs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "baltoro/memory_plan.h"

namespace baltoro::cli {

// Lines of "limit …", and for a plan that leaves weights in the files "files …" and "disk …".
// `decode_bytes`: weights that one token reads, wherever they are. Texts begin in column `indent`.
std::string describe(const MemoryPlan& plan, std::int64_t decode_bytes, int indent);
nlohmann::ordered_json to_json(const MemoryPlan& plan);

}  // namespace baltoro::cli
