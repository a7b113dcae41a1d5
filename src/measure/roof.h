// The roof over a piece of work: no run on this machine is faster than its bytes at read bandwidth
// (those that it updates in place: at the bandwidth of updates) and its FLOPs at the peak of the
// arithmetic units, all measured in the same run.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "baltoro/types.h"

namespace baltoro {

struct Work {
  double flops = 0;
  double bytes = 0;    // read and written
  double updated = 0;  // those of them that are read and written in place

  Work& operator+=(const Work& other) {
    flops += other.flops;
    bytes += other.bytes;
    updated += other.updated;
    return *this;
  }
};

enum class Bound : std::uint8_t { kMemory, kArithmetic };
// "memory", "arithmetic".
const char* to_string(Bound bound);

struct Floor {
  double seconds = 0;
  Bound bound = Bound::kMemory;
};

// What measures the machine.
struct RoofProbes {
  // FLOPs a second of so many threads, see Roof::peak.
  std::function<double(int, Activations)> peak;
  // Bytes a second that so many threads read from so many bytes.
  std::function<double(int, std::int64_t)> read_bandwidth;
  // Bytes a second, read and written, with which so many threads update so many bytes in place.
  std::function<double(int, std::int64_t)> update_bandwidth;
  // The same three at this moment, each in some twenty milliseconds; absent where they do not move, as
  // on a device.
  std::function<double(int, Activations)> peak_now = {};
  std::function<double(int, std::int64_t)> read_now = {}, update_now = {};
};

// cpu/peak.h and measure/memory_bandwidth.h, again where others disturbed the probe. `isa` as in
// EngineOptions. The memory of the probes of this moment lives as long as they do: at most
// kMemoryProbeBytes for each number of threads.
RoofProbes cpu_probes(const std::optional<std::string>& isa);

// Measures on first use and remembers. One thread at a time.
class Roof {
 public:
  explicit Roof(RoofProbes probes) : probes_(std::move(probes)) {}

  // FLOPs a second of f32 products (kF32), or of the leaf table's products of bf16 values (kBf16).
  double peak(int num_threads, Activations products);
  // Bytes a second from a buffer of `bytes`, at most kMemoryProbeBytes, at least 1 MiB, to three
  // binary digits.
  double read_bandwidth(int num_threads, double bytes);
  // The same of updates in place, of a buffer of `bytes`.
  double update_bandwidth(int num_threads, double bytes);
  // The larger of the two times; memory that is read once and again is as fast as a buffer of its
  // size.
  Floor floor(int num_threads, const Work& work, Activations products);
  // Measures at each call, at the moment of the call, how many seconds the work takes at least of what
  // bounds it. Empty where the roof does not move.
  std::function<double()> floor_now(int num_threads, const Work& work, Activations products,
                                    Bound bound) const;

 private:
  RoofProbes probes_;
  std::map<std::pair<int, Activations>, double> peak_;
  std::map<std::pair<int, std::int64_t>, double> read_, update_;
};

}  // namespace baltoro
