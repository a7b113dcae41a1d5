// What `run --stats` says of a load: which side of the copy to a GPU bounds it.
#include "cli/memory_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baltoro::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

MemoryPlan on_device(std::uint64_t bytes) {
  MemoryPlan plan;
  plan.copies = false;
  plan.resident = bytes;  // mapped, and copied from there
  plan.device_limit = 100 * kGiB;
  plan.device_weights = bytes;
  return plan;
}

TEST(MemoryReport, LoadOfMappedWeightsHasNoLine) {
  MemoryPlan plan;
  plan.copies = false;
  plan.resident = kGiB;
  EXPECT_THAT(describe(LoadTimes{.host = 0.1}, plan, 8), IsEmpty());
}

TEST(MemoryReport, LoadIntoMemoryHasBytesAndRate) {
  MemoryPlan plan;
  plan.resident = kGiB;
  EXPECT_EQ(describe(LoadTimes{.host = 0.5}, plan, 8),
            "load    1.00 GiB into memory in 0.50 s, 2.15 GB/s\n");
}

TEST(MemoryReport, LoadToADeviceNamesTheSlowerSide) {
  const MemoryPlan plan = on_device(10 * kGiB);
  EXPECT_EQ(describe(LoadTimes{.host = 0.1, .device = 2, .filling = 1.8, .waiting = 0.1}, plan, 8),
            "load    10.0 GiB to the GPU in 2.00 s, 5.37 GB/s; 1.80 s reading, 0.10 s waiting for "
            "the GPU: bound by the files\n");
  EXPECT_THAT(describe(LoadTimes{.device = 2, .filling = 0.4, .waiting = 1.5}, plan, 8),
              HasSubstr("bound by the copy"));
}

TEST(MemoryReport, RandomWeightsWereNotRead) {
  EXPECT_THAT(describe(LoadTimes{.device = 2}, on_device(kGiB), 8), Not(HasSubstr("bound by")));
}

TEST(MemoryReport, ExpertsOfTheHostAreASecondLine) {
  MemoryPlan plan = on_device(kGiB);
  plan.experts_on_host = plan.copies = true;
  plan.resident = 3 * kGiB;
  const std::string text = describe(LoadTimes{.host = 3, .device = 1, .filling = 1}, plan, 8);
  EXPECT_THAT(text, HasSubstr("load    3.00 GiB into memory in 3.00 s"));
  EXPECT_THAT(text, HasSubstr("load    1.00 GiB to the GPU in 1.00 s"));
  EXPECT_EQ(to_json(LoadTimes{.host = 3}, plan)["host_bytes"], 3 * kGiB);
}

TEST(MemoryReport, LayersOfTheCpuAreNamed) {
  MemoryPlan plan = on_device(kGiB);
  plan.host_layers = 3;
  plan.device_layers = 24;
  plan.limit = 9 * kGiB;
  const std::string text = describe(plan, 1, 8);
  EXPECT_THAT(text, HasSubstr("of the last 24 of 27 layers, the first 3 on the CPU"));
  EXPECT_THAT(text, HasSubstr("limit   9.00 GiB"));
  EXPECT_EQ(to_json(plan)["host_layers"], 3);
}

}  // namespace
}  // namespace baltoro::cli
