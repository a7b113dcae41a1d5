// How much host memory there is and how much this process holds, in bytes.
#pragma once

#include <cstdint>
#include <filesystem>

namespace baltoro {

// Memory that can still be taken without swapping: MemAvailable, bounded by what is left of the
// limits of this process's cgroup (v1 or v2) and those above it, the page cache counted as left. 0
// where the system does not say. `root` stands for the root directory with its proc and sys.
std::uint64_t available_memory_bytes(const std::filesystem::path& root = "/");

// What this process may take in all where nobody says: what it holds and nine tenths of what is
// available, or all of that but 4 GiB where this is more; no limit where the system does not say.
std::uint64_t default_memory_limit();

// The resident set of this process. 0 where the system does not say.
std::uint64_t resident_memory_bytes();

}  // namespace baltoro
