// Decode with routed experts behind the device: in DRAM and on NVMe.
#pragma once

#include "plan/hardware.h"
#include "plan/model.h"
#include "plan/workload.h"

namespace baltoro::plan {

// Weights but experts and the embedding, which may stay on disk, take device memory and DRAM first;
// experts fill what is left. Under uniform routing the share of experts that is resident is the
// share of reads that hit. A token takes the longest of the tiers:
//   max over tiers of bytes read there / its bandwidth
struct Offload {
  double device_bytes = 0;      // weights but experts on the device
  double host_rest_bytes = 0;   // and those that DRAM has to hold
  double resident_experts = 0;  // bytes of experts in both
  double hit_rate = 0;
  double expert_bytes_per_token = 0;
  double device_seconds = 0;
  double dram_seconds = 0;
  double nvme_seconds = 0;
  double cold_seconds = 0;  // no expert resident

  double seconds() const;
  const char* bound() const;  // "NVMe"
};

// Throws Error{kUsage} where the workload is not what an Offload counts: one sequence that decodes,
// its experts met alike.
void check_offload(const Workload& workload);

// One sequence of one token a step on `devices` devices. Throws Error{kUsage} where experts do not
// fit into memory and the machine has no nvme_bandwidth, or needs DRAM without a bandwidth.
Offload compute_offload(const PlanModel& model, const Hardware& hardware, std::int64_t devices);

}  // namespace baltoro::plan
