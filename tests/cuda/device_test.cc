// A device that is not there is a clear error, in builds with and without CUDA.
#include <gtest/gtest.h>

#include "baltoro/error.h"
#include "cuda/backend.h"

namespace baltoro {
namespace {

TEST(CudaDevice, MissingOneIsNamedWithARemedy) {
  const int missing = num_cuda_devices();
  try {
    make_cuda_backend({.device = missing});
    FAIL() << "a backend on a missing device";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("device cuda:" + std::to_string(missing)),
              std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find("cpu"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace baltoro
