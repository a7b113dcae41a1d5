// Bytes as messages state them.
#pragma once

#include <cstdint>

namespace baltoro {

constexpr double gib(std::uint64_t bytes) {
  return static_cast<double>(bytes) / (1024.0 * 1024 * 1024);
}

}  // namespace baltoro
