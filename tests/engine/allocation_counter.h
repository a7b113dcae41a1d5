// Counts heap allocations of the whole test program, all threads.
#pragma once

#include <cstdint>

namespace baltoro::testing {

std::int64_t allocation_count() noexcept;

}  // namespace baltoro::testing
