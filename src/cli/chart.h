// Charts as SVG: one element that stands alone as a file or inside of a page, in the colours of a
// light or a dark reader.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/plan_tables.h"

namespace baltoro::cli {

struct ChartText {
  std::string title;
  std::string x;
  std::string y;
};

struct Series {
  std::string name;
  std::size_t colour = 0;
  std::vector<double> values;  // one a bar, from 0 on
};
// Bars of stacked series, the first at the bottom, the sum above each. Series of no size are left
// out.
std::string stacked_bars(const ChartText& text, const std::vector<std::string>& labels,
                         const std::vector<Series>& series);

struct Roof {
  std::string name;
  double flops = 0;  // FLOP/s
};
struct RooflinePoint {
  std::string name;
  std::size_t colour = 0;
  double intensity = 0;  // FLOP/B
  double flops = 0;      // FLOP/s reached
  double share = 0;      // of the time: the area of its mark
};
// Both axes logarithmic; `bandwidth` bytes/s.
std::string roofline(const ChartText& text, double bandwidth, const std::vector<Roof>& roofs,
                     const std::vector<RooflinePoint>& points);

// Colours go by the logarithm of the measure; what does not fit into memory is hatched.
std::string heat_chart(const ChartText& text, const HeatMap& map);

struct ScatterPoint {
  std::string name;  // empty: a small mark without one
  double x = 0;
  double y = 0;
};
// Both axes logarithmic; named points are numbered, their names beside the plot.
std::string scatter(const ChartText& text, const std::vector<ScatterPoint>& points);

}  // namespace baltoro::cli
