// What fits where: the capacity table of docs/cost-model.md, memory over pipeline stages, offload.
#include "plan/capacity.h"

#include <gtest/gtest.h>

#include "baltoro/error.h"
#include "plan/inventory.h"
#include "plan/offload.h"
#include "plan/placement.h"
#include "plan/scenarios.h"

namespace baltoro::plan {
namespace {

struct CapacityRow {
  const char* hardware;
  std::int64_t devices;
  double free_gb;
  std::int64_t replicated_128k, sharded_128k, replicated_8k, sharded_8k;
};

// The table lets heads divide unevenly, so its layouts are not checked.
Capacity capacity_of(const CapacityRow& row, std::int64_t context, bool sharded) {
  Scenario scenario = scenario_of("k3", row.hardware, "tp=1");
  scenario.layout.tp = row.devices;
  scenario.layout.dcp = sharded ? row.devices : 1;
  scenario.workload.context = context;
  scenario.workload.chunk = 2048;
  return compute_capacity(scenario);
}

TEST(CapacityTable, K3) {
  for (const CapacityRow& row : {
           CapacityRow{"h200", 16, 329, 11, 145, 145, 584},
           {"b200", 16, 890, 30, 393, 393, 1582},
           {"b300", 8, 303, 20, 134, 223, 539},
           {"gb300", 8, 375, 25, 166, 277, 667},
           {"mi355x", 8, 447, 29, 197, 330, 795},
           {"gb200", 16, 977, 33, 431, 431, 1735},
           {"gb200", 72, 9800, 75, 4343, 1141, 17457},
       }) {
    const Capacity capacity = capacity_of(row, 131072, false);
    EXPECT_NEAR(capacity.free * static_cast<double>(row.devices) / 1e9, row.free_gb,
                row.free_gb > 5000 ? 60 : 0.6)
        << row.hardware;
    EXPECT_EQ(capacity.max_batch, row.replicated_128k) << row.hardware;
    EXPECT_EQ(capacity_of(row, 131072, true).max_batch, row.sharded_128k) << row.hardware;
    EXPECT_EQ(capacity_of(row, 8192, false).max_batch, row.replicated_8k) << row.hardware;
    EXPECT_EQ(capacity_of(row, 8192, true).max_batch, row.sharded_8k) << row.hardware;
  }
  for (const char* hardware : {"h200", "b200"}) {
    const Capacity capacity = capacity_of({hardware, 8, 0, 0, 0, 0, 0}, 8192, false);
    EXPECT_LT(capacity.free, 0) << hardware;
    EXPECT_FALSE(capacity.fits);
    EXPECT_EQ(capacity.max_batch, 0);
  }
}

TEST(CapacityStages, AddUpToOneModel) {
  // A stage keeps the caches of its own layers alone.
  const PlanModel model = preset_model("k3");
  for (const char* layout : {"tp=1", "pp=8", "pp=3,tp=8", "pp=93", "tp=8,dp=2,ep=16,pp=5"}) {
    Scenario scenario = scenario_of("k3", "b300", layout);
    const Capacity capacity = compute_capacity(scenario);
    double cache = 0;
    double state = 0;
    double weights = 0;
    double replicated = 0;
    std::int64_t layers = 0;
    for (const StageMemory& stage : capacity.stages) {
      cache += stage.cache_per_token * cache_cuts(model, scenario.layout);
      state += stage.state_per_sequence * static_cast<double>(scenario.layout.attention_tp());
      weights += stage.weights * static_cast<double>(scenario.layout.stage_devices());
      replicated += stage.replicated * static_cast<double>(scenario.layout.stage_devices());
      layers += stage.layers;
    }
    EXPECT_EQ(layers, 93);
    EXPECT_NEAR(cache, 13'824, 1e-6) << layout;
    EXPECT_NEAR(state, state_bytes_per_sequence(model) + conv_bytes_per_sequence(model), 1)
        << layout;
    EXPECT_NEAR(weights - replicated, total_bytes(model), 1e-6 * weights) << layout;
  }
}

TEST(CapacityWorkspace, NineRowsOfAttentionResiduals) {
  PlanModel model = preset_model("k3");
  constexpr double kGiB = 1024.0 * 1024 * 1024;
  EXPECT_NEAR(residual_bank_bytes(model, 16384) / kGiB, 1.97, 0.005);
  model.formats.activation = Format::kF32;
  EXPECT_NEAR(residual_bank_bytes(model, 16384) / kGiB, 3.94, 0.005);
}

TEST(CapacityFewest, DevicesAreTheLeastThatFit) {
  for (const char* hardware : {"h200", "b200", "b300", "gb200"}) {
    Scenario scenario = scenario_of("k3", hardware, "tp=1");
    const auto fewest = fewest_devices(scenario);
    ASSERT_TRUE(fewest);
    scenario.layout = fewest->layout;
    EXPECT_TRUE(compute_capacity(scenario).fits) << hardware;
    EXPECT_EQ(fewest->devices, fewest->layout.devices());
    check_layout(fewest->layout, scenario.model);
  }
  const auto devices = [](const char* hardware) {
    return fewest_devices(scenario_of("k3", hardware, "tp=1"))->devices;
  };
  EXPECT_EQ(devices("b300"), 7);  // 1560 GB over 241 GB each, in pipeline stages
  EXPECT_GT(devices("b200"), 8);
  EXPECT_LE(devices("b200"), 16);
  EXPECT_GT(devices("h200"), 8);
  EXPECT_LE(devices("h200"), 16);
}

TEST(CapacityContext, IsTheBatchTurnedRound) {
  Scenario scenario = scenario_of("k3", "b300", "tp=8");
  scenario.workload.chunk = 2048;
  scenario.workload.batch = 20;
  const Capacity capacity = compute_capacity(scenario);
  scenario.workload.context = capacity.max_context;
  EXPECT_TRUE(compute_capacity(scenario).fits);
  EXPECT_GE(compute_capacity(scenario).max_batch, 20);
  scenario.workload.context += 64;
  EXPECT_FALSE(compute_capacity(scenario).fits);
}

TEST(Offload, DesktopWithFastStorage) {
  Hardware desktop = preset_hardware("rtx4090").hardware;
  set_hardware(desktop, "dram_bytes", 128e9, Provenance::kUser, "test");
  set_hardware(desktop, "nvme_bandwidth", 7e9, Provenance::kUser, "test");
  const PlanModel model = preset_model("k3");
  const Offload offload = compute_offload(model, desktop, 1);
  EXPECT_NEAR(1 / offload.cold_seconds, 0.27, 0.005);
  EXPECT_NEAR(1 / offload.seconds(), 0.28, 0.005);
  EXPECT_STREQ(offload.bound(), "NVMe");
  EXPECT_NEAR(offload.expert_bytes_per_token, 25'829'572'608.0, 1);
  EXPECT_NEAR(offload.resident_experts, 152e9 - rest_bytes(model), 1);
  // Storage alone at 14 GB/s.
  EXPECT_NEAR(14e9 / offload.expert_bytes_per_token, 0.54, 0.005);
}

TEST(Offload, BoundsOfLargeHosts) {
  const PlanModel model = preset_model("k3");
  const double bytes = rest_bytes(model) + 25'829'572'608.0;
  EXPECT_NEAR(bytes / 1e9, 137, 0.5);
  EXPECT_NEAR(1.23e12 / bytes, 9, 0.1);
  PlanModel int8 = model;
  apply_formats(int8.formats, "weights=int8");
  EXPECT_NEAR(1.23e12 / (rest_bytes(int8) + 25'829'572'608.0), 15, 0.2);
  // Two old sockets: experts in DRAM, the rest in 8 bit on two GPUs one after the other.
  EXPECT_NEAR(25'829'572'608.0 / 0.256e12 * 1e3, 101, 0.5);
  EXPECT_NEAR(rest_bytes(int8) / 0.96e12 * 1e3, 58, 1);
}

TEST(Offload, WhatIsMissingIsNamed) {
  Hardware desktop = preset_hardware("rtx4090").hardware;
  set_hardware(desktop, "dram_bytes", 128e9, Provenance::kUser, "test");
  const auto message = [&](const PlanModel& model) {
    try {
      compute_offload(model, desktop, 1);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(message(preset_model("k3")).find("nvme_bandwidth"), std::string::npos);
  desktop.dram_bytes.value = 32e9;
  EXPECT_NE(message(preset_model("k3")).find("--dram"), std::string::npos);
}

}  // namespace
}  // namespace baltoro::plan
