// Where the engine can keep a model on a machine of one device and its host, and how fast one
// sequence decodes from there.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "baltoro/memory_plan.h"
#include "plan/step.h"

namespace baltoro::plan {

// What holds weights and computes with them: a GPU, or the host.
struct TierSide {
  // memory_bytes is what may be taken of it. A memory_bandwidth of 0: its rates are not known.
  Hardware hardware;
  Efficiency efficiency;
  double working_bytes = 0;  // beside the weights: program, activations, scratch, states
  // Of them, each layer's part of the states, [L]; empty: none is known to be a layer's.
  std::vector<double> layer_states;

  double room() const;  // for weights
};

struct TierMachine {
  std::optional<TierSide> device;
  TierSide host;
  Quantity file_bandwidth;  // of the storage that holds the weights
};

// The engine's, from the fastest on.
enum class Place : std::uint8_t {
  kDevice,       // everything on the device
  kHostExperts,  // routed experts are held and computed by the host, all else by the device
  kHostLayers,  // routed experts and the first layers by the host, the last ones and the head by the
                // device
  kHost,        // everything with the host
};

// Bytes of weights and where they are, and the time of one generated token. What the host has no
// room for stays in the files, the routed experts first: of a token's reads they get the share that
// uniform routing gives them.
struct Placement {
  Place place = Place::kDevice;
  std::int64_t host_layers = 0;  // of kHostLayers
  double device_bytes = 0;
  double host_bytes = 0;
  double file_bytes = 0;
  double missing_bytes = 0;  // that the device has too few
  double file_bytes_per_token = 0;
  // Seconds a token. One after the other, as the engine runs them, but for files, which are read
  // while the host computes; 0 where there is nothing to do.
  double device_seconds = 0;
  double host_seconds = 0;
  double link_seconds = 0;  // inputs and outputs of the host's experts; the stream between layers
  double file_seconds = 0;
  Bound device_bound = Bound::kNone;
  Bound host_bound = Bound::kNone;
  bool known = false;  // the rates of all sides that it needs

  std::string name() const;  // "all on the GPU", "14 layers on the CPU"
  bool fits() const { return missing_bytes <= 0; }
  double seconds() const;
  // What takes longest: "HBM", "host memory", "PCIe", "files"; "compute" or "latency" of a side.
  std::string bound() const;
};

// Those that there are: without a device the last, without routed experts not the second, the third
// where not even the trunk fits, but a layer does. `context`: tokens in the cache. Throws
// Error{kUsage} as compute_step.
std::vector<Placement> placements(const PlanModel& model, const TierMachine& machine,
                                  std::int64_t context);

// The engine's choice (model/device_placement.h); nothing where it refuses the device.
std::optional<Place> choose_place(const PlanModel& model, const TierMachine& machine,
                                  ExpertPlace wanted);

}  // namespace baltoro::plan
