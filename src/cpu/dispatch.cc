#include "cpu/dispatch.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

#include "core/error.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace baltoro::cpu {
namespace {

constexpr std::array<std::string_view, 6> kIsaNames = {"scalar", "neon",       "avx2",
                                                       "avx512", "avx512bf16", "amx"};

#if defined(__x86_64__)

struct Registers {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

// All zero where the leaf does not exist.
Registers cpuid(unsigned leaf, unsigned subleaf) {
  Registers r;
  __get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx);
  return r;
}

constexpr bool has_all(unsigned word, unsigned mask) { return (word & mask) == mask; }

// Register state that the operating system saves (XCR0); 0 where xgetbv may not be executed.
unsigned saved_state(const Registers& basic) {
  if (!has_all(basic.ecx, bit_OSXSAVE)) return 0;
  unsigned eax = 0, edx = 0;
  __asm__ volatile("xgetbv" : "=a"(eax), "=d"(edx) : "c"(0));
  return eax;
}

// Asks Linux for the tile registers, which a process may not touch before (kernel 5.16 and later).
bool may_use_tiles() {
  constexpr long kArchReqXcompPerm = 0x1023, kXfeatureXtileData = 18;
  return syscall(SYS_arch_prctl, kArchReqXcompPerm, kXfeatureXtileData) == 0;
}

void add_native_tables(std::vector<const LeafTable*>& tables) {
  constexpr unsigned kTileState = 0x60000;                       // XTILECFG, XTILEDATA
  constexpr unsigned kAmxBf16AndTile = (1u << 22) | (1u << 24);  // of leaf 7, EDX
  constexpr unsigned kYmmState = 0x06;                           // SSE and AVX
  constexpr unsigned kZmmState = 0xe6;                           // and opmask, both zmm halves
  const Registers basic = cpuid(1, 0);
  const Registers extended = cpuid(7, 0);
  const unsigned state = saved_state(basic);
  const bool avx2 = has_all(state, kYmmState) && has_all(basic.ecx, bit_AVX | bit_FMA | bit_F16C) &&
                    has_all(extended.ebx, bit_AVX2);
  if (!avx2) return;
  tables.push_back(&kAvx2Leaf);
  constexpr unsigned kFoundation = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
  if (!has_all(state, kZmmState) || !has_all(extended.ebx, kFoundation)) return;
  tables.push_back(&kAvx512Leaf);
  if (!has_all(cpuid(7, 1).eax, bit_AVX512BF16)) return;
  tables.push_back(&kAvx512Bf16Leaf);
  if (!has_all(state, kTileState) || !has_all(extended.edx, kAmxBf16AndTile)) return;
  if (may_use_tiles()) tables.push_back(&kAmxLeaf);
}

#elif defined(__aarch64__)

// Every such processor has it.
void add_native_tables(std::vector<const LeafTable*>& tables) { tables.push_back(&kNeonLeaf); }

#else

void add_native_tables(std::vector<const LeafTable*>&) {}

#endif

std::string join_names(const std::vector<const LeafTable*>& tables) {
  std::string names;
  for (const LeafTable* table : tables) {
    if (!names.empty()) names += ", ";
    names += table->name;
  }
  return names;
}

}  // namespace

std::vector<const LeafTable*> supported_tables() {
  std::vector<const LeafTable*> tables = {&kScalarLeaf};
  add_native_tables(tables);
  return tables;
}

const LeafTable& pick_table(const std::optional<std::string>& isa) {
  const std::vector<const LeafTable*> tables = supported_tables();
  const char* forced = std::getenv("BALTORO_ISA");
  const bool by_environment = !isa && forced != nullptr && *forced != '\0';
  if (!isa && !by_environment) return *tables.back();
  const std::string name = isa ? *isa : std::string(forced);
  const char* where = by_environment ? "BALTORO_ISA" : "isa";
  for (const LeafTable* table : tables) {
    if (name == table->name) return *table;
  }
  if (std::find(kIsaNames.begin(), kIsaNames.end(), name) == kIsaNames.end()) {
    fail(ErrorCode::kUsage, "{}: unknown instruction set '{}'; this machine has {}", where, name,
         join_names(tables));
  }
  fail(ErrorCode::kUnsupported, "{}: this machine or build does not run '{}'; it has {}", where,
       name, join_names(tables));
}

}  // namespace baltoro::cpu
