#include "fault/allocations.h"

#include <atomic>
#include <cstdlib>
#include <limits>
#include <new>

namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

std::atomic<std::int64_t> g_count{0};
std::atomic<std::int64_t> g_nth{kNever};
std::atomic<bool> g_all_later{false};

void* checked(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void count() {
  const std::int64_t nth = g_nth.load();
  if (nth == kNever) return;
  const std::int64_t number = g_count.fetch_add(1);
  if (number == nth || (number > nth && g_all_later)) throw std::bad_alloc();
}

}  // namespace

// The array forms call these.
void* operator new(std::size_t size) {
  count();
  return checked(std::malloc(size == 0 ? 1 : size));
}
void* operator new(std::size_t size, std::align_val_t align) {
  count();
  const auto alignment = static_cast<std::size_t>(align);
  return checked(std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  try {
    return operator new(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

namespace baltoro::testing {

FailingAllocation::FailingAllocation(std::int64_t nth, bool all_later) {
  g_count = 0;
  g_all_later = all_later;
  g_nth = nth;
}
FailingAllocation::~FailingAllocation() { g_nth = kNever; }
bool FailingAllocation::met() const { return g_count > g_nth; }

}  // namespace baltoro::testing
