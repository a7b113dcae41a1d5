// A machine as the cost model sees it: peaks, bandwidths, links and tiers of one accelerator (or
// CPU socket), each number with its class and source. Units: bytes, bytes/s, FLOP/s, seconds; links
// one direction.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace baltoro::plan {

// How a number is known: from the vendor's sheet, from public measurements of others or inference
// from them, from a measurement on this machine, given by the user.
enum class Provenance : std::uint8_t { kDatasheet, kTypical, kMeasured, kUser };
const char* provenance_name(Provenance provenance);

struct Quantity {
  double value = 0;  // 0: the machine has none
  Provenance provenance = Provenance::kDatasheet;
  std::string source;

  explicit operator bool() const { return value > 0; }
};

struct Hardware {
  std::string name;
  std::string title;
  Quantity memory_bytes;  // usable, of one device
  Quantity memory_bandwidth;
  Quantity bf16_flops;  // dense peaks of matrix products
  Quantity fp8_flops;
  Quantity fp4_flops;
  // Links of one device: inside of a domain of `scale_up_domain` devices, and out of it.
  Quantity scale_up_bandwidth;
  int scale_up_domain = 1;
  Quantity scale_out_bandwidth;
  // What a link reaches where its sheet and its measurements differ; 0: the efficiency applies.
  Quantity scale_up_real;
  bool in_switch_reduction = false;  // an all-reduce sends each byte once
  // Memory tiers behind the device, shared by all: DRAM of the host and its file storage.
  Quantity dram_bytes;
  Quantity dram_bandwidth;
  Quantity host_link_bandwidth;  // device to host
  Quantity nvme_bandwidth;
  // Of kernels: processors for the serial scan, one chunk of it, fixed time a layer of decode
  // beside the roofline, latency of a collective inside and outside of the domain.
  Quantity processors;
  Quantity scan_chunk_seconds;
  Quantity layer_seconds;
  Quantity scale_up_latency;
  Quantity scale_out_latency;
};

std::vector<std::string> hardware_names();
// "h200", or "8xh200": a count before an x gives `devices`, else 0. Throws Error{kUsage} for an
// unknown name, with the nearest one.
struct HardwareChoice {
  Hardware hardware;
  std::int64_t devices = 0;
};
HardwareChoice preset_hardware(std::string_view text);

// Fields of Hardware by the keys that user files have, "memory_bandwidth".
struct HardwareKey {
  const char* name;
  const char* unit;
  Quantity Hardware::*field;
};
const std::vector<HardwareKey>& hardware_keys();
// Sets one; throws Error{kUsage} for an unknown key or a value below 0. Keys beside those of
// hardware_keys: scale_up_domain, in_switch_reduction (0 or 1).
void set_hardware(Hardware& hardware, std::string_view key, double value, Provenance provenance,
                  const std::string& source);

}  // namespace baltoro::plan
