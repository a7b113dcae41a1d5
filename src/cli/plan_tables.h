// Results of the planner over several scenarios as tables.
#pragma once

#include <string>
#include <vector>

#include "cli/table.h"
#include "plan/sweep.h"

namespace baltoro::cli {

// Where the numbers of a measure come from: "formula", or the rates that its times follow.
std::string provenance_of(const plan::Measure& measure, const plan::Efficiency& efficiency);
Column measure_column(const plan::Measure& measure, const plan::Efficiency& efficiency);

// One row a point, its labels, then the measures of `keys`, whether it fits and, of a
// deployment, what takes the most of the step.
// An impossible point has its reason behind the labels.
Table sweep_table(const plan::Sweep& sweep, const std::vector<std::string>& keys,
                  const plan::Efficiency& efficiency);

// The first axis down, the second across, one measure in the cells. Throws Error{kUsage} where there
// are not two axes.
struct HeatMap {
  std::string row_axis;
  std::string column_axis;
  std::vector<std::string> row_labels;
  std::vector<std::string> column_labels;
  const plan::Measure* measure = nullptr;
  std::vector<std::vector<double>> values;  // [rows, columns]; not a number where impossible
  std::vector<std::vector<bool>> fits;      // in memory
};
HeatMap heat_map(const plan::Sweep& sweep, const std::string& measure);
// What does not fit has a star behind its number.
Table heat_table(const HeatMap& map, const plan::Efficiency& efficiency);

}  // namespace baltoro::cli
