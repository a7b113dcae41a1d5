// Tests that need a GPU skip without one; with BALTORO_REQUIRE_GPU=1 they fail instead.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>

#include "cuda/backend.h"

#define BALTORO_NEEDS_GPU()                                                       \
  do {                                                                            \
    if (num_cuda_devices() == 0) {                                                \
      if (std::getenv("BALTORO_REQUIRE_GPU") != nullptr) FAIL() << "no GPU here"; \
      GTEST_SKIP() << "this build or this machine has no GPU";                    \
    }                                                                             \
  } while (false)
