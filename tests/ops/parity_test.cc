// The parity harness: the case list is sound on the reference, and a wrong backend is caught.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "op_test_util.h"
#include "ops/embed.h"
#include "ops/expert_mlp.h"
#include "ops/forwarding_backend.h"
#include "ops/head.h"
#include "ops/linear.h"
#include "ops/mix_norm.h"
#include "ops/parity/cases.h"
#include "ops/parity/compare.h"
#include "ops/route.h"

namespace baltoro {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(CaseList, NamesAreUniqueAndEveryOpIsThere) {
  std::set<std::string> names, ops;
  for (const OpCase& c : op_cases()) {
    EXPECT_TRUE(names.insert(c.op + " " + c.name).second) << c.op << " " << c.name;
    ops.insert(c.op);
  }
  EXPECT_EQ(ops, (std::set<std::string>{"embed", "linear", "head", "mix_norm", "kda_mix", "mla",
                                        "glu_mlp", "route", "expert_mlp"}));
}

bool has_poisoned_row(const OpCase& c) {
  return c.name.find("non-finite") != std::string::npos ||
         c.name.find("NaN row") != std::string::npos;
}

// Unused slots, pages and rows hold NaN: a finite result proves that nothing was read there. Inputs
// and guards stay as they were.
TEST(CaseList, ReferenceReadsNothingPoisonedAndWritesNothingElse) {
  for (const auto& backend : {test::reference_f32(), test::reference_bf16()}) {
    std::vector<OpCase> cases = op_cases();
    for (OpCase& c : bf16_state_cases()) cases.push_back(std::move(c));
    for (OpCase& c : fp8_expert_cases()) cases.push_back(std::move(c));
    for (OpCase& c : fp8_latent_cases()) cases.push_back(std::move(c));
    for (const OpCase& c : cases) {
      SCOPED_TRACE(c.op + " " + c.name);
      PreparedOp prepared = c.prepare(*backend);
      prepared.run();
      EXPECT_EQ(prepared.damage(), std::nullopt);
      if (has_poisoned_row(c)) continue;
      for (const OpOutput& output : prepared.outputs()) {
        if (output.name == "state" || output.name == "conv" || output.name == "cache") continue;
        for (const float value : output.values) ASSERT_TRUE(std::isfinite(value)) << output.name;
      }
    }
  }
}

TEST(CaseList, SlotsWithoutASequenceKeepTheirNans) {
  const auto backend = test::reference_f32();
  KdaCase spec;
  spec.shape = {2, 4, 4, 2, false};
  spec.batch = {{70, 0, Origin::kPrompt, true}, {1, 3, Origin::kGenerated, false}};
  PreparedOp prepared = make_case(spec).prepare(*backend);
  prepared.run();
  const std::vector<OpOutput> outputs = prepared.outputs();
  const OpOutput& state = outputs[0];
  ASSERT_EQ(state.name, "state");
  // Slots 3 and 2 are the first sequence's state and boundary, slot 1 the second's state.
  for (std::size_t slot = 0; slot < 5; ++slot) {
    const bool used = slot == 1 || slot == 2 || slot == 3;
    EXPECT_EQ(std::isnan(state.values[slot * 32]), !used) << slot;
  }
}

TEST(CaseList, CostsAreThere) {
  const auto backend = test::reference_f32();
  for (const OpCase& c : op_cases()) {
    const Cost cost = c.prepare(*backend).cost();
    EXPECT_GT(cost.activation_bytes, 0) << c.op;
    EXPECT_EQ(cost.flops > 0, c.op != "embed") << c.op;
  }
}

// The reference with one fault in the op of that name.
class FaultyBackend : public ForwardingBackend {
 public:
  enum class Fault { kNone, kOffByALittle, kNan, kOverrun, kInputChanged, kSkipsLastRow };

  FaultyBackend(Activations activations, Fault fault)
      : FaultyBackend(make_reference_backend(activations), fault) {}

