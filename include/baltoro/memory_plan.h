// Where the bytes of a model are while it runs: in memory, or in the files.
#pragma once

#include <cstdint>

namespace baltoro {

// Where a GPU's routed experts are: kDevice in its memory; kHost in that of the host, which computes
// them; kAuto on the device where all fits.
enum class ExpertPlace : std::uint8_t { kAuto, kHost, kDevice };

// Bytes, unless said otherwise. No plan changes a token or a logit: it says where bytes come from.
struct MemoryPlan {
  std::uint64_t limit = 0;  // all that the process may take, the page cache of its weights included
  std::uint64_t working = 0;  // of it: the program, activations, scratch, the state of one sequence
  std::uint64_t minimum = 0;  // the smallest limit that would do

  bool copies = true;                // resident weights are copies in huge pages, else mapped files
  std::uint64_t resident = 0;        // weights that stay in memory
  std::uint64_t streamed = 0;        // weights outside of the routed experts, read in every pass
  std::uint64_t stream_window = 0;   // of them in memory at a time
  std::int64_t streamed_layers = 0;  // the last of those that the host has
  bool head_streamed = false;
  std::uint64_t experts = 0;       // routed experts that stay in the files, read when chosen
  std::uint64_t expert_cache = 0;  // of them in memory at a time

  // Read from the files for one generated token, if all experts were chosen alike: an upper bound
  // once the cache is full, because real choices repeat.
  double disk_bytes_per_token = 0;

  // Memory of a GPU; 0 where there is none. The fields above then are about the host.
  std::uint64_t device_limit = 0;
  std::uint64_t device_working = 0;
  std::uint64_t device_weights = 0;
  std::int64_t device_layers = 0;  // the last ones, with the head
  std::int64_t host_layers = 0;    // those before, which the CPU computes
  bool experts_on_host = false;    // of all layers

  bool all_resident() const { return streamed == 0 && experts == 0; }
};

}  // namespace baltoro
