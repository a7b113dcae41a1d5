// The choice of an instruction set: what is asked for is used or refused, never replaced.
#include <gtest/gtest.h>

#include <cstdlib>

#include "baltoro/error.h"
#include "cpu/backend.h"

namespace baltoro {
namespace {

class CpuDispatch : public testing::Test {
 protected:
  void SetUp() override { unsetenv("BALTORO_ISA"); }
  void TearDown() override { unsetenv("BALTORO_ISA"); }

  static ErrorCode code_of(const CpuOptions& options) {
    try {
      make_cpu_backend(options);
    } catch (const Error& error) {
      return error.code();
    }
    ADD_FAILURE() << "no error";
    return ErrorCode::kInternal;
  }
};

TEST_F(CpuDispatch, EverySupportedNameIsHonoured) {
  for (const std::string& isa : supported_isas()) {
    EXPECT_EQ(make_cpu_backend({Activations::kF32, 1, isa})->name(), "cpu/" + isa);
    setenv("BALTORO_ISA", isa.c_str(), 1);
    EXPECT_EQ(make_cpu_backend({Activations::kF32, 1, {}})->name(), "cpu/" + isa);
  }
}

TEST_F(CpuDispatch, TheBestIsTheDefaultAndTheOptionBeatsTheEnvironment) {
  EXPECT_EQ(make_cpu_backend({Activations::kF32, 1, {}})->name(), "cpu/" + supported_isas().back());
  setenv("BALTORO_ISA", "nonsense", 1);
  EXPECT_EQ(make_cpu_backend({Activations::kF32, 1, "scalar"})->name(), "cpu/scalar");
}

TEST_F(CpuDispatch, UnknownAndUnsupportedAreDifferentErrors) {
  EXPECT_EQ(code_of({Activations::kF32, 1, "avx3"}), ErrorCode::kUsage);
  setenv("BALTORO_ISA", "sse", 1);
  EXPECT_EQ(code_of({Activations::kF32, 1, {}}), ErrorCode::kUsage);
  const std::vector<std::string> isas = supported_isas();
  for (const std::string isa : {"neon", "avx2", "avx512", "avx512bf16", "amx"}) {
    if (std::find(isas.begin(), isas.end(), isa) != isas.end()) continue;
    EXPECT_EQ(code_of({Activations::kF32, 1, isa}), ErrorCode::kUnsupported) << isa;
  }
}

TEST_F(CpuDispatch, ThreadCounts) {
  EXPECT_EQ(code_of({Activations::kF32, -1, {}}), ErrorCode::kUsage);
  EXPECT_GE(make_cpu_backend({})->num_threads(), 1);
  EXPECT_EQ(make_cpu_backend({Activations::kF32, 3, {}})->num_threads(), 3);
}

}  // namespace
}  // namespace baltoro
