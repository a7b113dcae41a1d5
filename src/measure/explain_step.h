// Where the time of a generated token goes, part by part, beside what each part takes at least.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "baltoro/engine.h"
#include "measure/model_work.h"
#include "measure/repeat.h"
#include "measure/roof.h"
#include "plan/part.h"

namespace baltoro {

// How a part's time is found.
enum class PartClock : std::uint8_t {
  kOps,      // the durations of its ops, which a host runs one by one
  kLeftOut,  // what a step is shorter by without its ops: a device runs them from a record
};

// Enough that reading the clock does not count.
constexpr int kStepsOfARun = 8;

struct PartRow {
  plan::Part part = plan::Part::kEmbed;
  int calls = 0;       // of ops
  Work work;           // of them all; activations are not counted
  Floor floor;         // at the bandwidth of what the whole step reads
  double seconds = 0;  // measured
};

struct StepExplanation {
  PassShape shape;
  int threads = 1;
  Samples samples;             // of runs of kStepsOfARun whole steps
  std::vector<PartRow> parts;  // in the order of plan::kAllParts
  PartClock clock = PartClock::kOps;

  double seconds() const { return samples.seconds().median / kStepsOfARun; }
  // seconds() less those of all parts: between ops; under kLeftOut also what parts hide of each other.
  double rest() const;
};

struct ExplainOptions {
  std::filesystem::path dir;
  EngineOptions engine;
  std::vector<PassShape> shapes;  // batches and depths; tokens and origin are not read
  RepeatOptions repeat;
  std::optional<PartClock> clock;  // absent: kOps for the host, kLeftOut for a device
};

// Steps of one generated token of each sequence; `on_step` as each is done. Loads as Engine::load and
// throws as it does, and Error{kDoesNotFit} where a plan leaves weights in the files.
void explain_steps(const ExplainOptions& options, Roof& roof,
                   const std::function<void(const StepExplanation&)>& on_step);

}  // namespace baltoro
