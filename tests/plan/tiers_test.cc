// Placements of a model on one device and its host: bytes where, time by the sides' own rates.
#include "plan/tiers.h"

#include <gtest/gtest.h>

#include "plan/device_preset.h"
#include "plan/inventory.h"

namespace baltoro::plan {
namespace {

constexpr double kGpuRate = 4e12, kHostRate = 1e11;

TierSide side(double memory, double bandwidth) {
  TierSide result;
  result.hardware.memory_bytes.value = memory;
  result.hardware.memory_bandwidth.value = bandwidth;
  result.hardware.bf16_flops.value = 1e18;  // never what limits
  return result;
}

TierMachine machine(double gpu_memory, double host_memory) {
  TierMachine result;
  result.device = side(gpu_memory, kGpuRate);
  result.host = side(host_memory, kHostRate);
  return result;
}

class PlanTiers : public testing::Test {
 protected:
  // What a decoded token moves, of the routed experts alone or of all else.
  double moved(bool routed) const {
    Scenario scenario{model_, side(1, kGpuRate).hardware, {}, {}, {}};
    const Step step = compute_step(scenario, decode_step(1, kContext));
    const double experts = step.work_of(Part::kRouted).bytes();
    return routed ? experts : step.total().bytes() - experts;
  }

  static constexpr std::int64_t kContext = 4096;
  PlanModel model_ = preset_model("kimi-linear");
  double all_ = total_bytes(model_);
  double routed_ = part_bytes(model_, Part::kRouted);
};

TEST_F(PlanTiers, BytesAreWhereThePlaceSays) {
  const std::vector<Placement> p = placements(model_, machine(141e9, 200e9), kContext);
  ASSERT_EQ(p.size(), 3u);
  EXPECT_EQ(p[0].place, Place::kDevice);
  EXPECT_DOUBLE_EQ(p[0].device_bytes, all_);
  EXPECT_EQ(p[0].host_bytes, 0);
  EXPECT_EQ(p[1].place, Place::kHostExperts);
  EXPECT_DOUBLE_EQ(p[1].device_bytes, all_ - routed_);
  EXPECT_DOUBLE_EQ(p[1].host_bytes, routed_);
  EXPECT_EQ(p[2].place, Place::kHost);
  EXPECT_DOUBLE_EQ(p[2].host_bytes, all_);
  for (const Placement& placement : p) {
    EXPECT_TRUE(placement.fits());
    EXPECT_EQ(placement.file_bytes, 0);
  }
}

TEST_F(PlanTiers, ATokenTakesTheBytesOfEachSideAtItsRate) {
  const std::vector<Placement> p = placements(model_, machine(141e9, 200e9), kContext);
  const double rest = moved(false), experts = moved(true);
  EXPECT_NEAR(p[0].seconds(), (rest + experts) / kGpuRate, 1e-9);
  EXPECT_EQ(p[0].bound(), "HBM");
  EXPECT_NEAR(p[1].seconds(), rest / kGpuRate + experts / kHostRate, 1e-9);
  EXPECT_EQ(p[1].bound(), "host memory");
  EXPECT_NEAR(p[2].seconds(), (rest + experts) / kHostRate, 1e-9);
}

TEST_F(PlanTiers, TheLinkCarriesInputsAndOutputsOfTheExperts) {
  TierMachine slow = machine(141e9, 200e9);
  slow.device->hardware.host_link_bandwidth.value = 1e6;
  const std::vector<Placement> p = placements(model_, slow, kContext);
  EXPECT_EQ(p[0].link_seconds, 0);
  // 26 MoE layers, 2304 wide, BF16, there and back.
  EXPECT_DOUBLE_EQ(p[1].link_seconds, 26 * 2304 * 2 * 2 / 1e6);
  EXPECT_EQ(p[1].bound(), "PCIe");
}

TEST_F(PlanTiers, ADeviceThatIsTooSmallSaysByHowMuch) {
  TierMachine small = machine(24e9, 200e9);
  small.device->working_bytes = 1e9;
  const std::vector<Placement> p = placements(model_, small, kContext);
  EXPECT_FALSE(p[0].fits());
  EXPECT_DOUBLE_EQ(p[0].missing_bytes, all_ - 23e9);
  EXPECT_TRUE(p[1].fits());
}

TEST_F(PlanTiers, ExpertsWithoutRoomAreReadFromTheFilesInTheirShare) {
  TierMachine tight = machine(24e9, routed_ / 4);
  std::vector<Placement> p = placements(model_, tight, kContext);
  EXPECT_DOUBLE_EQ(p[1].file_bytes, routed_ * 3 / 4);
  const double chosen = 26 * 8 * expert_parameters(model_) * 2;
  EXPECT_NEAR(p[1].file_bytes_per_token, chosen * 3 / 4, 1);
  EXPECT_FALSE(p[1].known) << "no rate of the files was given";
  EXPECT_EQ(p[1].bound(), "-");

  tight.file_bandwidth.value = 1e9;
  p = placements(model_, tight, kContext);
  EXPECT_TRUE(p[1].known);
  EXPECT_EQ(p[1].bound(), "files");
  EXPECT_NEAR(p[1].seconds(), moved(false) / kGpuRate + chosen * 3 / 4 / 1e9, 1e-6);
}

TEST_F(PlanTiers, ATrunkWithoutRoomIsReadForEveryToken) {
  TierMachine tiny = machine(24e9, 1e9);
  tiny.file_bandwidth.value = 1e9;
  const Placement host = placements(model_, tiny, kContext)[2];
  EXPECT_DOUBLE_EQ(host.host_bytes, 1e9);
  const double chosen = 26 * 8 * expert_parameters(model_) * 2;
  EXPECT_NEAR(host.file_bytes_per_token, rest_bytes(model_) - 1e9 + chosen, 1);
}

TEST_F(PlanTiers, ATrunkThatDoesNotFitLeavesItsFirstLayersToTheHost) {
  const double room = (all_ - routed_) / 2;
  const std::vector<Placement> p = placements(model_, machine(room, 200e9), kContext);
  ASSERT_EQ(p.size(), 4u);
  const Placement& split = p[2];
  EXPECT_EQ(split.place, Place::kHostLayers);
  EXPECT_FALSE(p[1].fits());
  EXPECT_TRUE(split.fits());
  // As many as fit, with the head; one layer of 27 more would not.
  EXPECT_LE(split.device_bytes, room);
  EXPECT_GT(split.device_bytes, room - (all_ - routed_) / 27);
  EXPECT_DOUBLE_EQ(split.device_bytes + split.host_bytes, all_);
  EXPECT_GT(split.host_layers, 0);
  EXPECT_EQ(split.name(), std::to_string(split.host_layers) + " layers on the CPU");
  // Each byte is moved once, by the one side or the other; mixes begin anew behind the cut.
  const double moved_by_both = split.device_seconds * kGpuRate + split.host_seconds * kHostRate;
  EXPECT_NEAR(moved_by_both, moved(false) + moved(true), 1e-3 * moved_by_both);
  EXPECT_LT(p[1].seconds(), split.seconds());
  EXPECT_LT(split.seconds(), p[3].seconds());
}

TEST_F(PlanTiers, TheChoiceIsTheEngines) {
  const auto chosen = [&](double gpu, ExpertPlace wanted) {
    return choose_place(model_, machine(gpu, 200e9), wanted);
  };
  const double trunk = all_ - routed_;
  EXPECT_EQ(chosen(all_ + 1, ExpertPlace::kAuto), Place::kDevice);
  EXPECT_EQ(chosen(all_ + 1, ExpertPlace::kHost), Place::kHostExperts);
  EXPECT_EQ(chosen(all_ - 1e6, ExpertPlace::kAuto), Place::kHostExperts);
  EXPECT_EQ(chosen(all_ - 1e6, ExpertPlace::kDevice), std::nullopt);
  EXPECT_EQ(chosen(trunk - 1e6, ExpertPlace::kAuto), Place::kHostLayers);
  EXPECT_EQ(chosen(1e6, ExpertPlace::kAuto), std::nullopt);
  // States go with their layers.
  TierMachine small = machine(trunk + 26e9, 200e9);
  small.device->working_bytes = 27e9;
  EXPECT_GT(placements(model_, small, kContext)[2].host_layers, 1);
  small.device->layer_states.assign(27, 1e9);
  EXPECT_EQ(placements(model_, small, kContext)[2].host_layers, 1);
}

TEST_F(PlanTiers, AnUnknownDeviceHasBytesAndNoTime) {
  TierMachine unknown = machine(141e9, 200e9);
  unknown.device->hardware.memory_bandwidth.value = 0;
  const std::vector<Placement> p = placements(model_, unknown, kContext);
  EXPECT_FALSE(p[0].known);
  EXPECT_FALSE(p[1].known);
  EXPECT_TRUE(p[2].known);
}

TEST_F(PlanTiers, WithoutADeviceOrExpertsThereIsLess) {
  TierMachine host_alone = machine(0, 200e9);
  host_alone.device.reset();
  EXPECT_EQ(placements(model_, host_alone, kContext).size(), 1u);
  EXPECT_EQ(placements(preset_model("gqa-70b"), machine(200e9, 200e9), kContext).size(), 2u);
}

TEST(PlanDevicePresets, ByTheNameThatADeviceGivesItself) {
  for (const auto& [name, preset] : {std::pair{"NVIDIA H200", "h200"},
                                     {"NVIDIA H100 80GB HBM3", "h100"},
                                     {"NVIDIA A100-SXM4-80GB", "a100"},
                                     {"NVIDIA GeForce RTX 4090", "rtx4090"},
                                     {"NVIDIA H20", "h20"},
                                     {"NVIDIA GB200", "gb200"}}) {
    const std::optional<Hardware> found = preset_of_device(name);
    ASSERT_TRUE(found) << name;
    EXPECT_EQ(found->name, preset) << name;
  }
  // Others have other memory, or are no devices.
  for (const char* name : {"NVIDIA H100 PCIe", "NVIDIA A100-SXM4-40GB", "NVIDIA H200 NVL",
                           "NVIDIA GeForce RTX 4090 Laptop GPU", "Tesla T4", "epyc-9005", ""}) {
    EXPECT_FALSE(preset_of_device(name)) << name;
  }
}

}  // namespace
}  // namespace baltoro::plan
