#include "measure/explain_step.h"

#include <algorithm>
#include <array>
#include <optional>

#include "core/error.h"
#include "core/stopwatch.h"
#include "core/trace.h"
#include "engine/load_parts.h"
#include "engine/working_memory.h"
#include "measure/part_finder.h"
#include "measure/random_tokens.h"
#include "measure/step_calls.h"
#include "model/model.h"
#include "ops/expert_mlp.h"
#include "ops/forwarding_backend.h"
#include "ops/glu_mlp.h"
#include "ops/kda.h"
#include "ops/linear.h"
#include "ops/mix_norm.h"
#include "ops/mla.h"
#include "ops/route.h"

namespace baltoro {
namespace {

using plan::Part;

// Runs a pass without the ops of one part. What they would have written keeps its last values.
class WithoutPart final : public ForwardingBackend {
 public:
  WithoutPart(Backend& inner, const ModelConfig& config, std::optional<Part> part)
      : ForwardingBackend(inner), finder_(config), part_(part) {}

  void run_pass(const BatchView& batch, const std::function<void()>& ops) override {
    inner().run_pass(batch, ops);  // may record them
  }
  void embed(const EmbedArgs& args) override {
    if (wants("embed", -1)) inner().embed(args);
  }
  void linear(const LinearArgs& args) override {
    if (wants("linear", args.layer)) inner().linear(args);
  }
  void mix_norm(const MixNormArgs& args) override {
    if (wants("mix_norm", args.layer)) inner().mix_norm(args);
  }
  void kda_mix(const KdaMixArgs& args) override {
    if (wants("kda_mix", args.layer)) inner().kda_mix(args);
  }
  void mla_prefill(const MlaArgs& args) override {
    if (wants("mla_prefill", args.layer)) inner().mla_prefill(args);
  }
  void mla_decode(const MlaArgs& args) override {
    if (wants("mla_decode", args.layer)) inner().mla_decode(args);
  }
  void glu_mlp(const GluMlpArgs& args) override {
    if (wants("glu_mlp", args.layer)) inner().glu_mlp(args);
  }
  void route(const RouteArgs& args) override {
    if (wants("route", args.layer)) inner().route(args);
  }
  void expert_mlp(const ExpertMlpArgs& args) override {
    if (wants("expert_mlp", args.layer)) inner().expert_mlp(args);
  }
  void head(const HeadArgs& args) override {
    if (wants("head", -1)) inner().head(args);
  }

 private:
  bool wants(const char* op, int layer) { return finder_.of(op, layer) != part_; }

  PartFinder finder_;
  std::optional<Part> part_;
};

// A model and sequences at a depth, whose next token is decoded again and again.
class Stepper {
 public:
  Stepper(EngineParts& parts, const Model& model, const EngineOptions& options,
          const PassShape& shape)
      : backend_(*parts.backend),
        model_(model),
        state_(backend_, model.config(), state_format(options, model.config())),
        workspace_(backend_, model.config(), std::max(options.max_batch_rows, shape.batch)),
        logits_(backend_.allocate_shared(
            static_cast<std::size_t>(shape.batch * model.config().vocab_size) * sizeof(float),
            "logits")) {
    const std::int64_t pages = shape.depth / kBlockTokens + 1;  // of a sequence
    state_.reserve_slots(static_cast<std::int32_t>(shape.batch));
    state_.reserve_pages(static_cast<std::int32_t>(shape.batch * pages));
    pages_.resize(static_cast<std::size_t>(shape.batch));
    for (std::int64_t i = 0; i < shape.batch; ++i) {
      std::vector<std::int32_t>& own = pages_[static_cast<std::size_t>(i)];
      for (std::int64_t p = 0; p < pages; ++p)
        own.push_back(static_cast<std::int32_t>(i * pages + p));
      read_prompt(i, shape.depth, options.max_batch_rows);
      sequences_.push_back({.first_row = i,
                            .num_rows = 1,
                            .start_pos = shape.depth,
                            .state_slot = static_cast<std::int32_t>(i),
                            .boundary_slot = -1,
                            .origin = Origin::kGenerated,
                            .pages = own});
      rows_.push_back(static_cast<std::int32_t>(i));
    }
    tokens_ = random_tokens(model.config().vocab_size, shape.batch, 1);
  }

