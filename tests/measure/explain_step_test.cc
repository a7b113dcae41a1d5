// The parts of a step: what each does is what the planner's inventory says, and their times make up
// the step.
#include "measure/explain_step.h"

#include <gtest/gtest.h>

#include <map>

#include "measure/part_finder.h"
#include "model/config.h"
#include "paths.h"
#include "plan/inventory.h"

namespace baltoro {
namespace {

using plan::Part;

RepeatOptions quick() {
  return {.repeats = 2, .max_dropped = 0, .allow_noise = true, .sample_seconds = 0.005};
}

// Round numbers: 1 GB/s, 1 TFLOP/s.
Roof roof() {
  return Roof({.peak = [](int, Activations) { return 1e12; },
               .read_bandwidth = [](int, std::int64_t) { return 1e9; },
               .update_bandwidth = [](int, std::int64_t) { return 2e9; }});
}

StepExplanation explain(const std::string& fixture, PartClock clock, std::int64_t batch = 1) {
  ExplainOptions options;
  options.dir = test_data_dir() / "fixtures" / fixture;
  options.engine.num_threads = 1;
  options.shapes = {{batch, 1, 70, Origin::kGenerated}};
  options.repeat = quick();
  options.clock = clock;
  Roof fixed = roof();
  StepExplanation result;
  explain_steps(options, fixed, [&](const StepExplanation& step) { result = step; });
  return result;
}

std::map<Part, PartRow> by_part(const StepExplanation& step) {
  std::map<Part, PartRow> rows;
  for (const PartRow& row : step.parts) rows[row.part] = row;
  return rows;
}

TEST(ExplainStep, EachPartReadsItsMatricesOnce) {
  for (const char* fixture : {"k3", "kimi_linear"}) {
    const StepExplanation step = explain(fixture, PartClock::kOps);
    std::map<Part, PartRow> rows = by_part(step);
    const ModelConfig config = load_config(test_data_dir() / "fixtures" / fixture);
    const plan::PlanModel model = plan::model_from_config(config, fixture);
    for (const Part part : {Part::kKdaProj, Part::kAttnProj, Part::kRouter, Part::kLatent,
                            Part::kShared, Part::kDense, Part::kHead}) {
      EXPECT_NEAR(rows[part].work.bytes, plan::part_bytes(model, part),
                  0.02 * plan::part_bytes(model, part))
          << fixture << " " << plan::part_name(part);
    }
    // Two a layer and one before the head at least.
    EXPECT_GE(rows[Part::kMix].calls, 2 * config.num_layers + 1);
    EXPECT_EQ(rows[Part::kKdaState].calls, config.num_layers_of(MixerKind::kKda));
    EXPECT_EQ(rows[Part::kAttnCore].calls, config.num_layers_of(MixerKind::kMla));
    EXPECT_EQ(rows[Part::kRouted].calls, config.num_layers_of(FfnKind::kMoe));
  }
}

TEST(ExplainStep, FloorsAreBytesAtTheBandwidth) {
  std::map<Part, PartRow> rows = by_part(explain("k3", PartClock::kOps));
  const PartRow& head = rows[Part::kHead];
  EXPECT_DOUBLE_EQ(head.floor.seconds, head.work.bytes / 1e9);
  const PartRow& state = rows[Part::kKdaState];
  EXPECT_GT(state.work.updated, 0);
  EXPECT_DOUBLE_EQ(state.floor.seconds,
                   (state.work.bytes - state.work.updated) / 1e9 + state.work.updated / 2e9);
}

TEST(ExplainStep, TimesOfOpsAndTheRestAreTheStep) {
  const StepExplanation step = explain("k3", PartClock::kOps, 3);
  double sum = step.rest();
  for (const PartRow& row : step.parts) {
    EXPECT_GT(row.seconds, 0) << plan::part_name(row.part);
    sum += row.seconds;
  }
  EXPECT_NEAR(sum, step.seconds(), 1e-12);
  EXPECT_LT(step.rest(), step.seconds());
}

// Differences are noise at this size: what is tested is that steps run without each part, and that
// nothing of the step is lost between parts and rest.
TEST(ExplainStep, StepsRunWithoutEachPart) {
  const StepExplanation step = explain("k3", PartClock::kLeftOut);
  EXPECT_EQ(step.clock, PartClock::kLeftOut);
  EXPECT_EQ(step.parts.size(), explain("k3", PartClock::kOps).parts.size());
  double sum = step.rest();
  for (const PartRow& row : step.parts) {
    EXPECT_NE(row.seconds, 0) << plan::part_name(row.part) << " was not measured";
    EXPECT_LE(row.seconds, step.seconds()) << plan::part_name(row.part);
    sum += row.seconds;
  }
  EXPECT_NEAR(sum, step.seconds(), 1e-12);
}

TEST(PartFinder, ProductsBehindTheCoreAreOfTheMixerOnce) {
  const ModelConfig config = load_config(test_data_dir() / "fixtures" / "k3");
  int moe_layer = 0;
  while (config.layers[static_cast<std::size_t>(moe_layer)].ffn != FfnKind::kMoe ||
         config.layers[static_cast<std::size_t>(moe_layer)].mixer != MixerKind::kKda) {
    ++moe_layer;
  }
  PartFinder finder(config);
  for (int pass = 0; pass < 2; ++pass) {
    EXPECT_EQ(finder.of("embed", -1), Part::kEmbed);
    EXPECT_EQ(finder.of("mix_norm", moe_layer), Part::kMix);
    EXPECT_EQ(finder.of("linear", moe_layer), Part::kKdaProj);
    EXPECT_EQ(finder.of("kda_mix", moe_layer), Part::kKdaState);
    EXPECT_EQ(finder.of("linear", moe_layer), Part::kKdaProj) << "the output projection";
    EXPECT_EQ(finder.of("linear", moe_layer), Part::kLatent);
    EXPECT_EQ(finder.of("route", moe_layer), Part::kRouter);
    EXPECT_EQ(finder.of("expert_mlp", moe_layer), Part::kRouted);
    EXPECT_EQ(finder.of("linear", moe_layer), Part::kLatent);
    EXPECT_EQ(finder.of("glu_mlp", moe_layer), Part::kShared);
    EXPECT_EQ(finder.of("head", -1), Part::kHead);
  }
}

}  // namespace
}  // namespace baltoro
