#include "plan/tiers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "plan/arithmetic.h"
#include "plan/inventory.h"

namespace baltoro::plan {
namespace {

// Of some parts of a decode step on one side.
struct SideTime {
  double seconds = 0;
  Bound bound = Bound::kNone;  // of most of them
};

template <typename Keep>
SideTime side_time(const Step& step, const Keep& keep) {
  SideTime time;
  std::array<double, 6> by_bound{};
  for (const Part part : kAllParts) {
    if (!keep(part)) continue;
    const PartTime& one = step.time_of(part);
    time.seconds += one.seconds();
    by_bound[static_cast<std::size_t>(one.bound)] += one.seconds();
  }
  const auto most = std::ranges::max_element(by_bound) - by_bound.begin();
  if (time.seconds > 0) time.bound = static_cast<Bound>(most);
  return time;
}

class Planner {
 public:
  Planner(const PlanModel& model, const TierMachine& machine, std::int64_t context)
      : model_(model), machine_(machine), context_(context) {}

  Placement place(Place place) const {
    Placement result;
    result.place = place;
    const double routed = part_bytes(model_, Part::kRouted);
    const double trunk = total_bytes(model_) - routed;
    if (place != Place::kHost) {
      result.device_bytes = trunk + (place == Place::kDevice ? routed : 0);
      result.missing_bytes = std::max(0.0, result.device_bytes - machine_.device->room());
    }
    if (place != Place::kDevice) fill_host(place == Place::kHost ? trunk : 0, routed, result);
    result.known = rates_known(result);
    if (result.known) fill_times(result);
    return result;
  }

 private:
  // Trunk first: it is read whole for every token.
  void fill_host(double trunk, double routed, Placement& result) const {
    const double room = std::max(0.0, machine_.host.room());
    const double trunk_here = std::min(trunk, room);
    const double routed_here = std::min(routed, room - trunk_here);
    result.host_bytes = trunk_here + routed_here;
    result.file_bytes = trunk + routed - result.host_bytes;
    // The embedding is looked up, not read.
    const double read = std::max(0.0, trunk - part_bytes(model_, Part::kEmbed));
    result.file_bytes_per_token = std::max(0.0, read - trunk_here);
    if (routed > 0) result.file_bytes_per_token += chosen_bytes() * (1 - routed_here / routed);
  }
  double chosen_bytes() const {
    return real(model_.num_moe() * model_.config.moe.experts_per_token) *
           expert_parameters(model_) * format_bytes(model_.formats.routed);
  }

  bool rates_known(const Placement& result) const {
    const bool device = result.place != Place::kHost;
    const bool host = result.place != Place::kDevice;
    return (!device || machine_.device->hardware.memory_bandwidth) &&
           (!host || machine_.host.hardware.memory_bandwidth) &&
           (result.file_bytes_per_token == 0 || machine_.file_bandwidth);
  }

  Step step_on(const TierSide& side) const {
    return compute_step({model_, side.hardware, {}, {}, side.efficiency}, decode_step(1, context_));
  }

  void fill_times(Placement& result) const {
    const auto routed = [](Part part) { return part == Part::kRouted; };
    if (result.place != Place::kHost) {
      const bool all = result.place == Place::kDevice;
      const SideTime time =
          side_time(step_on(*machine_.device), [&](Part part) { return all || !routed(part); });
      result.device_seconds = time.seconds;
      result.device_bound = time.bound;
    }
    if (result.place != Place::kDevice) {
      const bool all = result.place == Place::kHost;
      const SideTime time =
          side_time(step_on(machine_.host), [&](Part part) { return all || routed(part); });
      result.host_seconds = time.seconds;
      result.host_bound = time.bound;
    }
    if (result.place == Place::kHostExperts && machine_.device->hardware.host_link_bandwidth) {
      const double values = 2 * real(model_.num_moe() * model_.expert_width());
      result.link_seconds = values * format_bytes(model_.formats.activation) /
                            machine_.device->hardware.host_link_bandwidth.value;
    }
    if (result.file_bytes_per_token > 0) {
      result.file_seconds = result.file_bytes_per_token / machine_.file_bandwidth.value;
    }
  }

  const PlanModel& model_;
  const TierMachine& machine_;
  std::int64_t context_;
};

}  // namespace

double TierSide::room() const { return hardware.memory_bytes.value - working_bytes; }

const char* place_name(Place place) {
  constexpr std::array kNames = {"all on the GPU", "experts on the CPU", "all on the CPU"};
  return kNames[static_cast<std::size_t>(place)];
}

double Placement::seconds() const {
  return device_seconds + link_seconds + std::max(host_seconds, file_seconds);
}

std::string Placement::bound() const {
  const double most = std::max({device_seconds, host_seconds, link_seconds, file_seconds});
  if (!known || most == 0) return "-";
  if (most == file_seconds) return "files";
  if (most == link_seconds) return "PCIe";
  if (most == device_seconds) return bound_name(device_bound);
  return host_bound == Bound::kMemory ? "host memory"
                                      : fmt::format("host {}", bound_name(host_bound));
}

std::vector<Placement> placements(const PlanModel& model, const TierMachine& machine,
                                  std::int64_t context) {
  const Planner planner(model, machine, context);
  std::vector<Placement> result;
  if (machine.device) {
    result.push_back(planner.place(Place::kDevice));
    if (model.num_moe() > 0) result.push_back(planner.place(Place::kHostExperts));
  }
  result.push_back(planner.place(Place::kHost));
  return result;
}

}  // namespace baltoro::plan
