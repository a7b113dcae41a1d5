// Experts computed apart from the other ops give what one backend gives. Two CPU backends stand for
// device and host; on a GPU the tests of tests/cuda repeat it.
#include "engine/host_experts.h"

#include <gtest/gtest.h>

#include "cpu/backend.h"
#include "ops/parity/cases.h"
#include "ops/parity/compare.h"
#include "ops/reference/reference_backend.h"

namespace baltoro {
namespace {

class HostExperts : public testing::TestWithParam<Activations> {};

TEST_P(HostExperts, AgreeWithTheReference) {
  const CpuOptions options{.activations = GetParam(), .num_threads = 2, .isa = std::nullopt};
  const auto reference = make_reference_backend(GetParam());
  const auto both = make_host_experts(make_cpu_backend(options), make_cpu_backend(options));
  EXPECT_NE(both->name().find("experts"), std::string_view::npos);
  for (const OpCase& op_case : op_cases()) EXPECT_EQ(check_parity(op_case, *reference, *both), "");
}

INSTANTIATE_TEST_SUITE_P(Activations, HostExperts,
                         testing::Values(Activations::kF32, Activations::kBf16));

}  // namespace
}  // namespace baltoro
