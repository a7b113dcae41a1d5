// Nothing is allocated in a steady state: after the first call of each case of every op, two more
// rounds over all of them make no heap request. This file replaces operator new for its program.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "cpu/backend.h"
#include "ops/parity/cases.h"

namespace {

std::atomic<long> g_allocations{0};

void* counted(std::size_t bytes) {
  ++g_allocations;
  void* memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes); }
void* operator new[](std::size_t bytes) { return counted(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace baltoro {
namespace {

TEST(CpuAllocation, SteadyStateMakesNoHeapRequest) {
  for (const std::string& isa : supported_isas()) {
    const auto cpu = make_cpu_backend({Activations::kBf16, 2, isa});
    std::vector<PreparedOp> ops;
    for (const OpCase& op_case : op_cases()) ops.push_back(op_case.prepare(*cpu));
    for (PreparedOp& op : ops) op.run();
    const long before = g_allocations.load();
    for (int round = 0; round < 2; ++round) {
      for (PreparedOp& op : ops) op.run();
    }
    EXPECT_EQ(g_allocations.load() - before, 0) << isa;
  }
}

// The counter itself must be able to fail.
TEST(CpuAllocation, TheCounterSeesAnAllocation) {
  const long before = g_allocations.load();
  std::vector<int> values(100);
  EXPECT_GT(g_allocations.load(), before);
}

}  // namespace
}  // namespace baltoro
