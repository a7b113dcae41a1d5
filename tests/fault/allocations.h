// Failures of operator new, for the whole program that links this file, all threads.
#pragma once

#include <cstdint>

namespace baltoro::testing {

// While it lives, allocation number `nth` (from 0) throws std::bad_alloc, and with `all_later` every
// one behind it. One at a time.
class FailingAllocation {
 public:
  explicit FailingAllocation(std::int64_t nth, bool all_later = false);
  ~FailingAllocation();
  FailingAllocation(const FailingAllocation&) = delete;
  FailingAllocation& operator=(const FailingAllocation&) = delete;

  // Whether that many were asked for.
  bool met() const;
};

}  // namespace baltoro::testing
