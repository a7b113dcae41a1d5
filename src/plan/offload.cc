#include "plan/offload.h"

#include <algorithm>

#include "core/error.h"
#include "plan/inventory.h"

namespace baltoro::plan {
namespace {

double read_seconds(double bytes, const Quantity& bandwidth, const char* key, const char* how,
                    const Hardware& hardware) {
  if (bytes <= 0) return 0;
  if (!bandwidth) {
    fail(ErrorCode::kUsage, "{}: {:.1f} GB a token would be read at {}, which is not given: {}",
         hardware.name, bytes / 1e9, key, how);
  }
  return bytes / bandwidth.value;
}

}  // namespace

double Offload::seconds() const { return std::max({device_seconds, dram_seconds, nvme_seconds}); }

const char* Offload::bound() const {
  if (seconds() == nvme_seconds) return "NVMe";
  return seconds() == dram_seconds ? "DRAM" : "HBM";
}

void check_offload(const Workload& workload) {
  const bool counted = workload.phase == Phase::kDecode && workload.batch == 1 &&
                       workload.routing.kind == Routing::Kind::kUniform;
  if (counted) return;
  fail(ErrorCode::kUsage,
       "experts=host with --phase {}, batch {} and --routing {}: the rule is --phase decode, -b 1 "
       "and --routing uniform",
       phase_name(workload.phase), workload.batch, workload.routing.source);
}

Offload compute_offload(const PlanModel& model, const Hardware& hardware, std::int64_t devices) {
  const auto count = static_cast<double>(devices);
  const double rest = rest_bytes(model);
  const double experts = part_bytes(model, Part::kRouted);
  const double device = hardware.memory_bytes.value * count;
  const double dram = hardware.dram_bytes.value;
  Offload result;
  result.device_bytes = std::min(rest, device);
  result.host_rest_bytes = rest - result.device_bytes;
  if (result.host_rest_bytes > dram) {
    fail(ErrorCode::kDoesNotFit,
         "{}: weights but experts are {:.1f} GB, device memory and DRAM are {:.1f} GB; give more "
         "--dram or smaller --dtype weights=int8",
         model.name, rest / 1e9, (device + dram) / 1e9);
  }
  const double device_left = device - result.device_bytes;
  const double dram_left = dram - result.host_rest_bytes;
  const double on_device = std::min(experts, device_left);
  const double in_dram = std::min(experts - on_device, dram_left);
  result.resident_experts = on_device + in_dram;
  result.hit_rate = experts > 0 ? result.resident_experts / experts : 1;
  const auto layers = static_cast<double>(model.num_moe());
  result.expert_bytes_per_token = layers * static_cast<double>(model.config.moe.experts_per_token) *
                                  expert_parameters(model) * format_bytes(model.formats.routed);
  const auto share = [&](double bytes) {
    return experts > 0 ? result.expert_bytes_per_token * bytes / experts : 0;
  };
  result.device_seconds =
      (result.device_bytes + share(on_device)) / (hardware.memory_bandwidth.value * count);
  result.dram_seconds =
      read_seconds(result.host_rest_bytes + share(in_dram), hardware.dram_bandwidth,
                   "dram_bandwidth", "name it in a file for --hw", hardware);
  const double missing = experts - result.resident_experts;
  result.nvme_seconds = read_seconds(share(missing), hardware.nvme_bandwidth, "nvme_bandwidth",
                                     "give --nvme 7GB, or more --dram", hardware);
  if (hardware.nvme_bandwidth) {
    result.cold_seconds = std::max({result.device_seconds, result.dram_seconds,
                                    result.expert_bytes_per_token / hardware.nvme_bandwidth.value});
  } else {
    result.cold_seconds = result.seconds();
  }
  return result;
}

}  // namespace baltoro::plan
