#include "plan/fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>

#include "core/error.h"

namespace baltoro::plan {
namespace {

// Where F(rows) and e(run) may bend: fine where one read of a weight begins to serve several rows,
// and about the page that a prefetcher stays within.
constexpr std::array kRowKnots = {1.0, 2.0, 4.0, 8.0, 16.0, 64.0, 512.0};
constexpr std::array kRunKnots = {256.0, 512.0, 1024.0, 2048.0, 4096.0};
constexpr std::array kOverlaps = {0.0, 0.25, 0.5, 0.75, 1.0};
// Which term is larger settles in a few rounds, or swings between two that are nearly equal.
constexpr int kMaxRounds = 20;

// The knots of `ladder` that are nearest to one of `values`.
std::vector<double> knots_near(std::span<const double> ladder, const std::vector<double>& values) {
  std::set<double> knots;
  for (const double value : values) {
    const auto distance = [&](double knot) {
      return std::fabs(std::log(std::max(value, 1.0) / knot));
    };
    knots.insert(*std::ranges::min_element(ladder, {}, distance));
  }
  return {knots.begin(), knots.end()};
}

Curve curve_of(const std::vector<double>& knots, const double* values) {
  Curve::Points points;
  for (std::size_t k = 0; k < knots.size(); ++k) points.emplace_back(knots[k], values[k]);
  return Curve(points);
}

// What Curve::at(x) gives each knot's value.
std::vector<double> shares(const std::vector<double>& knots, double x) {
  std::vector<double> shares;
  for (std::size_t k = 0; k < knots.size(); ++k) {
    std::vector<double> unit(knots.size(), 0.0);
    unit[k] = 1;
    shares.push_back(curve_of(knots, unit.data()).at(x));
  }
  return shares;
}

// One value of `overlap`. The unknowns: f at the row knots, g, w, 1 / e at the run knots, n - 1.
class KernelFit {
 public:
  KernelFit(std::span<const KernelSample> samples, double overlap)
      : samples_(samples), overlap_(overlap) {
    std::vector<double> rows, runs;
    for (const KernelSample& sample : samples) {
      rows.push_back(sample.work.rows);
      runs.push_back(sample.work.run);
    }
    row_knots_ = knots_near(kRowKnots, rows);
    run_knots_ = knots_near(kRunKnots, runs);
  }

  // Rounds: which of the two terms is the larger one decides where (1 - overlap) goes.
  KernelModel run() const {
    std::vector<bool> arithmetic(samples_.size(), true);
    KernelModel best;
    double best_error = std::numeric_limits<double>::infinity();
    for (int round = 0; round < kMaxRounds; ++round) {
      const KernelModel model = solve(arithmetic);
      const double error = squared_error(model);
      if (error < best_error) {
        best_error = error;
        best = model;
      }
      std::vector<bool> next = sides(model);
      if (next == arithmetic) break;
      arithmetic = std::move(next);
    }
    return best;
  }

  double squared_error(const KernelModel& model) const {
    double sum = 0;
    for (const KernelSample& sample : samples_) {
      const double error = model.seconds(sample.work, sample.machine) / sample.seconds - 1;
      sum += error * error;
    }
    return sum;
  }

 private:
  std::vector<bool> sides(const KernelModel& model) const {
    KernelModel part = model;
    part.overlap = 1;
    part.launches = 0;
    std::vector<bool> arithmetic;
    for (const KernelSample& sample : samples_) {
      KernelWork alone = sample.work;
      alone.bytes = 0;
      const MachineState machine = sample.machine;
      arithmetic.push_back(part.seconds(alone, machine) >= part.seconds(sample.work, machine));
    }
    return arithmetic;
  }

