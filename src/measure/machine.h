// Where and with what a number was measured: the header of every report.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace baltoro {

struct CacheInfo {
  std::string name;  // "L1 data", "L2"
  std::int64_t bytes = 0;
  int shared_by = 1;  // processors
};

struct MachineInfo {
  std::string cpu;
  int processors = 0;             // that the system has online
  int cores = 0;                  // that this process uses by default
  std::vector<std::string> isas;  // that run here, best last
  std::vector<CacheInfo> caches;  // of the first processor
  std::uint64_t memory_bytes = 0;
  std::string kernel;
  std::string compiler;
  std::string version;
  std::string commit;  // of the build; "unknown" outside of a repository
  std::string date;    // UTC, 2026-11-30T08:00:00Z
  double load = 0;     // mean number of runnable processes over the last minute
};

// Fields that the system does not tell stay empty or 0.
MachineInfo describe_machine();

}  // namespace baltoro
