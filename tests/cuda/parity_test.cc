// Every op of the CUDA backend against the reference backend over the shared case list: fresh
// inputs, poisoned outputs, guarded regions.
#include <gtest/gtest.h>

#include "cuda/backend.h"
#include "cuda/gpu.h"
#include "ops/parity/cases.h"
#include "ops/parity/compare.h"
#include "ops/reference/reference_backend.h"

namespace baltoro {
namespace {

struct Setting {
  std::string op;
  Activations activations;
  bool deterministic;
};

std::string name_of(const Setting& setting) {
  return setting.op + (setting.activations == Activations::kF32 ? "_f32" : "_bf16") +
         (setting.deterministic ? "_deterministic" : "");
}

std::ostream& operator<<(std::ostream& out, const Setting& setting) {
  return out << name_of(setting);
}

std::vector<Setting> all_settings() {
  std::vector<Setting> settings;
  for (const char* op : {"embed", "linear", "head", "mix_norm", "glu_mlp", "route", "expert_mlp",
                         "kda_mix", "mla"}) {
    for (const Activations activations : {Activations::kF32, Activations::kBf16}) {
      for (const bool deterministic : {false, true}) {
        settings.push_back({op, activations, deterministic});
      }
    }
  }
  return settings;
}

std::string setting_name(const testing::TestParamInfo<Setting>& info) {
  return name_of(info.param);
}

class CudaParity : public testing::TestWithParam<Setting> {};

TEST_P(CudaParity, EveryCaseAgreesWithTheReference) {
  BALTORO_NEEDS_GPU();
  const auto reference = make_reference_backend(GetParam().activations);
  const auto cuda = make_cuda_backend(
      {.activations = GetParam().activations, .deterministic = GetParam().deterministic});
  int tried = 0;
  for (const OpCase& op_case : op_cases()) {
    if (op_case.op != GetParam().op) continue;
    ++tried;
    EXPECT_EQ(check_parity(op_case, *reference, *cuda), "");
  }
  EXPECT_GT(tried, 0);
}

TEST(CudaParityOfBf16States, EveryCaseAgreesWithTheReference) {
  BALTORO_NEEDS_GPU();
  for (const Activations activations : {Activations::kF32, Activations::kBf16}) {
    const auto reference = make_reference_backend(activations);
    const auto cuda = make_cuda_backend({.activations = activations});
    for (const OpCase& op_case : bf16_state_cases()) {
      EXPECT_EQ(check_parity(op_case, *reference, *cuda), "");
    }
  }
}

TEST(CudaParityOfFp8Experts, EveryCaseAgreesWithTheReference) {
  BALTORO_NEEDS_GPU();
  for (const Activations activations : {Activations::kF32, Activations::kBf16}) {
    const auto reference = make_reference_backend(activations);
    const auto cuda = make_cuda_backend({.activations = activations});
    for (const OpCase& op_case : fp8_expert_cases()) {
      EXPECT_EQ(check_parity(op_case, *reference, *cuda), "");
    }
  }
}

TEST(CudaParityOfFp8Latents, EveryCaseAgreesWithTheReference) {
  BALTORO_NEEDS_GPU();
  for (const Activations activations : {Activations::kF32, Activations::kBf16}) {
    const auto reference = make_reference_backend(activations);
    const auto cuda = make_cuda_backend({.activations = activations});
    for (const OpCase& op_case : fp8_latent_cases()) {
      EXPECT_EQ(check_parity(op_case, *reference, *cuda), "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, CudaParity, testing::ValuesIn(all_settings()), setting_name);

}  // namespace
}  // namespace baltoro
