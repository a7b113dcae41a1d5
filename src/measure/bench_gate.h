// The correctness gate of a model benchmark: a speed is only worth reporting where the result is
// right.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "baltoro/engine.h"
#include "measure/compare.h"

namespace baltoro {

struct GateReport {
  bool passed = false;
  std::string text;  // what was compared, and where it differs
};

// compare() of measure/compare.h, or a stand-in.
using CompareFn = std::function<CompareReport(const CompareInput&)>;

// Compares `options` with the reference backend on a short prompt of random tokens that crosses a
// block of kBlockTokens and on a few generated tokens; the tolerances are those of compare(), and
// kDiverged does not pass. The reference takes about a nanosecond a FLOP: where a model is too large
// for it, the scalar table takes its place, which agrees with it op by op in the tests; never for
// the scalar table itself. Throws as compare(), and Error{kUsage} for the reference backend.
GateReport check_model(const std::filesystem::path& dir, const EngineOptions& options,
                       const CompareFn& compare_fn);

}  // namespace baltoro