  // Seconds of `steps` of them through `via`.
  double run(Backend& via, int steps) {
    Stopwatch watch;
    for (int i = 0; i < steps; ++i) {
      const ConstTensorView normed = model_.forward(via, {tokens_, sequences_}, state_, workspace_);
      model_.logits(via, normed, rows_, logits_.f32());
      backend_.synchronize();
    }
    return watch.lap();
  }
  // What was recorded of passes is recorded anew.
  void forget_records() { const Buffer unused = backend_.allocate(1, "the end of records"); }

 private:
  void read_prompt(std::int64_t sequence, std::int64_t tokens, std::int64_t most_rows) {
    const auto i = static_cast<std::size_t>(sequence);
    const std::vector<TokenId> ids =
        random_tokens(model_.config().vocab_size, tokens, 2 + static_cast<std::uint64_t>(sequence));
    for (std::int64_t begin = 0; begin < tokens; begin += most_rows) {
      const std::int64_t rows = std::min(most_rows, tokens - begin);
      const SequenceRows chunk{.first_row = 0,
                               .num_rows = rows,
                               .start_pos = begin,
                               .state_slot = static_cast<std::int32_t>(sequence),
                               .boundary_slot = -1,
                               .origin = Origin::kPrompt,
                               .pages = pages_[i]};
      model_.forward(
          backend_,
          {std::span(ids).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(rows)),
           std::span(&chunk, 1)},
          state_, workspace_);
    }
    backend_.synchronize();
  }

  Backend& backend_;
  const Model& model_;
  SequenceState state_;
  Workspace workspace_;
  Buffer logits_;
  std::vector<std::vector<std::int32_t>> pages_;
  std::vector<SequenceRows> sequences_;
  std::vector<std::int32_t> rows_;
  std::vector<TokenId> tokens_;
};

using PartSeconds = std::array<double, plan::kNumParts>;

// Sums the durations of ops by part.
class PartTimes final : public TraceSink {
 public:
  explicit PartTimes(const ModelConfig& config) : finder_(config) { set_trace_sink(this); }
  ~PartTimes() override { set_trace_sink(nullptr); }
  PartTimes(const PartTimes&) = delete;
  PartTimes& operator=(const PartTimes&) = delete;

  void record(const TraceEvent& event) override {
    seconds_[plan::index_of(finder_.of(event.name, event.layer))] +=
        1e-9 * static_cast<double>(event.duration_ns);
  }
  void clear() { seconds_ = {}; }
  const PartSeconds& seconds() const { return seconds_; }