  std::string_view name() const override { return "faulty"; }
  void embed(const EmbedArgs& args) override {
    inner_->embed(args);
    spoil(args.out);
  }
  void linear(const LinearArgs& args) override {
    inner_->linear(args);
    spoil(args.outputs[0].out);
    if (fault_ == Fault::kInputChanged) const_cast<float*>(args.x.f32())[0] += 1;
  }
  void mix_norm(const MixNormArgs& args) override {
    inner_->mix_norm(args);
    spoil(args.out);
  }
  void kda_mix(const KdaMixArgs& args) override {
    inner_->kda_mix(args);
    spoil(args.out);
  }
  void mla_decode(const MlaArgs& args) override {
    inner_->mla_decode(args);
    spoil(args.out);
  }
  void glu_mlp(const GluMlpArgs& args) override {
    inner_->glu_mlp(args);
    spoil(args.out);
  }
  void route(const RouteArgs& args) override {
    inner_->route(args);
    spoil({args.weights, DType::kF32, {args.x.rows(), args.top_k}});
  }
  void expert_mlp(const ExpertMlpArgs& args) override {
    inner_->expert_mlp(args);
    spoil(args.out);
  }
  void head(const HeadArgs& args) override {
    inner_->head(args);
    spoil({args.logits,
           DType::kF32,
           {static_cast<std::int64_t>(args.rows.size()), args.weight.rows}});
  }

 private:
  FaultyBackend(std::unique_ptr<Backend> inner, Fault fault)
      : ForwardingBackend(*inner), inner_(std::move(inner)), fault_(fault) {}

  void spoil(const TensorView& out) const {
    float* values = out.f32();
    const std::int64_t n = out.shape.count();
    if (fault_ == Fault::kOffByALittle) {
      const float largest = *std::max_element(
          values, values + n, [](float a, float b) { return std::fabs(a) < std::fabs(b); });
      values[n / 2] += 0.1f * largest;
    }
    if (fault_ == Fault::kNan) values[n - 1] = test::kNan;
    if (fault_ == Fault::kOverrun) values[n] = 0;
    if (fault_ == Fault::kSkipsLastRow) std::fill(values + n - out.cols(), values + n, test::kNan);
  }

  std::unique_ptr<Backend> inner_;
  Fault fault_;
};

using Fault = FaultyBackend::Fault;

// The first `count` cases of each op.
std::vector<OpCase> some_cases(int count) {
  std::vector<OpCase> list;
  std::map<std::string, int> taken;
  for (const OpCase& c : op_cases()) {
    if (taken[c.op]++ < count) list.push_back(c);
  }
  return list;
}

TEST(ParityHarness, TheReferenceAgreesWithItself) {
  for (const Activations activations : {Activations::kF32, Activations::kBf16}) {
    const auto reference = make_reference_backend(activations);
    FaultyBackend same(activations, Fault::kNone);
    for (const OpCase& c : some_cases(6)) EXPECT_THAT(check_parity(c, *reference, same), IsEmpty());
  }
}

TEST(ParityHarness, EveryOpsFaultIsCaught) {
  for (const Activations activations : {Activations::kF32, Activations::kBf16}) {
    const auto reference = make_reference_backend(activations);
    for (const Fault fault :
         {Fault::kOffByALittle, Fault::kNan, Fault::kOverrun, Fault::kSkipsLastRow}) {
      FaultyBackend faulty(activations, fault);
      for (const OpCase& c : some_cases(3)) {
        EXPECT_FALSE(check_parity(c, *reference, faulty).empty())
            << c.op << " " << c.name << " fault " << static_cast<int>(fault);
      }
    }
  }
}

TEST(ParityHarness, AChangedInputIsNamed) {
  const auto reference = test::reference_f32();
  FaultyBackend faulty(Activations::kF32, Fault::kInputChanged);
  EXPECT_THAT(check_parity(make_case(LinearCase{2, 8, {4}}), *reference, faulty),
              HasSubstr("x: input changed"));
}

TEST(Agreement, NonFinitePositionsMustMatch) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> a = {1, test::kNan, inf, -2};
  EXPECT_EQ(compare_values(a, a).non_finite_mismatches, 0);
  EXPECT_EQ(compare_values(a, {1, 0, inf, -2}).non_finite_mismatches, 1);
  EXPECT_EQ(compare_values(a, {1, test::kNan, -inf, test::kNan}).non_finite_mismatches, 2);
  const Agreement off = compare_values(a, {1.5f, test::kNan, inf, -2});
  EXPECT_DOUBLE_EQ(off.max_abs, 0.5);
  EXPECT_DOUBLE_EQ(off.max_rel, 0.25);
  EXPECT_NEAR(off.cosine, (1.5 + 4) / std::sqrt(5 * 6.25), 1e-12);
}

TEST(Agreement, AnAllZeroReferenceAllowsNoError) {
  EXPECT_GT(compare_values({0, 0}, {0, 1e-6f}).max_rel, 1);
  EXPECT_LT(compare_values({0, 0}, {0, 1e-6f}).cosine, 0.5);
  EXPECT_EQ(compare_values({0, 0}, {0, 0}).max_rel, 0);
}

}  // namespace
}  // namespace baltoro
