#include "ops/glu_mlp.h"

#include <algorithm>
#include <cstring>

#include "cpu/context.h"
#include "cpu/gated.h"

namespace baltoro::cpu {
namespace {

void activate(const Context& context, const Activation& activation, float* gate, float* up,
              std::int64_t n) {
  const LeafTable& leaf = context.leaf;
  if (context.round) {
    leaf.round_bf16(gate, n);
    leaf.round_bf16(up, n);
  }
  if (activation.kind == ActivationKind::kSitu) {
    leaf.situ(gate, up, n, activation.beta, activation.linear_beta, context.round);
  } else {
    leaf.swiglu(gate, up, n, context.round);
  }
}

struct GluWork {
  PackedRows x, hidden_rows;
  float* hidden = nullptr;  // [rows, hidden width]
  void carve(Carver& carver) {
    x.carve(carver);
    hidden_rows.carve(carver);
    hidden = carver.floats(hidden_rows.count * hidden_rows.depth);
  }
};

// One tile of outputs of the down projection, with the optional addend.
void down_tile(const Context& context, const GluMlpArgs& args, const Rows& hidden, Range range,
               const GatedWork& work) {
  const std::int64_t stride = args.down.rows;
  const Matrix weight(args.down.slice_rows(range.begin, range.count));
  for (std::int64_t m = 0; m < hidden.count; m += kPackedGroup) {
    const Rows rows = hidden.group(m, args.down.cols);
    // Through a tile of its own, because the addend may be the output.
    multiply(context, weight, rows, {work.up, kMatmulOutputs}, work.product);
    for (std::int64_t r = 0; r < rows.count; ++r) {
      float* values = work.up + r * kMatmulOutputs;
      const std::int64_t at = (m + r) * stride + range.begin;
      if (context.round) context.leaf.round_bf16(values, range.count);
      if (args.add) context.leaf.add(values, args.add.f32() + at, range.count, context.round);
      std::memcpy(args.out.f32() + at, values,
                  static_cast<std::size_t>(range.count) * sizeof(float));
    }
  }
}

}  // namespace

void gated_tile(const Context& context, const GatedMlp& mlp, const Rows& x, const Output& hidden,
                const GatedTile& tile) {
  const Range range = tile.range;
  const Matrix gate(mlp.gate.slice_rows(range.begin, range.count));
  const Matrix up(mlp.up.slice_rows(range.begin, range.count));
  for (std::int64_t m = 0; m < x.count; m += kPackedGroup) {
    const Rows rows = x.group(m, gate.cols);
    float* out = hidden.data + m * hidden.stride + range.begin;
    multiply(context, gate, rows, {out, hidden.stride}, tile.work.product);
    multiply(context, up, rows, {tile.work.up, kMatmulOutputs}, tile.work.product);
    for (std::int64_t r = 0; r < rows.count; ++r) {
      activate(context, mlp.activation, out + r * hidden.stride, tile.work.up + r * kMatmulOutputs,
               range.count);
    }
  }
}

void glu_mlp(Context& context, const GluMlpArgs& args) {
  context.scratch.reserve_workers(GatedWork{});
  const std::int64_t width = args.gate.rows;
  const std::int64_t rows = args.x.rows();
  GluWork shared{{rows, args.x.cols()}, {rows, width}};
  shared.x.meet(context, args.gate.format);
  shared.x.meet(context, args.up.format);
  shared.hidden_rows.meet(context, args.down.format);
  context.scratch.shared(shared);
  const GatedMlp mlp{args.gate, args.up, args.activation};
  const Rows x =
      shared.x.pack(context, {args.x.f32(), args.x.cols(), nullptr, rows, context.round});
  const auto gated = [&](std::int64_t begin, std::int64_t end, int worker) {
    const GatedWork work = context.scratch.worker(GatedWork{}, worker);
    for (std::int64_t tile = begin; tile < end; ++tile) {
      gated_tile(context, mlp, x, {shared.hidden, width}, {tile_range(tile, width), work});
    }
  };
  context.pool.parallel_for(num_tiles(width), 1, gated);
  const Rows hidden =
      shared.hidden_rows.pack(context, {shared.hidden, width, nullptr, rows, context.round});
  const auto down = [&](std::int64_t begin, std::int64_t end, int worker) {
    const GatedWork work = context.scratch.worker(GatedWork{}, worker);
    for (std::int64_t tile = begin; tile < end; ++tile) {
      down_tile(context, args, hidden, tile_range(tile, args.down.rows), work);
    }
  };
  context.pool.parallel_for(num_tiles(args.down.rows), 1, down);
}

}  // namespace baltoro::cpu
