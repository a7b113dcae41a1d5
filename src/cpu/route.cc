#include "ops/route.h"

#include <limits>

#include "cpu/context.h"
#include "cpu/product.h"

namespace baltoro::cpu {
namespace {

struct RouteWork {
  std::int64_t count = 0;
  float* scores = nullptr;  // [M, E]
  void carve(Carver& carver) { scores = carver.floats(count); }
};

struct ChoiceWork {
  std::int64_t top_k = 0;
  ProductWork product;
  float* keys = nullptr;  // [top_k] biased scores of the chosen, descending
  void carve(Carver& carver) {
    product.carve(carver);
    keys = carver.floats(top_k);
  }
};

// A row that cannot be ranked: NaN weights make the failure visible downstream.
void choose_nothing(const RouteArgs& args, std::int32_t* ids, float* weights) {
  for (std::int32_t i = 0; i < args.top_k; ++i) {
    ids[i] = i;
    weights[i] = std::numeric_limits<float>::quiet_NaN();
  }
}

// Keeps the top_k best seen so far, sorted. A later expert displaces only a smaller key, so that
// ties go to the lower index. Returns false at a NaN.
bool choose(const RouteArgs& args, const float* scores, std::int32_t* ids, float* keys) {
  int chosen = 0;
  const std::int64_t num_experts = args.weight.rows;
  for (std::int64_t e = 0; e < num_experts; ++e) {
    const float key = scores[e] + args.bias[e];
    if (key != key) return false;
    if (chosen == args.top_k && !(key > keys[chosen - 1])) continue;
    int at = chosen < args.top_k ? chosen++ : chosen - 1;
    for (; at > 0 && key > keys[at - 1]; --at) {
      keys[at] = keys[at - 1];
      ids[at] = ids[at - 1];
    }
    keys[at] = key;
    ids[at] = static_cast<std::int32_t>(e);
  }
  return true;
}

void choose_row(const RouteArgs& args, const float* scores, std::int64_t row, float* keys) {
  std::int32_t* ids = args.ids + row * args.top_k;
  float* weights = args.weights + row * args.top_k;
  if (!choose(args, scores, ids, keys)) return choose_nothing(args, ids, weights);
  float total = 0;
  for (int i = 0; i < args.top_k; ++i) total += weights[i] = scores[ids[i]];
  const float divisor = args.renormalize ? total + 1e-20f : 1.0f;
  for (int i = 0; i < args.top_k; ++i) weights[i] = weights[i] / divisor * args.scale;
}

}  // namespace

void route(Context& context, const RouteArgs& args) {
  const std::int64_t rows = args.x.rows();
  const std::int64_t num_experts = args.weight.rows;
  RouteWork shared{rows * num_experts};
  context.scratch.shared(shared);
  const ChoiceWork shape{args.top_k, {}, nullptr};
  context.scratch.reserve_workers(shape);
  // True f32 products always, so never the bf16 leaf.
  const Rows x{args.x.f32(), args.x.cols(), nullptr, rows, false};
  const auto logits = [&](std::int64_t begin, std::int64_t end, int worker) {
    const ChoiceWork work = context.scratch.worker(shape, worker);
    for (std::int64_t tile = begin; tile < end; ++tile) {
      const Range range = tile_range(tile, num_experts);
      multiply(context, Matrix(args.weight.slice_rows(range.begin, range.count)), x,
               {shared.scores + range.begin, num_experts}, work.product);
    }
  };
  context.pool.parallel_for(num_tiles(num_experts), 1, logits);
  const auto body = [&](std::int64_t begin, std::int64_t end, int worker) {
    const ChoiceWork work = context.scratch.worker(shape, worker);
    for (std::int64_t row = begin; row < end; ++row) {
      float* scores = shared.scores + row * num_experts;
      context.leaf.sigmoid(scores, num_experts, scores);
      choose_row(args, scores, row, work.keys);
    }
  };
  context.pool.parallel_for(rows, 4, body);
}

}  // namespace baltoro::cpu
