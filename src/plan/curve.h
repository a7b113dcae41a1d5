// A rate that depends on a size.
#pragma once

#include <utility>
#include <vector>

namespace baltoro::plan {

// Piecewise linear in log x through (x, y) with ascending x > 0; constant beyond the ends.
class Curve {
 public:
  using Points = std::vector<std::pair<double, double>>;

  Curve(double constant = 1) : points_{{1, constant}} {}         // NOLINT: a number is a curve
  explicit Curve(Points points) : points_(std::move(points)) {}  // not none

  double at(double x) const;
  const Points& points() const { return points_; }
  bool operator==(const Curve&) const = default;

 private:
  Points points_;
};

}  // namespace baltoro::plan
