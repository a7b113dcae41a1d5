#include "cli/memory_report.h"

#include <fmt/format.h>

#include <limits>

#include "cli/format.h"

namespace baltoro::cli {
namespace {

std::uint64_t copied_bytes(const MemoryPlan& plan) { return plan.copies ? plan.resident : 0; }

std::string layers_of_cpu(const MemoryPlan& plan) {
  if (plan.host_layers == 0) return "";
  return fmt::format(" of the last {} of {} layers, the first {} on the CPU", plan.device_layers,
                     plan.device_layers + plan.host_layers, plan.host_layers);
}

std::string rate(std::uint64_t bytes, double seconds) {
  return seconds > 0 ? fmt::format("{:.2f} s, {:.2f} GB/s", seconds,
                                   static_cast<double>(bytes) / seconds / 1e9)
                     : fmt::format("{:.2f} s", seconds);
}

}  // namespace

std::string describe(const MemoryPlan& plan, std::int64_t decode_bytes, int indent) {
  std::string device;
  if (plan.device_limit > 0) {
    device = fmt::format(
        "{:<{}}{} of GPU memory; activations and state {}, weights {}{}; routed experts {}\n",
        "device", indent, human_bytes(plan.device_limit), human_bytes(plan.device_working),
        human_bytes(plan.device_weights), layers_of_cpu(plan),
        plan.experts_on_host ? "computed by the host" : "on the GPU");
    if (!plan.experts_on_host && plan.host_layers == 0) return device;
  }
  const bool unlimited = plan.limit == std::numeric_limits<std::uint64_t>::max();
  std::string out =
      device + fmt::format("{:<{}}{}; program, activations and state {}, weights {} {}\n", "limit",
                           indent, unlimited ? "none" : human_bytes(plan.limit),
                           human_bytes(plan.working), human_bytes(plan.resident),
                           plan.copies ? "copied" : "mapped");
  if (plan.all_resident()) return out;
  out += fmt::format("{:<{}}experts {}, {} of them cached", "files", indent,
                     human_bytes(plan.experts), human_bytes(plan.expert_cache));
  if (plan.streamed > 0) {
    out += fmt::format("; {} of {}{} read in every pass, {} at a time", human_bytes(plan.streamed),
                       counted(static_cast<std::uint64_t>(plan.streamed_layers), "layer"),
                       plan.head_streamed ? " and the head" : "", human_bytes(plan.stream_window));
  }
  out +=
      fmt::format("\n{:<{}}{} bytes/token or less, {:.0f} % of the weights that it reads\n", "disk",
                  indent, with_commas(static_cast<std::uint64_t>(plan.disk_bytes_per_token)),
                  100 * plan.disk_bytes_per_token / static_cast<double>(decode_bytes));
  return out;
}

nlohmann::ordered_json to_json(const MemoryPlan& plan) {
  return {{"limit", plan.limit},
          {"minimum", plan.minimum},
          {"working", plan.working},
          {"resident", plan.resident},
          {"copied", plan.copies},
          {"streamed", plan.streamed},
          {"streamed_layers", plan.streamed_layers},
          {"head_streamed", plan.head_streamed},
          {"stream_window", plan.stream_window},
          {"experts_in_files", plan.experts},
          {"expert_cache", plan.expert_cache},
          {"disk_bytes_per_token", plan.disk_bytes_per_token},
          {"device_limit", plan.device_limit},
          {"device_working", plan.device_working},
          {"device_weights", plan.device_weights},
          {"device_layers", plan.device_layers},
          {"host_layers", plan.host_layers},
          {"experts_on_host", plan.experts_on_host}};
}

std::string describe(const LoadTimes& times, const MemoryPlan& plan, int indent) {
  std::string out;
  if (const std::uint64_t bytes = copied_bytes(plan); bytes > 0) {
    out += fmt::format("{:<{}}{} into memory in {}\n", "load", indent, human_bytes(bytes),
                       rate(bytes, times.host));
  }
  if (plan.device_limit == 0) return out;
  out += fmt::format("{:<{}}{} to the GPU in {}", "load", indent, human_bytes(plan.device_weights),
                     rate(plan.device_weights, times.device));
  if (times.filling + times.waiting > 0) {
    out +=
        fmt::format("; {:.2f} s reading, {:.2f} s waiting for the GPU: bound by {}", times.filling,
                    times.waiting, times.filling >= times.waiting ? "the files" : "the copy");
  }
  return out + "\n";
}

nlohmann::ordered_json to_json(const LoadTimes& times, const MemoryPlan& plan) {
  return {{"host_bytes", copied_bytes(plan)},    {"host_seconds", times.host},
          {"device_bytes", plan.device_weights}, {"device_seconds", times.device},
          {"filling_seconds", times.filling},    {"waiting_seconds", times.waiting}};
}

}  // namespace baltoro::cli
