// Which leaf tables this machine can run, and which one to use.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cpu/leaf.h"

namespace baltoro::cpu {

// The tables that run here, best last; never empty.
std::vector<const LeafTable*> supported_tables();

// The table named by `isa`, else by the environment variable BALTORO_ISA, else the best.
// Throws Error{kUsage} for an unknown name, Error{kUnsupported} for one that does not run here.
const LeafTable& pick_table(const std::optional<std::string>& isa);

}  // namespace baltoro::cpu
