// What of a model goes to a device, by bytes alone: everything; or all but the routed experts; or, where
// not even the trunk fits, its last layers and the head.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "baltoro/memory_plan.h"

namespace baltoro {

// Bytes that parts would take of a device.
struct DeviceDemand {
  std::uint64_t pass = 0;  // beside weights and states: activations, scratch
  std::uint64_t embedding = 0;
  std::uint64_t head = 0;             // with the final norm and mix
  std::vector<std::uint64_t> layers;  // [L] without routed experts, with the state of a sequence
  std::uint64_t experts = 0;          // routed ones, of all layers

  // Of layers [first, L) and what belongs to them.
  std::uint64_t trunk_from(std::size_t first) const;
};

struct DevicePlacement {
  bool experts_on_host = false;
  std::size_t first_layer = 0;  // the device has the layers from it on; with 0 also the embedding

  bool all() const { return !experts_on_host && first_layer == 0; }
};

// The first that fits into `room` bytes, at least one layer on the device; nothing where none does.
// `wanted` kDevice: only everything, kHost: never with routed experts.
std::optional<DevicePlacement> choose_placement(const DeviceDemand& demand, std::uint64_t room,
                                                ExpertPlace wanted);

}  // namespace baltoro
