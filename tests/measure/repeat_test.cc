// What counts as disturbed, and that disturbed samples never reach a result unasked.
#include "measure/repeat.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "measure/bench_row.h"
#include "measure/disturbance.h"

namespace baltoro {
namespace {

// user 100, nice 10, system 20, idle 300, iowait 40, irq 1, softirq 2, steal 5, guests
constexpr const char* kProcStat =
    "cpu  100 10 20 300 40 1 2 5 7 0\n"
    "cpu0 60 5 10 150 20 1 1 2 3 0\n"
    "cpu1 40 5 10 150 20 0 1 3 4 0\n"
    "intr 12345 0 0\n"
    "ctxt 99\n";

TEST(ProcStat, CountsBusyStealAndProcessors) {
  const auto times = parse_proc_stat(kProcStat, 100);
  ASSERT_TRUE(times.has_value());
  EXPECT_DOUBLE_EQ(times->busy, 1.33);  // neither idle nor iowait, guests once
  EXPECT_DOUBLE_EQ(times->steal, 0.05);
  EXPECT_EQ(times->processors, 2);
}

TEST(ProcStat, OtherTextsAreNoCounters) {
  EXPECT_FALSE(parse_proc_stat("", 100).has_value());
  EXPECT_FALSE(parse_proc_stat("cpu 1 2 3\n", 100).has_value());
  EXPECT_FALSE(parse_proc_stat("intr 1 2 3 4 5 6 7 8\n", 100).has_value());
}

TEST(Disturbance, IsWhatOthersDid) {
  const CpuTimes before{.wall = 10, .busy = 100, .steal = 1, .own = 7, .processors = 4};
  // Two seconds: this process ran on three processors, others on half of one.
  const CpuTimes after{.wall = 12, .busy = 107, .steal = 1.4, .own = 13, .processors = 4};
  const Disturbance seen = disturbance_between(before, after);
  EXPECT_DOUBLE_EQ(seen.other_cores, 0.5);
  EXPECT_DOUBLE_EQ(seen.steal, 0.05);  // 0.4 of 8 processor seconds
  EXPECT_TRUE(seen.too_large());
  EXPECT_FALSE((Disturbance{.other_cores = 0.06, .steal = 0.02}).too_large());
  EXPECT_TRUE((Disturbance{.other_cores = 0.061, .steal = 0}).too_large());
  EXPECT_TRUE((Disturbance{.other_cores = 0, .steal = 0.021}).too_large());
}

TEST(Disturbance, ThisSystemHasCounters) {
  const auto times = read_cpu_times();
  ASSERT_TRUE(times.has_value());
  EXPECT_GT(times->busy, 0);
  EXPECT_GT(times->own, 0);
  EXPECT_GE(times->processors, 1);
}

// A clock that says that the k-th sample took one second and others used others[k] cores.
class FakeClock {
 public:
  explicit FakeClock(std::vector<double> others) : others_(std::move(others)) {}

  std::optional<CpuTimes> operator()() {
    if (readings_++ % 2 == 1) {
      now_.wall += 1;
      now_.busy += others_[std::min(sample_++, others_.size() - 1)];
    }
    return now_;
  }

