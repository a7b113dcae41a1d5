// The comparison must find a fault where it is, and only there.
#include "measure/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cpu/backend.h"
#include "measure/faulty_backend.h"
#include "measure/memory_bandwidth.h"
#include "model/model.h"
#include "ops/forwarding_backend.h"
#include "ops/reference/reference_backend.h"
#include "paths.h"

namespace baltoro {
namespace {

namespace fs = std::filesystem;
using testing::FaultyBackend;

std::vector<TokenId> tokens(int count) {
  std::vector<TokenId> ids(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<TokenId>(i * 29 % 90);
  return ids;
}

const LoadedModel& model() {
  static const LoadedModel loaded = load_model(test_data_dir() / "fixtures" / "k3");
  return loaded;
}

int first_layer(MixerKind kind) {
  const auto& layers = model().config.layers;
  // Not layer 0, which an off-by-one would also name.
  for (std::size_t i = 1; i < layers.size(); ++i) {
    if (layers[i].mixer == kind && layers[i].ffn == FfnKind::kMoe) return static_cast<int>(i);
  }
  return -1;
}

OpComparison compare_with_fault(const std::string& op, int layer) {
  const auto good =
      make_cpu_backend({.activations = Activations::kF32, .num_threads = 1, .isa = {}});
  FaultyBackend bad(make_reference_backend(Activations::kF32), op, layer);
  const auto prompt = tokens(70);
  const auto generated = tokens(3);
  return compare_ops(model(), *good, bad, prompt, generated);
}

TEST(CompareOps, FindsNoFaultWhereThereIsNone) {
  const OpComparison result = compare_with_fault("none", 1);
  EXPECT_FALSE(result.first_exceeding.has_value())
      << result.first_exceeding->op << " layer " << result.first_exceeding->layer;
  ASSERT_TRUE(result.worst.has_value());
  EXPECT_GT(result.worst->excess(), 0);
  EXPECT_GT(result.route_flips.rows, 0);
  EXPECT_EQ(result.route_flips.flipped, 0);
}

TEST(CompareOps, NamesTheLayerAndOpThatIsWrong) {
  const int kda = first_layer(MixerKind::kKda), mla = first_layer(MixerKind::kMla);
  const std::vector<std::pair<std::string, int>> faults = {
      {"kda_mix", kda},    {"linear", kda},      {"mix_norm", kda},   {"glu_mlp", kda},
      {"expert_mlp", kda}, {"mla_prefill", mla}, {"mla_decode", mla}, {"route", kda}};
  for (const auto& [op, layer] : faults) {
    const OpComparison result = compare_with_fault(op, layer);
    ASSERT_TRUE(result.first_exceeding.has_value()) << op;
    EXPECT_EQ(result.first_exceeding->op, op);
    EXPECT_EQ(result.first_exceeding->layer, layer) << op;
  }
}

TEST(CompareOps, AFaultInTheStateIsSeenWhereItArises) {
  const int layer = first_layer(MixerKind::kKda);
  const OpComparison result = compare_with_fault("kda state", layer);
  ASSERT_TRUE(result.first_exceeding.has_value());
  EXPECT_EQ(result.first_exceeding->op, "kda_mix");
  EXPECT_EQ(result.first_exceeding->output, "state");
  EXPECT_EQ(result.first_exceeding->layer, layer);
}

TEST(CompareOps, AFaultDoesNotSpreadToLaterOps) {
  // Every op sees the first backend's values, so only the faulty one may exceed its tolerance.
  const auto good =
      make_cpu_backend({.activations = Activations::kF32, .num_threads = 1, .isa = {}});
  const int layer = first_layer(MixerKind::kKda);
  FaultyBackend bad(make_reference_backend(Activations::kF32), "kda_mix", layer);
  CompareBackend backend(*good, bad);
  const Model forward(model().config, model().weights);
  SequenceState state(backend, model().config);
  Workspace workspace(backend, model().config, 64);
  state.reserve_slots(1);
  state.reserve_pages(1);
  const auto ids = tokens(40);
  const std::vector<std::int32_t> pages = {0};
  const SequenceRows rows{.first_row = 0,
                          .num_rows = 40,
                          .start_pos = 0,
                          .state_slot = 0,
                          .boundary_slot = -1,
                          .origin = Origin::kPrompt,
                          .pages = pages};
  forward.forward(backend, {ids, {&rows, 1}}, state, workspace);
  int exceeding = 0;
  for (const OpDifference& difference : backend.differences()) {
    exceeding += difference.excess() > 1;
  }
  EXPECT_EQ(exceeding, 1);
}

// Memory that only a device can read.
class DeviceMemory final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  bool uses_host_memory() const override { return false; }
};

TEST(Compare, RefusesABackendOfDeviceMemory) {
  const auto host = make_reference_backend(Activations::kF32);
  DeviceMemory device(*host);
  ASSERT_EQ(device.activation_dtype(), DType::kF32);
  const auto ids = tokens(3);
  for (const auto& [first, second] : {std::pair<Backend*, Backend*>(host.get(), &device),
                                      std::pair<Backend*, Backend*>(&device, host.get())}) {
    try {
      compare_ops(model(), *first, *second, ids, {});
      FAIL() << "device memory was read";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInternal);
      EXPECT_THAT(error.what(), ::testing::HasSubstr("not compute on memory of the host"));
    }
  }
}

TEST(MemoryBandwidth, IsPlausible) {
  const double rate = measure_read_bandwidth({}, 1, std::int64_t{8} << 20);
  EXPECT_GT(rate, 2e8);
  EXPECT_LT(rate, 5e12);
  const double update = measure_update_bandwidth({}, 1, std::int64_t{8} << 20);
  EXPECT_GT(update, 2e8);
  EXPECT_LT(update, 5e12);
}

}  // namespace
}  // namespace baltoro
