#include "ops/expert_mlp.h"

#include <algorithm>
#include <iterator>
#include <span>

#include "core/error.h"
#include "cpu/context.h"
#include "cpu/gated.h"

namespace baltoro::cpu {
namespace {

// Intermediate results of one pass over a block of rows stay below this.
constexpr std::int64_t kPassBytes = std::int64_t{64} << 20;
constexpr std::int64_t kMinPassRows = 64;

// The (row, slot) pairs of a block of rows, sorted by expert and, within one, by row.
struct Groups {
  std::int64_t pairs = 0, num_experts = 0, hidden_width = 0, out_width = 0;
  std::int32_t* row_of = nullptr;       // [pairs] row in the block
  std::int32_t* position_of = nullptr;  // [rows, top_k] where a pair stands in the order
  std::int32_t* first = nullptr;        // [num_experts + 1]
  std::int32_t* active = nullptr;       // experts with rows, ascending
  std::int64_t num_active = 0;
  bool one_row = false;     // the active experts have one pair each, all of the same row
  float* hidden = nullptr;  // [pairs, F]
  float* down = nullptr;    // [pairs, Z]
  // The rows of each expert together: inputs (one row alone is packed once for all) and hidden.
  PackedRows inputs, hidden_rows;

  void carve(Carver& carver) {
    row_of = carver.take<std::int32_t>(pairs);
    position_of = carver.take<std::int32_t>(pairs);
    first = carver.take<std::int32_t>(num_experts + 1);
    active = carver.take<std::int32_t>(num_experts);
    hidden = carver.floats(pairs * hidden_width);
    down = carver.floats(pairs * out_width);
    inputs.carve(carver);
    hidden_rows.carve(carver);
  }

  void sort(const std::int32_t* ids, int top_k) {
    std::fill_n(first, num_experts + 1, 0);
    for (std::int64_t p = 0; p < pairs; ++p) ++first[ids[p] + 1];
    num_active = 0;
    for (std::int64_t e = 0; e < num_experts; ++e) {
      if (first[e + 1] > 0) active[num_active++] = static_cast<std::int32_t>(e);
      first[e + 1] += first[e];
    }
    // first[e] serves as the cursor of expert e and ends at the start of e + 1.
    for (std::int64_t p = 0; p < pairs; ++p) {
      const std::int32_t position = first[ids[p]]++;
      row_of[position] = static_cast<std::int32_t>(p / top_k);
      position_of[p] = position;
    }
    for (std::int64_t e = num_experts; e > 0; --e) first[e] = first[e - 1];
    first[0] = 0;
  }
};

struct ExpertWork {
  std::int64_t top_k = 0;
  GatedWork gated;
  const float** sources = nullptr;
  void carve(Carver& carver) {
    gated.carve(carver);
    sources = carver.take<const float*>(top_k);
  }
};

class ExpertPass {
 public:
  ExpertPass(Context& context, const ExpertMlpArgs& args, Groups& groups, std::int64_t first_row)
      : context_(context), args_(args), groups_(groups), first_row_(first_row) {}

  void run(std::int64_t rows) {
    groups_.sort(args_.ids + first_row_ * args_.top_k, args_.top_k);
    groups_.one_row = rows == 1 && groups_.num_active == groups_.pairs;
    std::span<const std::int32_t> left(groups_.active,
                                       static_cast<std::size_t>(groups_.num_active));
    pack(groups_.inputs, groups_.one_row ? left.first(1) : left,
         [this](std::int32_t id) { return input_rows(id); });
    while (!left.empty()) {
      const std::size_t count = args_.feed == nullptr ? left.size() : args_.feed->acquire(left);
      experts_ = left.first(count);
      gated();
      pack(groups_.hidden_rows, experts_, [this](std::int32_t id) { return hidden_rows(id); });
      down();
      left = left.subspan(count);
    }
    combine(rows);
  }

