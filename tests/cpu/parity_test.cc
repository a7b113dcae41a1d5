// Every op of every instruction set that this machine runs, against the reference backend over the
// shared case list. Guards the class "a leaf table computes something else".
#include <gtest/gtest.h>

#include "cpu/backend.h"
#include "ops/parity/cases.h"
#include "ops/parity/compare.h"
#include "ops/reference/reference_backend.h"

namespace baltoro {
namespace {

const std::vector<std::string> kAllIsas = {"scalar", "neon", "avx2", "avx512", "avx512bf16", "amx"};

bool supported(const std::string& isa) {
  const std::vector<std::string> isas = supported_isas();
  return std::find(isas.begin(), isas.end(), isa) != isas.end();
}

struct Setting {
  std::string isa;
  Activations activations;
};

std::vector<Setting> all_settings() {
  std::vector<Setting> settings;
  for (const std::string& isa : kAllIsas) {
    settings.push_back({isa, Activations::kF32});
    settings.push_back({isa, Activations::kBf16});
  }
  return settings;
}

std::string setting_name(const testing::TestParamInfo<Setting>& info) {
  return info.param.isa + (info.param.activations == Activations::kF32 ? "_f32" : "_bf16");
}

class CpuParity : public testing::TestWithParam<Setting> {};

TEST_P(CpuParity, EveryCaseAgreesWithTheReference) {
  if (!supported(GetParam().isa)) GTEST_SKIP() << "this machine has no " << GetParam().isa;
  const auto reference = make_reference_backend(GetParam().activations);
  const auto cpu = make_cpu_backend({GetParam().activations, 2, GetParam().isa});
  EXPECT_EQ(cpu->name(), "cpu/" + GetParam().isa);
  for (const OpCase& op_case : op_cases()) {
    EXPECT_EQ(check_parity(op_case, *reference, *cpu), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, CpuParity, testing::ValuesIn(all_settings()), setting_name);

}  // namespace
}  // namespace baltoro
