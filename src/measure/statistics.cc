#include "measure/statistics.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace baltoro {
namespace {

double median_of(std::vector<double>& values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  return (values[middle - 1] + values[middle]) / 2;
}

}  // namespace

Summary summarize(std::vector<double> values) {
  BALTORO_CHECK(!values.empty(), "no values to summarize");
  Summary summary;
  summary.median = median_of(values);
  summary.min = values.front();
  summary.max = values.back();
  for (double& value : values) value = std::fabs(value - summary.median);
  summary.mad = median_of(values);
  return summary;
}

}  // namespace baltoro