  KernelModel solve(const std::vector<bool>& arithmetic) const {
    std::vector<double> a, target;
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      const KernelWork& work = samples_[i].work;
      const double larger = 1 / samples_[i].seconds, smaller = (1 - overlap_) * larger;
      const double compute =
          (arithmetic[i] ? larger : smaller) / samples_[i].machine.flops_per_second;
      const double memory = arithmetic[i] ? smaller : larger;
      for (const double share : shares(row_knots_, work.rows)) {
        a.push_back(share * work.flops * compute);
      }
      a.push_back(work.inner_products() * compute);
      a.push_back(work.weight_rows() * compute);
      for (const double share : shares(run_knots_, work.run)) {
        a.push_back(share * work.bytes / samples_[i].machine.bandwidth * memory);
      }
      const double dispatch = samples_[i].machine.dispatch_seconds * larger;
      a.push_back(work.loops * dispatch);
      target.push_back(1 - work.loops * dispatch);
    }
    return model_of(non_negative_least_squares(a, target));
  }

  KernelModel model_of(const std::vector<double>& x) const {
    const std::size_t rows = row_knots_.size();
    KernelModel model;
    model.flops_per_flop = curve_of(row_knots_, x.data());
    model.flops_per_inner_product = x[rows];
    model.flops_per_weight_row = x[rows + 1];
    model.bytes_per_byte = curve_of(run_knots_, x.data() + rows + 2);
    model.overlap = overlap_;
    model.launches = 1 + x.back();
    return model;
  }

  std::span<const KernelSample> samples_;
  double overlap_;
  std::vector<double> row_knots_, run_knots_;
};

// Of predicted / measured - 1, sorted by size.
std::vector<double> sorted_errors(const KernelModel& model, std::span<const KernelSample> samples) {
  std::vector<double> errors;
  for (const KernelSample& sample : samples) {
    const double predicted = model.seconds(sample.work, sample.machine);
    errors.push_back(std::fabs(predicted / sample.seconds - 1));
  }
  std::ranges::sort(errors);
  return errors;
}

}  // namespace

std::vector<double> non_negative_least_squares(std::span<const double> a,
                                               std::span<const double> b) {
  BALTORO_CHECK(!b.empty() && a.size() % b.size() == 0, "{} values for {} rows", a.size(),
                b.size());
  const std::size_t rows = b.size(), columns = a.size() / rows;
  std::vector<double> gram(columns * columns, 0.0), target(columns, 0.0), x(columns, 0.0);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      target[j] += a[i * columns + j] * b[i];
      for (std::size_t k = 0; k < columns; ++k) {
        gram[j * columns + k] += a[i * columns + j] * a[i * columns + k];
      }
    }
  }
  constexpr int kMaxSweeps = 20000;
  constexpr double kEnough = 1e-12;
  for (int sweep = 0; sweep < kMaxSweeps; ++sweep) {
    double moved = 0;
    for (std::size_t j = 0; j < columns; ++j) {
      const double curvature = gram[j * columns + j];
      if (curvature <= 0) continue;
      double gradient = -target[j];
      for (std::size_t k = 0; k < columns; ++k) gradient += gram[j * columns + k] * x[k];
      const double next = std::max(0.0, x[j] - gradient / curvature);
      moved = std::max(moved, std::fabs(next - x[j]) * std::sqrt(curvature));
      x[j] = next;
    }
    if (moved < kEnough) break;
  }
  return x;
}

KernelModel fit_kernel(std::span<const KernelSample> samples) {
  BALTORO_CHECK(!samples.empty(), "a fit without samples");
  KernelModel best;
  double best_error = std::numeric_limits<double>::infinity();
  for (const double overlap : kOverlaps) {
    const KernelFit fit(samples, overlap);
    const KernelModel model = fit.run();
    const double error = fit.squared_error(model);
    if (error >= best_error) continue;
    best_error = error;
    best = model;
  }
  const std::vector<double> errors = sorted_errors(best, samples);
  best.median_error = errors[errors.size() / 2];
  best.p90_error = errors[errors.size() * 9 / 10];
  best.worst_error = errors.back();
  best.num_points = static_cast<int>(errors.size());
  return best;
}

}  // namespace baltoro::plan
