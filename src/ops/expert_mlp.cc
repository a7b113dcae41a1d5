#include "ops/expert_mlp.h"

#include "core/trace.h"
#include "ops/arg_check.h"

namespace baltoro {
namespace {

bool is_mxfp4(const ExpertWeights& expert) {
  return expert.w1.format == WeightFormat::kMxfp4 && expert.w3.format == WeightFormat::kMxfp4 &&
         expert.w2.format == WeightFormat::kMxfp4;
}

}  // namespace

void expert_mlp(Backend& backend, const ExpertMlpArgs& args) {
  const ArgCheck check("expert_mlp", args.layer);
  const DType dtype = backend.activation_dtype();
  const std::int64_t rows = args.z.rows();
  const std::int64_t width = args.z.cols();
  check.view("z", args.z, rows, width, dtype);
  check.view("out", args.out, rows, width, dtype);
  check.disjoint("out", args.out, "z", args.z);
  check.that(args.top_k >= 1, "top_k >= 1");
  check.that(!args.experts.empty(), "a table of experts");
  if (rows > 0) {
    check.pointer("ids", args.ids);
    check.pointer("weights", args.weights);
  }
  // The ids may live on a device, so that only the experts that are present can be checked here.
  for (const ExpertWeights& expert : args.experts) {
    if (!expert.w1) continue;
    check.weight("w1", expert.w1, expert.w1.rows, width);
    check.weight("w3", expert.w3, expert.w1.rows, width);
    check.weight("w2", expert.w2, width, expert.w1.rows);
    check.that(args.expert_activations == ExpertActivations::kSame || is_mxfp4(expert),
               "MXFP4 experts for rows of fp8");
  }
  check.that(args.activation.kind != ActivationKind::kSitu ||
                 (args.activation.beta > 0 && args.activation.linear_beta > 0),
             "SiTU betas above 0");
  const TraceZone zone("expert_mlp", args.layer);
  backend.expert_mlp(args);
}

Cost expert_mlp_cost(std::int64_t rows, int top_k, double distinct_experts,
                     const ExpertWeights& expert, DType activation_dtype) {
  const auto elements = [](const WeightView& w) {
    return static_cast<double>(w.rows) * static_cast<double>(w.cols);
  };
  const double m = static_cast<double>(rows);
  const double row_bytes = static_cast<double>(expert.w1.cols + expert.w2.rows) *
                               static_cast<double>(dtype_bytes(activation_dtype)) +
                           top_k * static_cast<double>(sizeof(std::int32_t) + sizeof(float));
  Cost cost;
  cost.flops = 2 * m * top_k * (elements(expert.w1) + elements(expert.w3) + elements(expert.w2));
  cost.executed_flops = cost.flops;
  cost.weight_bytes = distinct_experts * static_cast<double>(expert.w1.bytes() + expert.w3.bytes() +
                                                             expert.w2.bytes());
  cost.activation_bytes = m * row_bytes;
  return cost;
}

}  // namespace baltoro
