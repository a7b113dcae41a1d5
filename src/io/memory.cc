#include "io/memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

namespace baltoro {
namespace {

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

// A file that holds one number; nothing where it is absent or says "max".
std::optional<std::uint64_t> read_number(const char* path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

std::uint64_t left_of(std::optional<std::uint64_t> limit, std::optional<std::uint64_t> used) {
  if (!limit || !used) return kUnlimited;
  return *limit > *used ? *limit - *used : 0;
}

std::uint64_t system_available_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  std::uint64_t kibibytes = 0;
  std::string unit;
  while (file >> key >> kibibytes && std::getline(file, unit)) {
    if (key == "MemAvailable:") return kibibytes * 1024;
  }
  return 0;
}

}  // namespace

std::uint64_t available_memory_bytes() {
  const std::uint64_t version2 = left_of(read_number("/sys/fs/cgroup/memory.max"),
                                         read_number("/sys/fs/cgroup/memory.current"));
  const std::uint64_t version1 =
      left_of(read_number("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
              read_number("/sys/fs/cgroup/memory/memory.usage_in_bytes"));
  return std::min({system_available_bytes(), version1, version2});
}

std::uint64_t resident_memory_bytes() {
  // Pages, not kibibytes: getrusage's unit differs between systems.
  std::ifstream file("/proc/self/statm");
  std::uint64_t total = 0;
  std::uint64_t resident = 0;
  if (!(file >> total >> resident)) return 0;
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace baltoro
