// Two scenarios side by side: what differs, what that does to each part of a step, and why.
#pragma once

#include <string>
#include <vector>

#include "plan/measures.h"

namespace baltoro::plan {

// Something that the user chose or the model has: "K", "8", "16".
struct Change {
  std::string what;
  std::string before;
  std::string after;
};
// Sizes, formats, machine, layout and workload that are not the same.
std::vector<Change> changes_between(const Scenario& a, const Scenario& b);

// One of the numbers whose product is the work of a part: "experts met", 8, 16.
struct Factor {
  std::string name;
  double before = 0;
  double after = 0;

  double ratio() const { return after / before; }
};

// What the time of a part follows from.
enum class WorkKind : std::uint8_t {
  kNothing,
  kWeights,
  kCache,
  kActivations,
  kFlops,
  kScan,
  kNetwork,
  kFixed
};
const char* work_kind_name(WorkKind kind);
// Bytes, FLOPs, or seconds of scan and fixed time; of one device.
double amount(const Step& step, Part part, WorkKind kind);

struct PartChange {
  Part part = Part::kEmbed;
  // That which changes the part's time most; kNothing where the time is the same.
  WorkKind kind = WorkKind::kNothing;
  // Their ratios multiply to that of the amount; empty where one side has none of it. Those that
  // are equal are left out.
  std::vector<Factor> factors;
};

struct Comparison {
  Evaluated a;
  Evaluated b;
  std::vector<Change> changes;
  std::vector<PartChange> parts;  // those that take time, by the size of their change
};
// Throws as evaluate.
Comparison compare(const Scenario& a, const Scenario& b);

// "weights x 2.3: layers 60 -> 92, experts met 8 -> 16"; empty for kNothing.
std::string why(const Comparison& comparison, const PartChange& change);

}  // namespace baltoro::plan
