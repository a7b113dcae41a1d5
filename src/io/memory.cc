#include "io/memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace baltoro {
namespace {

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

// A file that holds one number; nothing where it is absent or says "max".
std::optional<std::uint64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

// The sum of the `keys` of a memory.stat: lines of a key and a number of bytes.
std::uint64_t sum_of(const std::string& stat, std::initializer_list<const char*> keys) {
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

// The path of this process in a hierarchy: of the line "0::PATH" (v2) or "N:memory:PATH" (v1). "/"
// within a container that has its own view.
std::string cgroup_path(const std::filesystem::path& root, std::string_view controller) {
  std::ifstream file(root / "proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    const std::size_t name = line.find(':') + 1;
    const std::size_t path = line.find(':', name) + 1;
    if (name == 0 || path == 0) continue;
    if (std::string_view(line).substr(name, path - 1 - name) == controller)
      return line.substr(path);
  }
  return "/";
}

struct CgroupFiles {
  const char* limit;
  const char* used;
  std::initializer_list<const char*> cache;  // keys of memory.stat
};

// Of the group at `path` under `mount` and of all above it. Text, since libstdc++ 12 frees a part
// twice where memory runs out while a name is appended to a path that ends in '/'.
std::uint64_t least_left(const std::string& mount, std::string path, const CgroupFiles& files) {
  std::uint64_t least = kUnlimited;
  for (;; path.resize(path.rfind('/'))) {
    const std::string group = mount + path + "/";
    least =
        std::min(least, left_of(read_number(group + files.limit), read_number(group + files.used),
                                sum_of(group + "memory.stat", files.cache)));
    if (path.find('/') == std::string::npos) return least;
  }
}

}  // namespace

std::uint64_t available_memory_bytes(const std::filesystem::path& root) {
  const std::string mount = root.string() + "/sys/fs/cgroup";
  const std::uint64_t left2 =
      least_left(mount, cgroup_path(root, ""),
                 {"memory.max", "memory.current", {"inactive_file", "active_file"}});
  const std::uint64_t left1 = least_left(mount + "/memory", cgroup_path(root, "memory"),
                                         {"memory.limit_in_bytes",
                                          "memory.usage_in_bytes",
                                          {"total_inactive_file", "total_active_file"}});
  return std::min({system_available_bytes(root / "proc/meminfo"), left1, left2});
}

std::uint64_t default_memory_limit() {
  constexpr std::uint64_t kLargestReserve = std::uint64_t{4} << 30;
  const std::uint64_t available = available_memory_bytes();
  if (available == 0) return kUnlimited;
  return resident_memory_bytes() + available - std::min(available / 10, kLargestReserve);
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
