// The fit of a kernel's constants: known ones come back from noisy times, and a bound that was not
// met does not spoil them.
#include "plan/fit.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/rng.h"

namespace baltoro::plan {
namespace {

// 100 GB/s from a cache of 16 MB, a quarter of it from memory.
const Curve kBandwidth(Curve::Points{{16e6, 100e9}, {64e6, 25e9}});

KernelModel known_model() {
  KernelModel model;
  model.flops_per_flop = Curve(Curve::Points{{1, 6}, {8, 2}, {64, 1}});
  model.flops_per_inner_product = 300;
  model.flops_per_weight_row = 1500;
  model.bytes_per_byte = Curve(Curve::Points{{256, 1.5}, {2048, 0.8}});
  model.overlap = 0.5;
  model.launches = 1.5;
  return model;
}

MachineState machine_of(double working_set, double clock = 1, double dispatch_seconds = 2e-6) {
  return {kBandwidth.at(working_set), clock * 300e9, dispatch_seconds};
}

// A product of `rows` rows with [outputs, depth] weights of two bytes.
KernelWork product(double rows, double outputs, double depth) {
  return {.flops = 2 * rows * outputs * depth,
          .bytes = 2 * outputs * depth + 4 * rows * (outputs + depth),
          .rows = rows,
          .depth = depth,
          .run = 2 * depth};
}

// A calibration's grid, each time off by up to `noise`.
std::vector<KernelSample> samples_of(const KernelModel& model, double noise) {
  const Philox random(5, 0);
  std::vector<KernelSample> samples;
  for (const double working_set : {8e6, 256e6}) {
    for (const double rows : {1.0, 8.0, 64.0}) {
      for (const double depth : {128.0, 1024.0}) {
        for (const double outputs : {64.0, 4096.0}) {
          const KernelWork work = product(rows, outputs, depth);
          const double off = noise * (2 * random.uniform(samples.size()) - 1);
          // The processors move now and then, and have busy neighbours.
          const double clock = samples.size() % 5 < 3 ? 1 : 0.8;
          const double dispatch = samples.size() % 3 == 0 ? 4e-6 : 1e-6;
          const MachineState machine = machine_of(working_set, clock, dispatch);
          const double seconds = model.seconds(work, machine);
          samples.push_back({"", work, working_set, machine, seconds * (1 + off)});
        }
      }
    }
  }
  return samples;
}

TEST(KernelModel, TheLargerTermAndWhatDoesNotOverlapOfTheOther) {
  KernelModel model;
  model.flops_per_flop = Curve(4);
  model.bytes_per_byte = Curve(2);
  model.launches = 0.5;
  const KernelWork work{.flops = 4, .bytes = 3, .rows = 1, .depth = 1, .run = 0};
  model.overlap = 1;
  EXPECT_DOUBLE_EQ(model.seconds(work, {2, 4, 2}), 4 + 1);  // arithmetic 4 s, memory 3 s
  model.overlap = 0;
  EXPECT_DOUBLE_EQ(model.seconds(work, {2, 4, 2}), 4 + 3 + 1);
  EXPECT_DOUBLE_EQ(model.seconds(work, {1, 4, 2}), 4 + 6 + 1);
  model.overlap = 0.5;
  EXPECT_DOUBLE_EQ(model.seconds(work, {1, 4, 2}), 6 + 2 + 1);
}

TEST(KernelModel, EachLoopIsDispatched) {
  KernelModel model;
  model.launches = 1.5;
  EXPECT_DOUBLE_EQ(model.seconds({.loops = 3}, {1, 1, 2}), 9);
  EXPECT_DOUBLE_EQ(model.seconds({.loops = 0}, {1, 1, 2}), 0);
}

TEST(KernelModel, ShortInnerProductsAndWeightRowsCost) {
  KernelModel model;
  model.flops_per_flop = Curve(0);
  model.flops_per_inner_product = 1;
  model.flops_per_weight_row = 10;
  // 6 rows with 5 outputs are 30 inner products over 5 rows of the weight.
  const KernelWork work{.flops = 2 * 6 * 5 * 7, .bytes = 0, .rows = 6, .depth = 7, .run = 0};
  EXPECT_DOUBLE_EQ(model.seconds(work, {1, 1, 0}), 30 + 50);
}

TEST(NonNegativeLeastSquares, SolvesAndStopsAtZero) {
  // x + y = 3, x - y = 1, and a column that would want to be negative.
  const std::vector<double> x =
      non_negative_least_squares(std::vector<double>{1, 1, 1, 1, -1, 1}, std::vector<double>{3, 1});
  EXPECT_NEAR(x[0] + x[2], 2, 1e-6);
  EXPECT_NEAR(x[1], 1, 1e-6);
  const std::vector<double> y =
      non_negative_least_squares(std::vector<double>{1, 2}, std::vector<double>{-1, -2});
  EXPECT_EQ(y, std::vector<double>{0});
}

TEST(NonNegativeLeastSquares, DoesNotMindColumnsOfVeryDifferentSize) {
  const std::vector<double> x = non_negative_least_squares(
      std::vector<double>{1e12, 1, 2e12, 3, 3e12, 1}, std::vector<double>{3, 8, 5});
  EXPECT_NEAR(x[0] * 1e12, 1, 1e-6);
  EXPECT_NEAR(x[1], 2, 1e-6);
}

TEST(FitKernel, ExactTimesGiveTheModelBack) {
  const std::vector<KernelSample> samples = samples_of(known_model(), 0);
  const KernelModel fitted = fit_kernel(samples);
  EXPECT_EQ(fitted.overlap, 0.5);
  EXPECT_EQ(fitted.num_points, static_cast<int>(samples.size()));
  EXPECT_LT(fitted.worst_error, 0.01);
  EXPECT_NEAR(fitted.launches, 1.5, 0.05);
  EXPECT_NEAR(fitted.flops_per_flop.at(64), 1, 0.03);
}

TEST(FitKernel, NoisyTimesPredictShapesThatWereNotAmongThem) {
  const KernelModel known = known_model();
  const KernelModel fitted = fit_kernel(samples_of(known, 0.05));
  EXPECT_LT(fitted.median_error, 0.06);
  for (const double rows : {1.0, 3.0, 20.0}) {
    for (const double depth : {256.0, 768.0}) {
      for (const double working_set : {12e6, 100e6}) {
        const KernelWork work = product(rows, 1000, depth);
        const MachineState machine = machine_of(working_set);
        EXPECT_NEAR(fitted.seconds(work, machine) / known.seconds(work, machine), 1, 0.1)
            << rows << " rows, depth " << depth << ", " << working_set;
      }
    }
  }
}

TEST(FitKernel, ErrorsAreThoseOfItsOwnPoints) {
  std::vector<KernelSample> samples = samples_of(known_model(), 0);
  samples[3].seconds *= 3;  // a disturbed one
  const KernelModel fitted = fit_kernel(samples);
  double worst = 0;
  for (const KernelSample& s : samples) {
    const double predicted = fitted.seconds(s.work, s.machine);
    worst = std::max(worst, std::fabs(predicted / s.seconds - 1));
  }
  EXPECT_DOUBLE_EQ(fitted.worst_error, worst);
  EXPECT_GT(worst, 0.3);
  EXPECT_LE(fitted.median_error, fitted.p90_error);
  EXPECT_LE(fitted.p90_error, fitted.worst_error);
}

TEST(FitKernel, BytesAloneNeedNoArithmetic) {
  std::vector<KernelSample> samples;
  for (const double bytes : {1e4, 1e6, 1e8}) {
    samples.push_back({"", {.bytes = bytes}, 8e6, machine_of(8e6), 3e-6 + bytes / 50e9});
  }
  const KernelModel fitted = fit_kernel(samples);
  EXPECT_NEAR(fitted.bytes_per_byte.at(0), 2, 0.01);
  EXPECT_NEAR(fitted.launches, 1.5, 0.01);
}

// Few points and many constants: what is dispatched is not given to another term.
TEST(FitKernel, ALoopIsNeverCheaperThanAnOpThatDoesNothing) {
  std::vector<KernelSample> samples;
  for (const double bytes : {1e4, 1e6}) {
    const KernelWork work{.bytes = bytes, .loops = 2};
    samples.push_back({"", work, 8e6, machine_of(8e6), 4e-6 + bytes / 100e9});
  }
  EXPECT_GE(fit_kernel(samples).launches, 1);
  samples[0].seconds = 1e-6;
  EXPECT_GE(fit_kernel(samples).launches, 1);
}

}  // namespace
}  // namespace baltoro::plan
