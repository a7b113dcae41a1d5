#include "plan/hardware.h"

#include <array>
#include <cmath>

#include "plan/key_value.h"

namespace baltoro::plan {

const char* provenance_name(Provenance provenance) {
  constexpr std::array kNames = {"datasheet", "typical", "measured", "user"};
  return kNames[static_cast<std::size_t>(provenance)];
}

const std::vector<HardwareKey>& hardware_keys() {
  static const std::vector<HardwareKey> keys = {
      {"memory_bytes", "B", &Hardware::memory_bytes},
      {"memory_bandwidth", "B/s", &Hardware::memory_bandwidth},
      {"bf16_flops", "FLOP/s", &Hardware::bf16_flops},
      {"fp8_flops", "FLOP/s", &Hardware::fp8_flops},
      {"fp4_flops", "FLOP/s", &Hardware::fp4_flops},
      {"scale_up_bandwidth", "B/s", &Hardware::scale_up_bandwidth},
      {"scale_up_real", "B/s", &Hardware::scale_up_real},
      {"scale_out_bandwidth", "B/s", &Hardware::scale_out_bandwidth},
      {"dram_bytes", "B", &Hardware::dram_bytes},
      {"dram_bandwidth", "B/s", &Hardware::dram_bandwidth},
      {"host_link_bandwidth", "B/s", &Hardware::host_link_bandwidth},
      {"nvme_bandwidth", "B/s", &Hardware::nvme_bandwidth},
      {"processors", "", &Hardware::processors},
      {"scan_chunk_seconds", "s", &Hardware::scan_chunk_seconds},
      {"layer_seconds", "s", &Hardware::layer_seconds},
      {"scale_up_latency", "s", &Hardware::scale_up_latency},
      {"scale_out_latency", "s", &Hardware::scale_out_latency},
  };
  return keys;
}

namespace {

// 0 says that the machine has none of it. Other values are far wider than any machine, and narrow
// enough for finite times.
void check_range(const HardwareKey& key, double value, const std::string& source) {
  const bool is_time = std::string_view(key.unit) == "s";
  const double least = is_time ? 0 : 1;
  const double most = is_time ? 10 : 1e21;
  if (value == 0 || (value >= least && value <= most)) return;
  fail(ErrorCode::kUsage, "{}: {} is {:g} {}; it must be 0 or from {:g} to {:g}", source, key.name,
       value, key.unit, least, most);
}

}  // namespace

void set_hardware(Hardware& hardware, std::string_view key, double value, Provenance provenance,
                  const std::string& source) {
  if (!(value >= 0)) {
    fail(ErrorCode::kUsage, "{}: {} is {}; it must be at least 0", source, key, value);
  }
  if (key == "scale_up_domain") {
    if (value < 1 || value > 65536 || value != std::floor(value)) {
      fail(ErrorCode::kUsage,
           "{}: scale_up_domain is {}; it must be a whole number from 1 to 65536", source, value);
    }
    hardware.scale_up_domain = static_cast<int>(value);
    return;
  }
  if (key == "in_switch_reduction") {
    hardware.in_switch_reduction = value > 0;
    return;
  }
  std::vector<std::string> names = {"scale_up_domain", "in_switch_reduction"};
  for (const HardwareKey& entry : hardware_keys()) {
    if (key == entry.name) {
      check_range(entry, value, source);
      hardware.*entry.field = {value, provenance, source};
      return;
    }
    names.emplace_back(entry.name);
  }
  fail_unknown(source + ": ", key, "number of a machine", names);
}

}  // namespace baltoro::plan
