// The op entries refuse broken arguments before a kernel sees them: shapes, types, aliases,
// batches, slots, pages, ids.
#include "ops/arg_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "op_test_util.h"
#include "ops/embed.h"
#include "ops/expert_mlp.h"
#include "ops/head.h"
#include "ops/kda.h"
#include "ops/linear.h"
#include "ops/mix_norm.h"
#include "ops/mla.h"
#include "ops/route.h"

namespace baltoro {
namespace {

using test::error_of;
using test::Floats;
using ::testing::HasSubstr;

TEST(TokenIds, OutsideTheVocabularyAreAUsageErrorThatNamesThem) {
  const Floats table(12, 1.0f);
  Floats out(8);
  for (const std::int32_t bad : {3, 163840, -1}) {
    const std::int32_t ids[] = {2, bad};
    const std::string message = error_of(
        [&] {
          embed(*test::reference_f32(),
                {test::f32_weight(table, 4), ids, test::mutable_view(out, 4)});
        },
        ErrorCode::kUsage);
    EXPECT_THAT(message, HasSubstr("token id " + std::to_string(bad) + " at row 1"));
    EXPECT_THAT(message, HasSubstr("[0, 3)"));
  }
  EXPECT_EQ(out, Floats(8)) << "nothing is computed before all ids are checked";
}

// Arguments of every op that are right; a test breaks one at a time.
struct ValidLinear {
  Floats x = Floats(6, 1.0f), weight = Floats(12, 1.0f), out = Floats(8);
  LinearArgs args;
  ValidLinear() {
    args.layer = 7;
    args.x = test::view(x, 3);
    args.add(test::f32_weight(weight, 3), test::mutable_view(out, 4));
  }
  void run() const { linear(*test::reference_f32(), args); }
};

std::string linear_error(const std::function<void(ValidLinear&)>& breaks) {
  ValidLinear valid;
  valid.run();
  breaks(valid);
  return error_of([&] { valid.run(); }, ErrorCode::kInternal);
}

TEST(LinearArguments, ShapesAndTypes) {
  EXPECT_THAT(linear_error([](auto& v) {
                v.args.outputs[0].out.shape = {2, 3};
              }),
              HasSubstr("linear (layer 7): out: expected F32 [2, 4], found F32 [2, 3]"));
  EXPECT_THAT(linear_error([](auto& v) { v.args.outputs[0].weight.cols = 4; }),
              HasSubstr("expected a weight [4, 3], found [4, 4]"));
  EXPECT_THAT(linear_error([](auto& v) { v.args.x.dtype = DType::kBf16; }),
              HasSubstr("x: expected F32 [2, 3], found BF16 [2, 3]"));
  EXPECT_THAT(linear_error([](auto& v) { v.args.outputs[0].weight.data = nullptr; }),
              HasSubstr("has no data"));
  EXPECT_THAT(linear_error([](auto& v) { v.args.num_outputs = 0; }), HasSubstr("1 to 8 outputs"));
}

TEST(LinearArguments, Aliases) {
  EXPECT_THAT(linear_error([](auto& v) { v.args.outputs[0].out.data = v.x.data() + 5; }),
              HasSubstr("out overlaps x"));
  EXPECT_THAT(linear_error([](auto& v) {
                v.args.add(test::f32_weight(v.weight, 3), test::mutable_view(v.out, 4));
              }),
              HasSubstr("out overlaps another out"));
}

TEST(LinearArguments, GroupedFormatsNeedScalesAndWholeGroups) {
  EXPECT_THAT(linear_error([](auto& v) { v.args.outputs[0].weight.format = WeightFormat::kMxfp4; }),
              HasSubstr("the MXFP4 weight has no scales"));
  EXPECT_THAT(
      linear_error([](auto& v) { v.args.outputs[0].weight.format = WeightFormat::kMxint8; }),
      HasSubstr("the MXINT8 weight has no scales"));
  static const std::uint8_t scale = 127;
  EXPECT_THAT(linear_error([](auto& v) {
                v.args.outputs[0].weight.format = WeightFormat::kMxfp4;
                v.args.outputs[0].weight.scales = &scale;
              }),
              HasSubstr("whole groups of 32 columns"));
}

TEST(MixNormArguments, BankedPrefixMayNotBeTheOneThatIsUpdated) {
  Floats a(4, 1.0f), b(4, 1.0f), out(4);
  const Floats weights(4, 1.0f);
  MixNormArgs args;
  args.prefix = test::mutable_view(a, 4);
  const ConstTensorView bank[] = {test::view(a, 4)};
  args.bank = bank;
  args.res_norm = args.res_proj = args.norm = weights.data();
  args.out = test::mutable_view(out, 4);
  const auto backend = test::reference_f32();
  mix_norm(*backend, args);
  args.delta = test::view(b, 4);
  EXPECT_THAT(error_of([&] { mix_norm(*backend, args); }, ErrorCode::kInternal),
              HasSubstr("the updated prefix overlaps a bank source"));
  args.delta = {};
  args.out = test::mutable_view(a, 4);
  EXPECT_THAT(error_of([&] { mix_norm(*backend, args); }, ErrorCode::kInternal),
              HasSubstr("out overlaps prefix"));
  args.out = test::mutable_view(out, 4);
  args.res_proj = nullptr;
  EXPECT_THAT(error_of([&] { mix_norm(*backend, args); }, ErrorCode::kInternal),
              HasSubstr("res_proj"));
}

TEST(RouteArguments, TopKWithinTheExperts) {
  const Floats x(2, 1.0f), weight(6, 1.0f), bias(3, 0.0f);
  std::int32_t ids[4];
  float weights[4];
  RouteArgs args;
  args.x = test::view(x, 2);
  args.weight = test::f32_weight(weight, 2);
  args.bias = bias.data();
  args.ids = ids;
  args.weights = weights;
  for (const int top_k : {0, 4}) {
    args.top_k = top_k;
    EXPECT_THAT(error_of([&] { route(*test::reference_f32(), args); }, ErrorCode::kInternal),
                HasSubstr("top_k in [1, experts]"));
  }
}

TEST(HeadArguments, RowsWithinTheBatch) {
  const Floats x(4, 1.0f), weight(6, 1.0f);
  float logits[3];
  const std::int32_t row = 2;
  EXPECT_THAT(error_of(
                  [&] {
                    head(*test::reference_f32(),
                         {test::view(x, 2), {&row, 1}, test::f32_weight(weight, 2), logits});
                  },
                  ErrorCode::kInternal),
              HasSubstr("row 2 of a batch of 2"));
}

SequenceRows rows(std::int64_t first, std::int64_t count, std::int32_t slot) {
  SequenceRows sequence;
  sequence.first_row = first;
  sequence.num_rows = count;
  sequence.state_slot = slot;
  return sequence;
}

std::string batch_error(std::vector<SequenceRows> sequences, std::size_t num_rows) {
  const std::vector<std::int32_t> ids(num_rows, 0);
  return error_of([&] { ArgCheck("op", 3).batch({ids, sequences}); }, ErrorCode::kInternal);
}

TEST(BatchRows, ConsecutiveAndCovering) {
  const std::vector<std::int32_t> ids(6, 0);
  const std::vector<SequenceRows> good = {rows(0, 5, 0), rows(5, 1, 1)};
  ArgCheck("op", 3).batch({ids, good});
  ArgCheck("op", 3).batch({});
  EXPECT_THAT(batch_error({rows(0, 5, 0), rows(4, 2, 1)}, 6), HasSubstr("sequence 1"));
  EXPECT_THAT(batch_error({rows(0, 5, 0), rows(6, 1, 1)}, 7), HasSubstr("from row 5 on"));
  EXPECT_THAT(batch_error({rows(0, 5, 0)}, 6), HasSubstr("cover 5 rows, the batch has 6"));
  EXPECT_THAT(batch_error({rows(0, 0, 0), rows(0, 6, 1)}, 6), HasSubstr("at least one row"));
  SequenceRows early = rows(0, 6, 0);
  early.start_pos = -1;
  EXPECT_THAT(batch_error({early}, 6), HasSubstr("position -1"));
}

std::string slot_error(const std::vector<SequenceRows>& sequences, std::int64_t slots) {
  return error_of([&] { ArgCheck("op", 3).slots({{}, sequences}, slots); }, ErrorCode::kInternal);
}

TEST(StateSlots, InRangeAndDistinctAcrossTheWholePool) {
  std::vector<SequenceRows> good;
  for (std::int32_t i = 0; i < 700; ++i) good.push_back(rows(i, 1, (i * 37) % 20011));
  ArgCheck("op", 3).slots({{}, good}, 20011);
  EXPECT_THAT(slot_error({rows(0, 1, 0), rows(1, 1, 5)}, 5), HasSubstr("state slot 5"));
  EXPECT_THAT(slot_error({rows(0, 1, -1)}, 5), HasSubstr("state slot -1"));
  EXPECT_THAT(slot_error({rows(0, 1, 3), rows(1, 1, 1), rows(2, 1, 3)}, 5),
              HasSubstr("slot 3 is used twice"));
  for (const std::int32_t slot : {8191, 8192, 20010}) {
    good[13].state_slot = slot;
    good[699].state_slot = slot;
    EXPECT_THAT(slot_error(good, 20011), HasSubstr("slot " + std::to_string(slot) + " is used"));
  }
}

TEST(StateSlots, BoundarySlotIsDistinctAndForPromptsOnly) {
  SequenceRows sequence = rows(0, 1, 2);
  sequence.boundary_slot = 2;
  EXPECT_THAT(slot_error({sequence}, 5), HasSubstr("slot 2 is used twice"));
  sequence.boundary_slot = 5;
  EXPECT_THAT(slot_error({sequence}, 5), HasSubstr("boundary slot 5"));
  sequence.boundary_slot = 1;
  sequence.origin = Origin::kGenerated;
  EXPECT_THAT(slot_error({sequence}, 5), HasSubstr("boundary slot for prompts only"));
}

TEST(CachePages, EnoughAndInRangeForTheServedOrigin) {
  const std::vector<std::int32_t> pages = {0, 3, 1};
  SequenceRows sequence = rows(0, 2, 0);
  sequence.start_pos = 127;
  sequence.pages = pages;
  const auto check = [&](std::int64_t num_pages, Origin origin) {
    ArgCheck("op", 3).pages({{}, {&sequence, 1}}, origin, num_pages);
  };
  check(4, Origin::kPrompt);
  EXPECT_THAT(error_of([&] { check(3, Origin::kPrompt); }, ErrorCode::kInternal),
              HasSubstr("page 3 is outside the pool of 3 pages"));
  check(3, Origin::kGenerated);
  sequence.pages = sequence.pages.first(2);
  EXPECT_THAT(error_of([&] { check(4, Origin::kPrompt); }, ErrorCode::kInternal),
              HasSubstr("129 tokens need 3 pages of 64, found 2"));
}

TEST(KdaArguments, RefusedBeforeAnyStateIsTouched) {
  const KdaShape shape{1, 2, 2, 2, false};
  const Floats in(2, 1.0f), weights(4, 1.0f);
  Floats out(2), state(4, 5.0f), conv(6, 5.0f);
  const std::int32_t id = 0;
  SequenceRows sequence = rows(0, 1, 0);
  KdaMixArgs args;
  args.shape = shape;
  args.batch = {{&id, 1}, {&sequence, 1}};
  args.q = args.k = args.v = args.decay_logits = test::view(in, 2);
  args.beta_logits = {in.data(), DType::kF32, {1, 1}};
  args.q_conv = args.k_conv = args.v_conv = weights.data();
  args.a_log = args.dt_bias = args.o_norm = weights.data();
  args.pool = {state.data(), conv.data(), 1};
  args.out = test::mutable_view(out, 2);
  const auto fails = [&](KdaMixArgs broken) {
    return error_of([&] { kda_mix(*test::reference_f32(), broken); }, ErrorCode::kInternal);
  };
  KdaMixArgs broken = args;
  broken.gate_lower_bound = -5.5f;
  EXPECT_THAT(fails(broken), HasSubstr("gate_lower_bound in [-5, 0)"));
  broken = args;
  broken.shape.decay_per_head = true;
  EXPECT_THAT(fails(broken), HasSubstr("decay_logits: expected F32 [1, 1], found F32 [1, 2]"));
  broken = args;
  broken.out.data = const_cast<float*>(in.data());
  EXPECT_THAT(fails(broken), HasSubstr("out overlaps an input"));
  broken = args;
  broken.pool.conv = nullptr;
  EXPECT_THAT(fails(broken), HasSubstr("conv pool"));
  broken = args;
  broken.pool.num_slots = 0;
  EXPECT_THAT(fails(broken), HasSubstr("state slot 0"));
  sequence.num_rows = 0;
  EXPECT_THAT(fails(args), HasSubstr("at least one row"));
  EXPECT_EQ(state, Floats(4, 5.0f));
  sequence.num_rows = 1;
  kda_mix(*test::reference_f32(), args);
  EXPECT_NE(state, Floats(4, 5.0f));
}

TEST(MlaArguments, KindsAndTheirShapes) {
  const auto shape_error = [](MlaShape shape, std::optional<float> theta = {}) {
    MlaArgs args;
    args.layer = 2;
    args.shape = shape;
    args.rope_theta = theta;
    return error_of([&] { mla_prefill(*test::reference_f32(), args); }, ErrorCode::kInternal);
  };
  EXPECT_THAT(shape_error({MlaKind::kMqa, 2, 0, 4, 0, 4, 8}), HasSubstr("of the latent's width"));
  EXPECT_THAT(shape_error({MlaKind::kGqa, 6, 4, 4, 0, 4, 0}), HasSubstr("divides the heads"));
  EXPECT_THAT(shape_error({MlaKind::kGqa, 6, 3, 4, 2, 4, 0}), HasSubstr("no side branch"));
  EXPECT_THAT(shape_error({MlaKind::kLatent, 6, 0, 4, 3, 4, 8}, 1e4f), HasSubstr("even rope_dim"));
  EXPECT_THAT(shape_error({MlaKind::kLatent, 6, 0, 4, 2, 4, 0}), HasSubstr("kv_rank above 0"));
  EXPECT_THAT(shape_error({MlaKind::kLatent, 6, 0, 4, 2, 4, 8}),
              HasSubstr("mla_prefill (layer 2): q: expected F32 [0, 36], found nothing"));
}

}  // namespace
}  // namespace baltoro
