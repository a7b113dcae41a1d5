// Gated MLA of the rows that the model generated.
#include "cuda/launch.cuh"
#include "cuda/mla_decode.h"
#include "cuda/mla_parts.h"

namespace baltoro::cuda {
namespace {

// Pages of one segment where bits may not depend on what else is in the batch.
constexpr std::int32_t kFixedPages = 32;

SplitPlan plan_of(const Context& context, const MlaArgs& args, const DeviceBatch& batch) {
  SplitPlan plan{};
  for (const SequenceRows& rows : args.batch.sequences) {
    if (rows.origin == Origin::kGenerated) plan.num_rows += static_cast<int>(rows.num_rows);
  }
  plan.num_blocks = sm90::mla_decode_blocks(context, args);
  if (context.deterministic) {
    plan.fixed_pages = kFixedPages;
    plan.max_pieces = static_cast<std::int32_t>(ceil_div(batch.max_pages, kFixedPages));
    plan.num_blocks = plan.num_rows * plan.max_pieces;
  }
  return plan;
}

DecodeBuffers take_buffers(Context& context, const MlaArgs& args, SplitPlan plan) {
  const MlaShape& shape = args.shape;
  const std::int64_t rows = plan.num_rows;
  const std::int64_t segments = plan.num_segments() * shape.num_heads;
  const std::int64_t queries = rows * shape.num_heads * shape.cache_width();
  Scratch& scratch = context.scratch;
  scratch.begin(aligned_kv_b_bytes(args) + Scratch::bytes_of<SplitRow>(rows + 1) +
                Scratch::bytes_of<std::uint16_t>(queries) +
                Scratch::bytes_of<float>(segments * shape.kv_rank) +
                Scratch::bytes_of<float2>(segments) +
                Scratch::bytes_of<float>(rows * shape.num_heads * shape.kv_rank));
  DecodeBuffers buffers{};
  buffers.kv_b = aligned_kv_b(context, args).data;
  buffers.plan = plan;
  buffers.plan.rows = scratch.take<SplitRow>(rows + 1);
  buffers.queries = scratch.take<std::uint16_t>(queries);
  buffers.partial = scratch.take<float>(segments * shape.kv_rank);
  buffers.partial_sum = scratch.take<float2>(segments);
  buffers.context = scratch.take<float>(rows * shape.num_heads * shape.kv_rank);
  return buffers;
}

}  // namespace

void mla_decode(Context& context, const MlaArgs& args) {
  if (!has_rows_of(args.batch, Origin::kGenerated)) return;
  if (!sm90::serves_mla_decode(context, args)) {
    mla_write_cache(context, args, Origin::kGenerated);
    mla_attend_plain(context, args, Origin::kGenerated);
    return;
  }
  const SplitPlan plan = plan_of(context, args, context.stage.batch(args.batch));
  const DecodeBuffers buffers = take_buffers(context, args, plan);
  mla_prepare(context, args, buffers);
  sm90::mla_decode_segments(context, args, buffers);
  mla_merge(context, args, buffers);
  mla_project(context, args, buffers);
}

}  // namespace baltoro::cuda