 private:
  ExpertWork work(int worker) const {
    return context_.scratch.worker(ExpertWork{args_.top_k, {}, nullptr}, worker);
  }
  const ExpertWeights& expert(std::int32_t id) const {
    return args_.experts[static_cast<std::size_t>(id)];
  }
  Rows input_rows(std::int32_t id) const {
    const std::int64_t width = args_.z.cols(), first = groups_.first[id];
    return groups_.inputs.attach({args_.z.f32() + first_row_ * width, width, groups_.row_of + first,
                                  groups_.first[id + 1] - first, context_.round},
                                 groups_.one_row ? 0 : first);
  }
  Rows hidden_rows(std::int32_t id) const {
    const std::int64_t width = groups_.hidden_width, first = groups_.first[id];
    return groups_.hidden_rows.attach({groups_.hidden + first * width, width, nullptr,
                                       groups_.first[id + 1] - first, context_.round},
                                      first);
  }
  // Packs what rows(id) gives for each of the experts.
  template <typename RowsOf>
  void pack(const PackedRows& packed, std::span<const std::int32_t> experts, const RowsOf& rows) {
    if (packed.empty()) return;
    const auto body = [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int32_t id = experts[static_cast<std::size_t>(i)];
        packed.pack_part(context_, rows(id), groups_.first[id]);
      }
    };
    // A few rows take less time than a barrier.
    context_.pool.parallel_for(std::ssize(experts), groups_.one_row ? std::ssize(experts) : 1,
                               body);
  }
  // Runs body(expert id, tile, worker) over all tiles of `experts_`.
  template <typename Body>
  void for_tiles(std::int64_t tiles, const Body& body) {
    const auto range = [&](std::int64_t begin, std::int64_t end, int worker) {
      for (std::int64_t t = begin; t < end; ++t)
        body(experts_[static_cast<std::size_t>(t / tiles)], t % tiles, worker);
    };
    context_.pool.parallel_for(std::ssize(experts_) * tiles, 1, range);
  }

  void gated() {
    const std::int64_t width = groups_.hidden_width;
    for_tiles(num_tiles(width), [&](std::int32_t id, std::int64_t tile, int worker) {
      const std::int64_t first = groups_.first[id];
      const GatedMlp mlp{expert(id).w1, expert(id).w3, args_.activation};
      gated_tile(context_, mlp, input_rows(id), {groups_.hidden + first * width, width},
                 {tile_range(tile, width), work(worker).gated});
    });
  }

  void down() {
    const std::int64_t width = groups_.out_width;
    for_tiles(num_tiles(width), [&](std::int32_t id, std::int64_t tile, int worker) {
      const std::int64_t first = groups_.first[id];
      const Range range = tile_range(tile, width);
      const Rows x = hidden_rows(id);
      float* out = groups_.down + first * width + range.begin;
      multiply(context_, Matrix(expert(id).w2.slice_rows(range.begin, range.count)), x,
               {out, width}, work(worker).gated.product);
      for (std::int64_t r = 0; context_.round && r < x.count; ++r) {
        context_.leaf.round_bf16(out + r * width, range.count);
      }
    });
  }

  void combine(std::int64_t rows) {
    const std::int64_t width = groups_.out_width;
    const auto body = [&](std::int64_t begin, std::int64_t end, int worker) {
      const ExpertWork mine = work(worker);
      for (std::int64_t r = begin; r < end; ++r) {
        for (std::int64_t a = 0; a < args_.top_k; ++a) {
          mine.sources[a] = groups_.down + groups_.position_of[r * args_.top_k + a] * width;
        }
        context_.leaf.weighted_sum(mine.sources, args_.weights + (first_row_ + r) * args_.top_k,
                                   args_.top_k, width, args_.out.f32() + (first_row_ + r) * width,
                                   context_.round);
      }
    };
    context_.pool.parallel_for(rows, 1, body);
  }

  Context& context_;
  const ExpertMlpArgs& args_;
  Groups& groups_;
  std::int64_t first_row_;
  std::span<const std::int32_t> experts_;  // those at work: all active ones that are in memory
};

}  // namespace

void expert_mlp(Context& context, const ExpertMlpArgs& args) {
  if (args.expert_activations != ExpertActivations::kSame) {
    fail(ErrorCode::kUnsupported,
         "expert_mlp: the CPU multiplies experts by activations as they are; use "
         "--expert-activations same");
  }
  const std::int64_t rows = args.z.rows();
  if (rows == 0) return;
  const ExpertWeights& any = args.experts[static_cast<std::size_t>(args.ids[0])];
  const std::int64_t pair_bytes =
      (any.w1.rows + any.w2.rows) * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t pass_rows = std::clamp(kPassBytes / (pair_bytes * args.top_k), kMinPassRows,
                                            std::max(rows, kMinPassRows));
  context.scratch.reserve_workers(ExpertWork{args.top_k, {}, nullptr});
  for (std::int64_t first = 0; first < rows; first += pass_rows) {
    const std::int64_t count = std::min(pass_rows, rows - first);
    Groups groups;
    groups.pairs = count * args.top_k;
    groups.num_experts = static_cast<std::int64_t>(args.experts.size());
    groups.hidden_width = any.w1.rows;
    groups.out_width = any.w2.rows;
    groups.inputs = PackedRows(groups.pairs, args.z.cols());
    groups.inputs.meet(context, any.w1.format);
    groups.inputs.meet(context, any.w3.format);
    groups.hidden_rows = PackedRows(groups.pairs, groups.hidden_width);
    groups.hidden_rows.meet(context, any.w2.format);
    context.scratch.shared(groups);
    ExpertPass(context, args, groups, first).run(count);
  }
}

}  // namespace baltoro::cpu
