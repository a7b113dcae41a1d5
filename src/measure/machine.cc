#include "measure/machine.h"

#include <fmt/chrono.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <ctime>
#include <fstream>
#include <set>

#include "baltoro/version.h"
#include "core/parallel.h"
#include "cpu/backend.h"
#include "measure/commit.h"

namespace baltoro {
namespace {

std::string first_line(const std::string& path) {
  std::string line;
  std::getline(std::ifstream(path) >> std::ws, line);
  return line;
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with("model name")) continue;
    const std::size_t at = line.find(": ");
    return at == std::string::npos ? std::string() : line.substr(at + 2);
  }
  return {};
}

// Processors of "0-3,8".
int count_list(const std::string& list) {
  int count = 0, first = 0, last = 0;
  for (const char* at = list.c_str(); *at != '\0';) {
    int used = 0;
    if (std::sscanf(at, "%d-%d%n", &first, &last, &used) == 2 && used > 0) {
      count += last - first + 1;
    } else if (std::sscanf(at, "%d%n", &first, &used) == 1) {
      ++count;
    } else {
      break;
    }
    at += used;
    if (*at == ',') ++at;
  }
  return count;
}

std::vector<CacheInfo> caches() {
  std::vector<CacheInfo> list;
  for (int i = 0;; ++i) {
    const std::string dir = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", i);
    const std::string level = first_line(dir + "level");
    if (level.empty()) return list;
    const std::string type = first_line(dir + "type");
    if (type == "Instruction") continue;
    CacheInfo cache;
    cache.name = "L" + level;
    cache.bytes = std::atoll(first_line(dir + "size").c_str()) * 1024;  // "32K"
    cache.shared_by = count_list(first_line(dir + "shared_cpu_list"));
    list.push_back(cache);
  }
}

}  // namespace

MachineInfo describe_machine() {
  MachineInfo info;
  info.cpu = cpu_name();
  info.processors = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  info.cores = default_thread_count();
  info.isas = supported_isas();
  info.caches = caches();
  info.memory_bytes = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                      static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE));
  utsname system{};
  if (uname(&system) == 0) info.kernel = fmt::format("{} {}", system.sysname, system.release);
#if defined(__clang__)
  info.compiler = "Clang " __clang_version__;
#else
  info.compiler = "GCC " __VERSION__;
#endif
  info.version = version();
  info.commit = commit();
  info.date = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  info.load = std::atof(first_line("/proc/loadavg").c_str());
  return info;
}

}  // namespace baltoro
