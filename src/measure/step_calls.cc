#include "measure/step_calls.h"

#include <algorithm>

#include "model/model.h"
#include "model/model_stats.h"
#include "ops/expert_mlp.h"
#include "ops/glu_mlp.h"
#include "ops/host_backend.h"
#include "ops/kda.h"
#include "ops/linear.h"
#include "ops/mix_norm.h"
#include "ops/mla.h"
#include "ops/route.h"
#include "plan/routing.h"

namespace baltoro {
namespace {

class CallRecorder final : public HostBackend {
 public:
  explicit CallRecorder(const Backend& types) : HostBackend(types.activations()), types_(types) {}

  std::vector<OpCall> take() { return std::move(calls_); }

  std::string_view name() const override { return types_.name(); }
  int num_threads() const override { return types_.num_threads(); }
  DType activation_dtype() const override { return types_.activation_dtype(); }
  DType cache_dtype() const override { return types_.cache_dtype(); }
  // Nobody touches the memory.
  void copy(void*, const void*, std::size_t) override {}
  void run_on_host(std::function<void()>) override {}
  void clear(void*, std::size_t) override {}

  void embed(const EmbedArgs& args) override { note("embed", -1, plan::kernel_call(types_, args)); }
  void linear(const LinearArgs& args) override { note("linear", args); }
  void mix_norm(const MixNormArgs& args) override { note("mix_norm", args); }
  void kda_mix(const KdaMixArgs& args) override { note("kda_mix", args); }
  void mla_prefill(const MlaArgs& args) override {
    note("mla_prefill", args.layer, plan::mla_prefill_call(types_, args));
  }
  void mla_decode(const MlaArgs& args) override {
    note("mla_decode", args.layer, plan::mla_decode_call(types_, args));
  }
  void glu_mlp(const GluMlpArgs& args) override { note("glu_mlp", args); }
  void route(const RouteArgs& args) override { note("route", args); }
  void expert_mlp(const ExpertMlpArgs& args) override {
    const double distinct = plan::distinct_experts(static_cast<double>(args.experts.size()),
                                                   args.top_k, static_cast<double>(args.z.rows()));
    note("expert_mlp", args.layer, plan::kernel_call(types_, args, distinct));
  }
  void head(const HeadArgs& args) override { note("head", -1, plan::kernel_call(types_, args)); }

 private:
  template <typename Args>
  void note(const char* op, const Args& args) {
    note(op, args.layer, plan::kernel_call(types_, args));
  }
  void note(const char* op, int layer, plan::KernelCall kernel) {
    calls_.push_back({op, layer, std::move(kernel)});
  }

  const Backend& types_;
  std::vector<OpCall> calls_;
};

}  // namespace

StepCalls step_calls(const LoadedModel& loaded, const Backend& backend, const PassShape& shape) {
  CallRecorder recorder(backend);
  const Model model(loaded.config, loaded.weights);
  SequenceState state(recorder, loaded.config);
  Workspace workspace(recorder, loaded.config, shape.batch * shape.tokens);
  const std::int64_t pages = (shape.depth + shape.tokens + kBlockTokens - 1) / kBlockTokens;
  state.reserve_slots(static_cast<std::int32_t>(shape.batch));
  state.reserve_pages(static_cast<std::int32_t>(pages));

  // Sequences may share pages here: nothing is written.
  std::vector<std::int32_t> page_ids, last_rows;
  for (std::int64_t i = 0; i < pages; ++i) page_ids.push_back(static_cast<std::int32_t>(i));
  std::vector<SequenceRows> sequences;
  for (std::int64_t i = 0; i < shape.batch; ++i) {
    sequences.push_back({.first_row = i * shape.tokens,
                         .num_rows = shape.tokens,
                         .start_pos = shape.depth,
                         .state_slot = static_cast<std::int32_t>(i),
                         .boundary_slot = -1,
                         .origin = shape.origin,
                         .pages = page_ids});
    last_rows.push_back(static_cast<std::int32_t>((i + 1) * shape.tokens - 1));
  }
  const std::vector<std::int32_t> tokens(static_cast<std::size_t>(shape.batch * shape.tokens), 0);
  const ConstTensorView normed = model.forward(recorder, {tokens, sequences}, state, workspace);
  std::vector<float> logits(last_rows.size() * static_cast<std::size_t>(loaded.config.vocab_size));
  model.logits(recorder, normed, last_rows, logits.data());

  StepCalls calls{recorder.take(), static_cast<double>(workspace.bytes())};
  for (const OpCall& call : calls.ops) {
    const Cost& cost = call.kernel.cost;
    calls.working_set += cost.weight_bytes + cost.state_bytes;
  }
  return calls;
}

}  // namespace baltoro
