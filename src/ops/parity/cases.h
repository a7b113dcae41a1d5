// One list of (shape, format, batch) cases per op, for the parity tests of every backend and for
// benchmarks. A case makes its own inputs from a seed, the same for every backend.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ops/backend.h"
#include "ops/batch.h"
#include "ops/cost.h"
#include "ops/expert_mlp.h"
#include "ops/glu_mlp.h"
#include "ops/kda.h"
#include "ops/mla.h"
#include "ops/parity/memory.h"

namespace baltoro {

// One op call with its memory, ready to run on the backend that prepared it, which must outlive it.
class PreparedOp {
 public:
  PreparedOp(std::unique_ptr<OpMemory> memory, std::function<void()> call, Cost cost)
      : memory_(std::move(memory)), call_(std::move(call)), cost_(cost) {}

  // Calls the checked entry function. May be called again; state and cache go on from where they
  // are.
  void run() { call_(); }
  // Everything that the op may write, in a fixed order; rows, slots and pages that it must leave
  // alone hold NaN.
  std::vector<OpOutput> outputs() { return memory_->outputs(); }
  // See OpMemory::damage.
  std::optional<std::string> damage() { return memory_->damage(); }
  const Cost& cost() const { return cost_; }

 private:
  std::unique_ptr<OpMemory> memory_;
  std::function<void()> call_;
  Cost cost_;
};

struct OpCase {
  std::string op;    // as in Backend: "kda_mix"
  std::string name;  // the case in words, unique within the op
  std::function<PreparedOp(Backend&)> prepare;
};

// The whole list; about a hundred small cases.
std::vector<OpCase> op_cases();

// kda_mix with bf16 states, for backends that serve them.
std::vector<OpCase> bf16_state_cases();

// expert_mlp with rows of fp8, for backends that serve them.
std::vector<OpCase> fp8_expert_cases();

// mla with latents in fp8, for backends that serve them.
std::vector<OpCase> fp8_latent_cases();

// Some forty larger cases in the shapes of the released models, for benchmarks.
std::vector<OpCase> bench_cases();

// Builders, for tests and benchmarks with sizes of their own.

struct LinearCase {
  std::int64_t rows = 1;
  std::int64_t cols = 1;
  std::vector<std::int64_t> outputs;  // rows of each weight
  WeightFormat format = WeightFormat::kBf16;
  bool aligned = false;  // weights at a multiple of 64 bytes, which fast kernels may ask for
};
OpCase make_case(const LinearCase& spec);

struct EmbedCase {
  std::int64_t vocab = 1;
  std::int64_t hidden = 1;
  std::int64_t rows = 1;
  WeightFormat format = WeightFormat::kBf16;
};
OpCase make_case(const EmbedCase& spec);

struct HeadCase {
  std::int64_t batch_rows = 1;
  std::vector<std::int32_t> rows;
  std::int64_t hidden = 1;
  std::int64_t vocab = 1;
  WeightFormat format = WeightFormat::kBf16;
  bool aligned = false;
};
OpCase make_case(const HeadCase& spec);

struct MixNormCase {
  std::int64_t rows = 1;
  std::int64_t hidden = 1;
  int banked = 0;
  bool delta = false;
  bool non_finite_row = false;  // the first row's delta (or prefix) holds a NaN
};
OpCase make_case(const MixNormCase& spec);

struct GluCase {
  std::int64_t rows = 1;
  std::int64_t hidden = 1;
  std::int64_t inner = 1;
  WeightFormat format = WeightFormat::kBf16;
  ActivationKind kind = ActivationKind::kSitu;
  bool add = false;
  bool aligned = false;
};
OpCase make_case(const GluCase& spec);

struct RouteCase {
  std::int64_t rows = 1;
  std::int64_t hidden = 1;
  std::int64_t experts = 1;
  int top_k = 1;
  bool renormalize = true;
  bool equal_scores = false;  // all rows of the weight are the same, all biases zero
  bool nan_row = false;       // the last row of x holds a NaN
};
OpCase make_case(const RouteCase& spec);

struct ExpertCase {
  std::int64_t rows = 1;
  std::int64_t width = 1;
  std::int64_t inner = 1;
  int experts = 1;
  int top_k = 1;
  WeightFormat format = WeightFormat::kMxfp4;
  ActivationKind kind = ActivationKind::kSitu;
  // With kFp8 the op is "expert_mlp, fp8 rows".
  ExpertActivations expert_activations = ExpertActivations::kSame;
};
OpCase make_case(const ExpertCase& spec);

// One sequence of a ragged batch. Its past, where start_pos > 0, is random.
struct SequenceCase {
  std::int64_t rows = 1;
  std::int64_t start_pos = 0;
  Origin origin = Origin::kPrompt;
  bool boundary = false;
};

struct KdaCase {
  std::string name;
  KdaShape shape;
  std::vector<SequenceCase> batch;
  std::optional<float> gate_lower_bound;
  bool gate = true;
  float decay_scale = 3;                // decay logits are uniform in [-scale, scale)
  float decay_shift = 0;                // added to each
  std::optional<float> constant_decay;  // all decay logits, biases 0, a_log 0
  DType state = DType::kF32;            // with kBf16 the op is "kda_mix, bf16 state"
  std::uint64_t seed = 1;
};
OpCase make_case(const KdaCase& spec);

struct MlaCase {
  std::string name;
  MlaShape shape;
  std::vector<SequenceCase> batch;
  std::optional<float> rope_theta;
  bool gate = true;
  WeightFormat format = WeightFormat::kBf16;
  float query_scale = 2;     // of the random queries
  bool fp8_latents = false;  // the op is then "mla, fp8 latents"
  std::uint64_t seed = 1;
};
// As two calls, mla_prefill and then mla_decode, over the one batch.
OpCase make_case(const MlaCase& spec);

}  // namespace baltoro
