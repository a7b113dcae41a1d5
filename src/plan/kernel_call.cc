#include "plan/kernel_call.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/embed.h"
#include "ops/expert_mlp.h"
#include "ops/glu_mlp.h"
#include "ops/head.h"
#include "ops/kda.h"
#include "ops/linear.h"
#include "ops/mix_norm.h"
#include "ops/mla.h"
#include "ops/route.h"
#include "plan/arithmetic.h"

namespace baltoro::plan {
namespace {

std::string kernel_of(const char* op, WeightFormat format) {
  return fmt::format("{} {}", op, weight_format_name(format));
}

// A product with one row may be other code than one with more.
std::string product_kernel(const char* op, WeightFormat format, std::int64_t rows) {
  return kernel_of(op, format) + (rows == 1 ? " row" : "");
}

// Of a product of `rows` rows with matrices like `weight`, in so many loops over the threads.
KernelWork product_work(const Cost& cost, double rows, const WeightView& weight, double depth,
                        double loops) {
  return {.flops = cost.flops,
          .bytes = cost.bytes(),
          .rows = rows,
          .depth = depth,
          .run = real(weight.row_bytes()),
          .loops = loops};
}

// Of an op that gives each thread some of its rows: one row alone stays where it is, on the host.
KernelWork row_work(const Backend& backend, const Cost& cost, double rows, double depth) {
  return {.flops = cost.flops,
          .bytes = cost.bytes(),
          .rows = rows,
          .depth = depth,
          .run = 0,
          .loops = rows > 1 || !backend.uses_host_memory() ? 1.0 : 0.0};
}

double weight_depth(const WeightView& gate, const WeightView& down) {
  return glu_depth(real(gate.cols), real(gate.rows), real(down.rows));
}

Cost mla_cost(const Backend& backend, const MlaArgs& args, const SequenceRows& sequence) {
  const DType dtype = backend.activation_dtype(), cache = args.cache.dtype;
  const MlaShape& shape = args.shape;
  if (sequence.origin == Origin::kPrompt) {
    return mla_prefill_cost(shape, sequence.num_rows, sequence.start_pos, dtype, cache);
  }
  Cost cost;
  for (std::int64_t t = 0; t < sequence.num_rows; ++t) {
    cost += mla_decode_cost(shape, sequence.start_pos + t, dtype, cache);
  }
  return cost;
}

KernelCall mla_call(const Backend& backend, const MlaArgs& args, Origin origin) {
  Cost cost;
  double rows = 0, sequences = 0;
  for (const SequenceRows& sequence : args.batch.sequences) {
    if (sequence.origin != origin) continue;
    Cost one = mla_cost(backend, args, sequence);
    if (sequences > 0) one.weight_bytes = 0;  // read once for the whole batch
    cost += one;
    rows += real(sequence.num_rows);
    ++sequences;
  }
  const bool prompt = origin == Origin::kPrompt;
  KernelCall call{prompt ? "mla_prefill" : "mla_decode", {}, cost};
  if (sequences == 0) return call;
  call.work.flops = cost.executed_flops;
  call.work.bytes = cost.bytes();
  // An expanded page serves the rows of its sequence, a cached one the heads of a row.
  call.work.rows = prompt ? rows / sequences : real(args.shape.num_heads);
  call.work.depth = attention_depth(args.shape, origin);
  return call;
}

}  // namespace

double glu_depth(double hidden, double inner, double out) {
  return (2 * hidden * inner + inner * out) / (2 * inner + out);
}

double attention_depth(const MlaShape& shape, Origin origin) {
  const bool absorbed = origin == Origin::kGenerated && shape.kind != MlaKind::kGqa;
  const std::int64_t query = absorbed ? shape.kv_rank + shape.rope_dim : shape.qk_dim();
  const std::int64_t value = absorbed ? shape.kv_rank : shape.v_head_dim;
  return real(query + value) / 2;
}

KernelCall kernel_call(const Backend& backend, const EmbedArgs& args) {
  const Cost cost = embed_cost(std::ssize(args.ids), args.table.cols, args.table.format,
                               backend.activation_dtype());
  return {"embed", row_work(backend, cost, real(std::ssize(args.ids)), 1), cost};
}

KernelCall kernel_call(const Backend& backend, const LinearArgs& args) {
  Cost cost;
  for (int i = 0; i < args.num_outputs; ++i) {
    cost += linear_cost(args.x.rows(), args.outputs[static_cast<std::size_t>(i)].weight,
                        backend.activation_dtype());
  }
  const WeightView& first = args.outputs[0].weight;
  return {product_kernel("linear", first.format, args.x.rows()),
          product_work(cost, real(args.x.rows()), first, real(args.x.cols()), 1), cost};
}

KernelCall kernel_call(const Backend& backend, const MixNormArgs& args) {
  const int sources = static_cast<int>(args.bank.size()) + 1;
  const Cost cost = mix_norm_cost(args.prefix.rows(), args.prefix.cols(), sources,
                                  static_cast<bool>(args.delta), backend.activation_dtype());
  return {"mix_norm", row_work(backend, cost, real(args.prefix.rows()), real(args.prefix.cols())),
          cost};
}

KernelCall kernel_call(const Backend& backend, const GluMlpArgs& args) {
  const Cost cost =
      glu_mlp_cost(args.x.rows(), args.gate, args.up, args.down, backend.activation_dtype());
  return {product_kernel("glu_mlp", args.gate.format, args.x.rows()),
          product_work(cost, real(args.x.rows()), args.gate, weight_depth(args.gate, args.down), 2),
          cost};
}

KernelCall kernel_call(const Backend& backend, const RouteArgs& args) {
  const Cost cost = route_cost(args.x.rows(), args.weight, args.top_k, backend.activation_dtype());
  // The scores of some experts each, then a choice for each row.
  const double rows = real(args.x.rows());
  const double loops = (args.weight.rows > 32 ? 1.0 : 0.0) + (rows > 1 ? 1.0 : 0.0);
  return {"route", product_work(cost, rows, args.weight, real(args.x.cols()), loops), cost};
}

KernelCall kernel_call(const Backend& backend, const HeadArgs& args) {
  const auto rows = std::ssize(args.rows);
  const Cost cost = head_cost(rows, args.weight, backend.activation_dtype());
  return {product_kernel("linear", args.weight.format, rows),
          product_work(cost, real(rows), args.weight, real(args.weight.cols), 1), cost};
}

KernelCall kernel_call(const Backend& backend, const KdaMixArgs& args) {
  const Origin origin = args.batch.sequences.front().origin;
  const auto sequences = std::ssize(args.batch.sequences);
  const Cost cost = kda_mix_cost(args.shape, args.batch.num_rows(), sequences,
                                 backend.activation_dtype(), origin);
  // A head walks the rows of its sequence.
  const double rows = real(args.batch.num_rows()) / real(sequences);
  return {origin == Origin::kPrompt ? "kda_mix prompt" : "kda_mix generated",
          {.flops = cost.executed_flops,
           .bytes = cost.bytes(),
           .rows = rows,
           .depth = real(args.shape.head_dim_k),
           .run = 0,
           .loops = 1},
          cost};
}

KernelCall kernel_call(const Backend& backend, const ExpertMlpArgs& args, double distinct) {
  const auto any = std::ranges::find_if(
      args.experts, [](const ExpertWeights& expert) { return static_cast<bool>(expert.w1); });
  const std::int64_t rows = args.z.rows();
  const Cost cost = expert_mlp_cost(rows, args.top_k, distinct, *any, backend.activation_dtype());
  return {kernel_of("expert_mlp", any->w1.format),
          // Two products, and a sum for each row.
          product_work(cost, real(rows) * args.top_k / distinct, any->w1,
                       weight_depth(any->w1, any->w2), rows > 1 ? 3 : 2),
          cost};
}

KernelCall mla_prefill_call(const Backend& backend, const MlaArgs& args) {
  return mla_call(backend, args, Origin::kPrompt);
}

KernelCall mla_decode_call(const Backend& backend, const MlaArgs& args) {
  return mla_call(backend, args, Origin::kGenerated);
}

}  // namespace baltoro::plan