 private:
  std::vector<double> others_;
  CpuTimes now_{.wall = 0, .busy = 0, .steal = 0, .own = 0, .processors = 2};
  std::size_t readings_ = 0, sample_ = 0;
};

// A run that says 1, 2, 3, ... seconds; the first is the warm-up.
std::function<double()> counting_run() {
  return [n = 0.0]() mutable { return ++n; };
}

const RepeatOptions kThree{
    .repeats = 3, .max_dropped = 2, .allow_noise = false, .sample_seconds = 0.5};

TEST(Repeat, DropsDisturbedSamplesAndTakesOthers) {
  const Samples samples = repeat(counting_run(), kThree, FakeClock({0, 0.5, 0.01, 0.2, 0}));
  ASSERT_EQ(samples.kept.size(), 3u);
  ASSERT_EQ(samples.dropped.size(), 2u);
  EXPECT_FALSE(samples.gave_up);
  EXPECT_FALSE(samples.noisy());
  EXPECT_EQ(samples.kept[0].seconds, 2);
  EXPECT_EQ(samples.dropped[0].seconds, 3);
  EXPECT_EQ(samples.kept[1].seconds, 4);
  EXPECT_EQ(samples.kept[2].seconds, 6);
  EXPECT_EQ(samples.seconds().median, 4);
  EXPECT_EQ(describe_dropped(samples),
            "dropped 2 of 5 samples: other processes used up to 0.50 core (limit 0.06), steal up "
            "to 0.0 % (limit 2 %)");
}

TEST(Repeat, GivesUpOneBeyondTheLimit) {
  const Samples samples = repeat(counting_run(), kThree, FakeClock({0, 1}));
  EXPECT_TRUE(samples.gave_up);
  EXPECT_EQ(samples.kept.size(), 1u);
  EXPECT_EQ(samples.dropped.size(), 3u);
}

TEST(Repeat, KeepsNoiseWhereAllowedAndSaysSo) {
  RepeatOptions options = kThree;
  options.allow_noise = true;
  const Samples samples = repeat(counting_run(), options, FakeClock({0, 1}));
  EXPECT_EQ(samples.kept.size(), 3u);
  EXPECT_TRUE(samples.dropped.empty());
  EXPECT_TRUE(samples.noisy());
}

TEST(Repeat, WithoutCountersEverySampleIsKept) {
  const Samples samples = repeat(counting_run(), kThree, [] { return std::nullopt; });
  ASSERT_EQ(samples.kept.size(), 3u);
  EXPECT_FALSE(samples.kept[0].disturbance.has_value());
}

TEST(Repeat, ShortRunsShareASample) {
  int calls = 0;
  const auto run = [&] { return ++calls, 0.125; };
  const Samples samples = repeat(run, kThree, FakeClock({0}));
  EXPECT_EQ(samples.kept[0].runs, 4);
  EXPECT_DOUBLE_EQ(samples.kept[0].seconds, 0.125);
  EXPECT_EQ(calls, 1 + 3 * 4);
}

TEST(Repeat, ASampleIsHeldAgainstTheFloorsMeasuredBetweenItsRuns) {
  // Floors 1, 2, 3, ...; four runs are four slices, between five of them.
  const auto run = [] { return 0.125; };
  const auto floor = [n = 0.0]() mutable { return ++n; };
  const Samples samples = repeat(run, kThree, FakeClock({0}), floor);
  ASSERT_TRUE(samples.have_floors());
  EXPECT_DOUBLE_EQ(samples.kept[0].floor_seconds.value(), 3);
  EXPECT_DOUBLE_EQ(samples.kept[1].floor_seconds.value(), 8);
  EXPECT_DOUBLE_EQ(samples.kept[2].floor_seconds.value(), 13);
  EXPECT_DOUBLE_EQ(samples.floors().median, 8);
  EXPECT_DOUBLE_EQ(samples.shares().median, 8 / 0.125);
  EXPECT_DOUBLE_EQ(samples.shares().max, 13 / 0.125);
}

TEST(Repeat, ManyRunsAreCutInAFewSlices) {
  int floors = 0;
  const Samples samples = repeat([] { return 0.001; }, kThree, FakeClock({0}),
                                 [&] { return static_cast<double>(++floors); });
  EXPECT_EQ(samples.kept[0].runs, 500);
  EXPECT_NEAR(samples.kept[0].seconds, 0.001, 1e-12);
  EXPECT_LE(floors, 3 * 10);
  EXPECT_GE(floors, 3 * 3);
}

TEST(Repeat, WithoutAFloorThereIsNoShare) {
  EXPECT_FALSE(repeat(counting_run(), kThree, FakeClock({0})).have_floors());
}

TEST(BenchRow, AMachineThatSlowsDownWithItsRoofKeepsItsShare) {
  BenchRow row;
  row.floor = {.seconds = 1, .bound = Bound::kMemory};
  double state = 1;
  const auto run = [&] { return 2 * (state *= 1.5); };
  row.time(run, {.repeats = 3, .max_dropped = 99, .allow_noise = true, .sample_seconds = 0},
           [&] { return state; });
  // One run a sample, between a floor that is 1.5 times as fast and one that is as fast as the run.
  EXPECT_NEAR(row.share_of_roof(), (1 + 1 / 1.5) / 2 / 2, 1e-12);
  EXPECT_GT(row.floor.seconds, 1);
}

}  // namespace
}  // namespace baltoro
