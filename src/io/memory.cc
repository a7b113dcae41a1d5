#include "io/memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>

namespace baltoro {
namespace {

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

// A file that holds one number; nothing where it is absent or says "max".
std::optional<std::uint64_t> read_number(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

// The sum of the `keys` of a memory.stat: lines of a key and a number of bytes.
std::uint64_t sum_of(const std::filesystem::path& stat, std::initializer_list<const char*> keys) {
  std::ifstream file(stat);
  std::string key;
  std::uint64_t value = 0;
  std::uint64_t sum = 0;
  while (file >> key >> value) {
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) sum += value;
  }
  return sum;
}

// `cache` is part of `used` and gives way under pressure: files that were read, such as weights.
std::uint64_t left_of(std::optional<std::uint64_t> limit, std::optional<std::uint64_t> used,
                      std::uint64_t cache) {
  if (!limit || !used) return kUnlimited;
  const std::uint64_t held = *used > cache ? *used - cache : 0;
  return *limit > held ? *limit - held : 0;
}

std::uint64_t system_available_bytes(const std::filesystem::path& meminfo) {
  std::ifstream file(meminfo);
  std::string key;
  std::uint64_t kibibytes = 0;
  std::string unit;
  while (file >> key >> kibibytes && std::getline(file, unit)) {
    if (key == "MemAvailable:") return kibibytes * 1024;
  }
  return 0;
}

}  // namespace

std::uint64_t available_memory_bytes(const std::filesystem::path& root) {
  const std::filesystem::path v2 = root / "sys/fs/cgroup";
  const std::filesystem::path v1 = v2 / "memory";
  const std::uint64_t left2 =
      left_of(read_number(v2 / "memory.max"), read_number(v2 / "memory.current"),
              sum_of(v2 / "memory.stat", {"inactive_file", "active_file"}));
  const std::uint64_t left1 =
      left_of(read_number(v1 / "memory.limit_in_bytes"), read_number(v1 / "memory.usage_in_bytes"),
              sum_of(v1 / "memory.stat", {"total_inactive_file", "total_active_file"}));
  return std::min({system_available_bytes(root / "proc/meminfo"), left1, left2});
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