 private:
  PartFinder finder_;
  PartSeconds seconds_{};
};

// Ops one by one, of the samples that nobody disturbed.
void time_ops(Stepper& stepper, EngineParts& parts, const RepeatOptions& options,
              StepExplanation& step) {
  Samples& samples = step.samples;
  PartTimes times(parts.loaded.config);
  PartSeconds sum{};
  int steps = 0;
  RepeatOptions one = options;
  one.repeats = 1;
  one.max_dropped = 0;
  while (std::ssize(samples.kept) < options.repeats && !samples.gave_up) {
    bool warm = false;
    int runs = 0;
    const Samples sample = repeat(
        [&] {
          const double seconds = stepper.run(*parts.backend, kStepsOfARun);
          if (warm) {
            ++runs;
          } else {
            times.clear();
          }
          warm = true;
          return seconds;
        },
        one);
    if (sample.gave_up) {
      samples.dropped.push_back(sample.dropped.front());
      samples.gave_up = std::ssize(samples.dropped) > options.max_dropped;
      continue;
    }
    samples.kept.push_back(sample.kept.front());
    steps += runs * kStepsOfARun;
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += times.seconds()[i];
  }
  for (PartRow& row : step.parts) row.seconds = sum[plan::index_of(row.part)] / std::max(1, steps);
}

// Of a step without the ops of `part`, or of a whole one.
Samples time_without(Stepper& stepper, EngineParts& parts, std::optional<Part> part,
                     const RepeatOptions& options) {
  WithoutPart backend(*parts.backend, parts.loaded.config, part);
  stepper.forget_records();
  stepper.run(backend, 3);  // op by op, recorded, repeated
  return repeat([&] { return stepper.run(backend, kStepsOfARun); }, options);
}

void time_without_parts(Stepper& stepper, EngineParts& parts, const RepeatOptions& options,
                        StepExplanation& step) {
  step.samples = time_without(stepper, parts, std::nullopt, options);
  for (PartRow& row : step.parts) {
    if (step.samples.gave_up) return;
    const Samples without = time_without(stepper, parts, row.part, options);
    if (without.gave_up) {
      step.samples = without;
      return;
    }
    row.seconds = step.seconds() - without.seconds().median / kStepsOfARun;
  }
}

Activations products_of(Part part, Activations activations) {
  const bool f32 = part == Part::kKdaState || part == Part::kMix || part == Part::kRouter;
  return f32 ? Activations::kF32 : activations;
}

// Parts with what they do; no times yet.
std::vector<PartRow> count_parts(const StepCalls& calls, const ModelConfig& config) {
  std::array<PartRow, plan::kNumParts> rows;
  PartFinder finder(config);
  for (const OpCall& call : calls.ops) {
    const Cost& cost = call.kernel.cost;
    PartRow& row = rows[plan::index_of(finder.of(call.op, call.layer))];
    if (cost.bytes() == 0) continue;  // has nothing to do
    ++row.calls;
    row.work += {cost.flops, cost.weight_bytes + cost.state_bytes, cost.updated_bytes};
  }
  std::vector<PartRow> result;
  for (const Part part : plan::kAllParts) {
    PartRow& row = rows[plan::index_of(part)];
    row.part = part;
    if (row.calls > 0) result.push_back(row);
  }
  return result;
}

void add_floors(StepExplanation& step, Roof& roof, Activations activations) {
  Work all;
  for (const PartRow& row : step.parts) all += row.work;
  const double read = roof.read_bandwidth(step.threads, all.bytes);
  for (PartRow& row : step.parts) {
    double memory = (row.work.bytes - row.work.updated) / read;
    if (row.work.updated > 0) {
      memory += row.work.updated / roof.update_bandwidth(step.threads, all.updated / 2);
    }
    const double arithmetic =
        row.work.flops / roof.peak(step.threads, products_of(row.part, activations));
    row.floor = memory >= arithmetic ? Floor{memory, Bound::kMemory}
                                     : Floor{arithmetic, Bound::kArithmetic};
  }
}

}  // namespace

double StepExplanation::rest() const {
  double rest = seconds();
  for (const PartRow& row : parts) rest -= row.seconds;
  return rest;
}

void explain_steps(const ExplainOptions& options, Roof& roof,
                   const std::function<void(const StepExplanation&)>& on_step) {
  EngineParts parts = load_parts(options.dir, options.engine);
  if (!parts.loaded.plan.all_resident()) {
    fail(ErrorCode::kDoesNotFit,
         "{}: some weights stay in the files, whose reads are no part of an op; give more --memory",
         options.dir.string());
  }
  if (parts.host != nullptr) {
    fail(ErrorCode::kDoesNotFit,
         "{}: the GPU has no room for the first {} layers, and steps are explained on one backend; "
         "give more --device-memory, or use --device cpu",
         options.dir.string(), parts.loaded.plan.host_layers);
  }
  const Model model(parts.loaded.config, parts.loaded.weights);
  const PartClock clock = options.clock.value_or(
      parts.backend->uses_host_memory() ? PartClock::kOps : PartClock::kLeftOut);
  for (const PassShape& shape : options.shapes) {
    StepExplanation step;
    step.shape = {shape.batch, 1, shape.depth, Origin::kGenerated};
    step.threads = parts.backend->num_threads();
    step.clock = clock;
    step.parts = count_parts(step_calls(parts.loaded, *parts.backend, step.shape), model.config());
    Stepper stepper(parts, model, options.engine, step.shape);
    if (clock == PartClock::kOps) {
      time_ops(stepper, parts, options.repeat, step);
    } else {
      time_without_parts(stepper, parts, options.repeat, step);
    }
    add_floors(step, roof, options.engine.activations);
    on_step(step);
  }
}

}  // namespace baltoro
