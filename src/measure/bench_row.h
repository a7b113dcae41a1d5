// One line of a benchmark: what ran, what it cost at least, and how long it took.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "measure/repeat.h"
#include "measure/roof.h"

namespace baltoro {

struct BenchRow {
  std::string name;  // "prefill 512", "linear bf16 M=1 K=2304 N=4096"
  int threads = 1;
  // Model rows only.
  std::int64_t batch = 0;   // sequences
  std::int64_t depth = 0;   // tokens before the first measured one
  std::int64_t tokens = 0;  // measured, of each sequence

  Work work = {};    // of one run
  Floor floor = {};  // of one run; where it was measured beside the samples, their median
  Samples samples = {};
  std::string fault = {};  // of the correctness gate; such a row was not timed

  // Whether there is a time to report.
  bool measured() const { return fault.empty() && !samples.gave_up; }
  // Runs it (measure/repeat.h), beside the roof where that moves. `floor` is set already.
  void time(const std::function<double()>& run, const RepeatOptions& options,
            const std::function<double()>& floor_now);
  // For measured rows: the median share of the samples, each held against its own floor, or the floor
  // over the median time where they have none.
  double share_of_roof() const {
    return samples.have_floors() ? samples.shares().median
                                 : floor.seconds / samples.seconds().median;
  }
};

// "dropped 16 of 18 samples: other processes used up to 0.95 core, steal up to 0.3 % (...)": why a
// row has no result or fewer samples. Empty where nothing was dropped.
std::string describe_dropped(const Samples& samples);

}  // namespace baltoro
