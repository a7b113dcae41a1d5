#include "cli/memory_report.h"

#include <fmt/format.h>

#include <limits>

#include "cli/format.h"

namespace baltoro::cli {

std::string describe(const MemoryPlan& plan, std::int64_t decode_bytes, int indent) {
  std::string device;
  if (plan.device_limit > 0) {
    device = fmt::format(
        "{:<{}}{} of GPU memory; activations and state {}, weights {}; routed experts {}\n",
        "device", indent, human_bytes(plan.device_limit), human_bytes(plan.device_working),
        human_bytes(plan.device_weights),
        plan.experts_on_host ? "computed by the host" : "on the GPU");
    if (!plan.experts_on_host) return device;
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
          {"experts_on_host", plan.experts_on_host}};
}

}  // namespace baltoro::cli
