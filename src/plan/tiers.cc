#include "plan/tiers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "model/device_placement.h"
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

// Layers [begin, end) alone.
PlanModel layers_of(const PlanModel& model, std::int64_t begin, std::int64_t end) {
  PlanModel part = model;
  const std::vector<LayerSpec>& layers = model.config.layers;
  part.config.layers.assign(layers.begin() + begin, layers.begin() + end);
  part.config.num_layers = end - begin;
  return part;
}

bool is_layer_trunk(Part part) {
  return part != Part::kRouted && part != Part::kEmbed && part != Part::kHead;
}

double layer_trunk_bytes(const PlanModel& layers) {
  double bytes = 0;
  for (const Part part : kAllParts) bytes += is_layer_trunk(part) ? part_bytes(layers, part) : 0;
  return bytes;
}

std::uint64_t whole(double bytes) { return static_cast<std::uint64_t>(std::max(0.0, bytes)); }

DeviceDemand demand_of(const PlanModel& model, const TierSide& device) {
  DeviceDemand demand;
  double pass = device.working_bytes;
  for (std::int64_t i = 0; i < model.config.num_layers; ++i) {
    double bytes = layer_trunk_bytes(layers_of(model, i, i + 1));
    if (!device.layer_states.empty()) {
      const double states = device.layer_states.at(static_cast<std::size_t>(i));
      pass -= states;
      bytes += states;
    }
    demand.layers.push_back(whole(bytes));
  }
  demand.pass = whole(pass);
  demand.embedding = whole(part_bytes(model, Part::kEmbed));
  demand.head = whole(part_bytes(model, Part::kHead));
  demand.experts = whole(part_bytes(model, Part::kRouted));
  return demand;
}

std::optional<DevicePlacement> place(const PlanModel& model, const TierSide& device,
                                     ExpertPlace wanted) {
  return choose_placement(demand_of(model, device), whole(device.hardware.memory_bytes.value),
                          wanted);
}

class Planner {
 public:
  Planner(const PlanModel& model, const TierMachine& machine, std::int64_t context)
      : model_(model), machine_(machine), context_(context) {}

  // `host_layers` of kHostLayers.
  Placement placement(Place place, std::int64_t host_layers = 0) const {
    Placement result;
    result.place = place;
    result.host_layers = host_layers;
    const double routed = part_bytes(model_, Part::kRouted);
    const double trunk = total_bytes(model_) - routed;
    if (place == Place::kHostLayers) {
      result.device_bytes =
          layer_trunk_bytes(device_part(result)) + part_bytes(model_, Part::kHead);
    } else if (place != Place::kHost) {
      result.device_bytes = trunk + (place == Place::kDevice ? routed : 0);
      result.missing_bytes = std::max(0.0, result.device_bytes - machine_.device->room());
    }
    if (place == Place::kHost || place == Place::kHostLayers) {
      fill_host(trunk - result.device_bytes, routed, result);
    } else if (place == Place::kHostExperts) {
      fill_host(0, routed, result);
    }
    result.known = rates_known(result);
    if (result.known) fill_times(result);
    return result;
  }

 private:
  PlanModel host_part(const Placement& result) const {
    return layers_of(model_, 0, result.host_layers);
  }
  PlanModel device_part(const Placement& result) const {
    return layers_of(model_, result.host_layers, model_.config.num_layers);
  }
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

  Step step_on(const TierSide& side, const PlanModel& model) const {
    return compute_step({model, side.hardware, {}, {}, side.efficiency}, decode_step(1, context_));
  }

  void fill_times(Placement& result) const {
    const auto is_routed = [](Part part) { return part == Part::kRouted; };
    SideTime device, host;
    switch (result.place) {
      case Place::kDevice:
        device = side_time(step_on(*machine_.device, model_), [](Part) { return true; });
        break;
      case Place::kHostExperts:
        device = side_time(step_on(*machine_.device, model_),
                           [&](Part part) { return !is_routed(part); });
        host = side_time(step_on(machine_.host, model_), is_routed);
        break;
      case Place::kHostLayers:
        device = side_time(step_on(*machine_.device, device_part(result)),
                           [&](Part part) { return !is_routed(part) && part != Part::kEmbed; });
        host = side_time(step_on(machine_.host, host_part(result)),
                         [](Part part) { return part != Part::kHead; });
        host.seconds += side_time(step_on(machine_.host, device_part(result)), is_routed).seconds;
        break;
      case Place::kHost:
        host = side_time(step_on(machine_.host, model_), [](Part) { return true; });
        break;
    }
    result.device_seconds = device.seconds;
    result.device_bound = device.bound;
    result.host_seconds = host.seconds;
    result.host_bound = host.bound;
    result.link_seconds = link_seconds(result);
    if (result.file_bytes_per_token > 0) {
      result.file_seconds = result.file_bytes_per_token / machine_.file_bandwidth.value;
    }
  }

  double link_seconds(const Placement& result) const {
    const bool crosses = result.place == Place::kHostExperts || result.place == Place::kHostLayers;
    if (!crosses || !machine_.device->hardware.host_link_bandwidth) return 0;
    double values = 2 * real(device_part(result).num_moe() * model_.expert_width());
    if (result.host_layers > 0) {
      // The sources of the next mix, the last output apart.
      const std::int64_t sources = mix_sources(model_.config, 2 * result.host_layers) + 1;
      values += real(sources * model_.config.hidden_size);
    }
    return values * format_bytes(model_.formats.activation) /
           machine_.device->hardware.host_link_bandwidth.value;
  }

  const PlanModel& model_;
  const TierMachine& machine_;
  std::int64_t context_;
};

}  // namespace

double TierSide::room() const { return hardware.memory_bytes.value - working_bytes; }

std::string Placement::name() const {
  switch (place) {
    case Place::kDevice:
      return "all on the GPU";
    case Place::kHostExperts:
      return "experts on the CPU";
    case Place::kHostLayers:
      return fmt::format("{} layer{} on the CPU", host_layers, host_layers == 1 ? "" : "s");
    case Place::kHost:
      return "all on the CPU";
  }
  return "";
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
    result.push_back(planner.placement(Place::kDevice));
    if (model.num_moe() > 0) result.push_back(planner.placement(Place::kHostExperts));
    const auto split = place(model, *machine.device, ExpertPlace::kHost);
    if (split && split->first_layer > 0) {
      result.push_back(
          planner.placement(Place::kHostLayers, static_cast<std::int64_t>(split->first_layer)));
    }
  }
  result.push_back(planner.placement(Place::kHost));
  return result;
}

std::optional<Place> choose_place(const PlanModel& model, const TierMachine& machine,
                                  ExpertPlace wanted) {
  if (!machine.device) return Place::kHost;
  const std::optional<DevicePlacement> found = place(model, *machine.device, wanted);
  if (!found) return std::nullopt;
  if (found->all()) return Place::kDevice;
  return found->first_layer > 0 ? Place::kHostLayers : Place::kHostExperts;
}

}  // namespace baltoro::plan
