#include "model/device_placement.h"

#include <numeric>

namespace baltoro {

std::uint64_t DeviceDemand::trunk_from(std::size_t first) const {
  const auto begin = layers.begin() + static_cast<std::ptrdiff_t>(first);
  return std::accumulate(begin, layers.end(), pass + head + (first == 0 ? embedding : 0));
}

std::optional<DevicePlacement> choose_placement(const DeviceDemand& demand, std::uint64_t room,
                                                ExpertPlace wanted) {
  const bool has_experts = demand.experts > 0;
  if (wanted != ExpertPlace::kHost || !has_experts) {
    if (demand.trunk_from(0) + demand.experts <= room) return DevicePlacement{};
    if (wanted == ExpertPlace::kDevice) return std::nullopt;
  }
  for (std::size_t first = 0; first < demand.layers.size(); ++first) {
    if (demand.trunk_from(first) <= room) return DevicePlacement{has_experts, first};
  }
  return std::nullopt;
}

}  // namespace baltoro
