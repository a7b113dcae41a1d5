// Whole numbers of a plan in its formulas.
#pragma once

#include <cstdint>

namespace baltoro::plan {

constexpr double real(std::int64_t value) { return static_cast<double>(value); }

// Of `value` things among `by`, those of the one that has the most.
constexpr std::int64_t ceil_div(std::int64_t value, std::int64_t by) {
  return (value + by - 1) / by;
}

}  // namespace baltoro::plan
