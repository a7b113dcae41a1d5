#include "plan/curve.h"

#include <cmath>
#include <cstddef>

namespace baltoro::plan {

double Curve::at(double x) const {
  if (x <= points_.front().first) return points_.front().second;
  for (std::size_t i = 1; i < points_.size(); ++i) {
    const auto& [x1, y1] = points_[i];
    if (x > x1) continue;
    const auto& [x0, y0] = points_[i - 1];
    return y0 + (y1 - y0) * std::log(x / x0) / std::log(x1 / x0);
  }
  return points_.back().second;
}

}  // namespace baltoro::plan
