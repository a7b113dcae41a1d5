#include "ops/head.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "ops/parity/memory.h"
#include "ops/reference/reference_backend.h"

namespace baltoro {
namespace {

TEST(Head, MarksTheRowsWhoseLogitsAreNotAllFinite) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto backend = make_reference_backend(Activations::kF32);
  OpMemory memory(*backend);
  constexpr std::int64_t kWidth = 8, kVocab = 11;
  std::vector<float> x = random_values(1, "x", 4 * kWidth, 1);
  x[1 * kWidth + 3] = kNan;
  x[3 * kWidth] = -kInfinity;
  const std::vector<std::int32_t> rows = {0, 1, 2, 3, 0};
  std::vector<float> logits(rows.size() * kVocab);
  std::vector<std::int32_t> bad(rows.size(), 7);
  head(*backend, {.x = memory.input("x", x, kWidth),
                  .rows = rows,
                  .weight = memory.weight(1, "weight", WeightFormat::kBf16, kVocab, kWidth),
                  .logits = logits.data(),
                  .bad = bad.data()});
  EXPECT_EQ(bad, (std::vector<std::int32_t>{0, 1, 0, 1, 0}));
}

}  // namespace
}  // namespace baltoro
