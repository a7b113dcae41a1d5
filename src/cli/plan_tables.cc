#include "cli/plan_tables.h"

#include <fmt/format.h>

#include <limits>

#include "core/error.h"

namespace baltoro::cli {

std::string provenance_of(const plan::Measure& measure, const plan::Efficiency& efficiency) {
  return measure.is_time ? plan::efficiency_name(efficiency.kind) : "formula";
}

Column measure_column(const plan::Measure& measure, const plan::Efficiency& efficiency) {
  return {measure.key,
          measure.head,
          measure.shown_unit,
          measure.unit,
          provenance_of(measure, efficiency),
          measure.scale};
}

Table sweep_table(const plan::Sweep& sweep, const std::vector<std::string>& keys,
                  const plan::Efficiency& efficiency) {
  Table table;
  for (const plan::Axis& axis : sweep.axes) {
    table.columns.push_back({axis.name, axis.name, "", "", "axis", 1});
  }
  std::vector<const plan::Measure*> shown_measures;
  for (const std::string& key : keys) {
    shown_measures.push_back(&plan::find_measure(key));
    table.columns.push_back(measure_column(*shown_measures.back(), efficiency));
  }
  table.columns.push_back({"fits", "fits", "", "", "", 1});
  const bool deployment = keys.front() == "step";
  if (deployment) table.columns.push_back({"longest", "most of it", "", "", "", 1});
  for (const plan::SweepPoint& point : sweep.points) {
    std::vector<Cell> row(point.labels.begin(), point.labels.end());
    if (!point.evaluated) {
      row.emplace_back(point.reason);
    } else {
      for (const plan::Measure* measure : shown_measures) {
        row.emplace_back(measure->value(*point.evaluated));
      }
      row.emplace_back(point.evaluated->capacity.fits ? "yes" : "NO");
      if (deployment) row.emplace_back(plan::longest_part(point.evaluated->totals.step));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

HeatMap heat_map(const plan::Sweep& sweep, const std::string& measure) {
  if (sweep.axes.size() != 2) {
    fail(ErrorCode::kUsage, "a heat map has two axes, and {} {} given; {}", sweep.axes.size(),
         sweep.axes.size() == 1 ? "is" : "are",
         sweep.axes.size() == 1 ? "add one, ctx=4k..1M:log" : "the nearest is the first two alone");
  }
  HeatMap map{sweep.axes[0].name, sweep.axes[1].name, {}, {}, &plan::find_measure(measure), {}, {}};
  for (const plan::AxisPoint& point : sweep.axes[0].points) map.row_labels.push_back(point.label);
  for (const plan::AxisPoint& point : sweep.axes[1].points) {
    map.column_labels.push_back(point.label);
  }
  const std::size_t columns = map.column_labels.size();
  for (std::size_t i = 0; i < sweep.points.size(); ++i) {
    if (i % columns == 0) {
      map.values.emplace_back();
      map.fits.emplace_back();
    }
    const plan::SweepPoint& point = sweep.points[i];
    map.values.back().push_back(point.evaluated ? map.measure->value(*point.evaluated)
                                                : std::numeric_limits<double>::quiet_NaN());
    map.fits.back().push_back(!point.evaluated || point.evaluated->capacity.fits);
  }
  return map;
}

Table heat_table(const HeatMap& map, const plan::Efficiency& efficiency) {
  Table table;
  table.columns.push_back({map.row_axis, map.row_axis + " \\ " + map.column_axis, "", "", "", 1});
  for (const std::string& label : map.column_labels) {
    Column column = measure_column(*map.measure, efficiency);
    column.key = column.head = label;
    column.shown_unit.clear();
    table.columns.push_back(column);
  }
  for (std::size_t i = 0; i < map.values.size(); ++i) {
    std::vector<Cell> row = {map.row_labels[i]};
    for (std::size_t j = 0; j < map.values[i].size(); ++j) {
      const Cell cell(map.values[i][j]);
      row.push_back(map.fits[i][j] ? cell : Cell(shown(table.columns[j + 1], cell) + "*"));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace baltoro::cli
