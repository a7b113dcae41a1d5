// The CPU backend: every op of ops/backend.h on a team of threads, with leaf loops picked for this
// machine's instruction set.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ops/backend.h"

namespace baltoro {

struct CpuOptions {
  Activations activations = Activations::kBf16;
  int num_threads = 0;             // 0: default_thread_count()
  std::optional<std::string> isa;  // one of supported_isas(); else BALTORO_ISA, else the best
};

// Instruction sets that this build has and this machine runs, best last: "scalar", "neon", "avx2",
// "avx512", "avx512bf16", "amx".
std::vector<std::string> supported_isas();

// Throws Error{kUsage} for an unknown instruction set or thread count, Error{kUnsupported} for one
// that this machine lacks. The bits of a row depend on the instruction set, never on the threads.
std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options);

}  // namespace baltoro
