// What a few repeats of a measurement say together.
#pragma once

#include <vector>

namespace baltoro {

struct Summary {
  double median = 0;
  double min = 0;
  double max = 0;
  double mad = 0;  // median distance from the median
};

// Of finite values, not none. The median of an even count is the mean of the middle two.
Summary summarize(std::vector<double> values);

}  // namespace baltoro
