// Ops through copies are the ops themselves: every value that they read arrives, and every value that
// they write comes back.
#include "measure/hosted_backend.h"

#include <gtest/gtest.h>

#include <vector>

#include "measure/compare.h"
#include "ops/parity/cases.h"
#include "ops/parity/compare.h"
#include "ops/reference/reference_backend.h"
#include "paths.h"

namespace baltoro {
namespace {

TEST(HostedBackend, EveryCaseOfEveryOpKeepsItsBits) {
  const auto plain = make_reference_backend(Activations::kBf16);
  int tried = 0;
  for (const OpCase& op_case : op_cases()) {
    // Of its own: weights of the next case may lie where those of this one did.
    HostedBackend hosted(make_reference_backend(Activations::kBf16));
    EXPECT_EQ(check_parity(op_case, *plain, hosted), "");
    ++tried;
  }
  EXPECT_GT(tried, 0);
}

TEST(HostedBackend, AModelComparesAsEqualOpByOp) {
  for (const char* name : {"k3", "kimi_linear", "gqa"}) {
    const LoadedModel loaded = load_model(test_data_dir() / "fixtures" / name);
    const auto plain = make_reference_backend(Activations::kBf16);
    HostedBackend hosted(make_reference_backend(Activations::kBf16));
    const std::vector<TokenId> prompt(70, 5), generated(3, 7);
    const OpComparison result = compare_ops(loaded, *plain, hosted, prompt, generated);
    ASSERT_TRUE(result.worst.has_value()) << name;
    EXPECT_EQ(result.worst->excess(), 0) << name << ": " << result.worst->op;
    EXPECT_EQ(result.route_flips.flipped, 0) << name;
  }
}

}  // namespace
}  // namespace baltoro
