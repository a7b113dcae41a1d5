// Absorbed attention: the queries of a group of heads are carried into the latent's space and meet
// the cached rows of a page together, as they are stored. One task a group of heads of a row.
#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "cpu/attention.h"
#include "cpu/expanded.h"

namespace baltoro::cpu {
namespace {

// Enough rows for the matmul tiles; fewer where that would leave threads idle.
constexpr std::int64_t kMaxGroup = 16;

struct AbsorbedWork {
  MlaShape shape;
  ProductWork product;
  float* query = nullptr;           // [qk_dim]
  float* queries = nullptr;         // [group, cache_width]
  float* scores = nullptr;          // [group, page]
  float* mixed = nullptr;           // [group, kv_rank]: sum of p_j c_j
  SoftmaxState* softmax = nullptr;  // [group]

  void carve(Carver& carver) {
    product.carve(carver);
    query = carver.floats(shape.qk_dim());
    queries = carver.floats(kMaxGroup * shape.cache_width());
    scores = carver.floats(kMaxGroup * kBlockTokens);
    mixed = carver.floats(kMaxGroup * shape.kv_rank);
    softmax = carver.take<SoftmaxState>(kMaxGroup);
  }
};

struct HeadGroup {
  std::int64_t first = 0, count = 0;
};

class AbsorbedRow {
 public:
  AbsorbedRow(const Context& context, const MlaArgs& args, const SequenceRows& sequence,
              const AbsorbedWork& work)
      : context_(context),
        args_(args),
        shape_(args.shape),
        sequence_(sequence),
        work_(work),
        width_(shape_.cache_width()),
        scale_(1.0f / std::sqrt(static_cast<float>(shape_.qk_dim()))) {}

  void run(std::int64_t t, HeadGroup group) const {
    for (std::int64_t h = 0; h < group.count; ++h) {
      absorb(t, group.first + h, work_.queries + h * width_);
    }
    std::fill_n(work_.softmax, group.count, SoftmaxState{});
    const std::int64_t length = sequence_.start_pos + t + 1;
    for (std::int64_t index = 0; index * kBlockTokens < length; ++index) {
      attend(cache_page(args_, sequence_, index, length), group.count);
    }
    for (std::int64_t h = 0; h < group.count; ++h) finish(t, group.first + h, h);
  }

 private:
  std::int64_t value_row(std::int64_t head) const {
    if (shape_.kind == MlaKind::kMqa) return head * shape_.v_head_dim;
    return head * (shape_.nope_dim + shape_.v_head_dim) + shape_.nope_dim;
  }

  // [W_UK^T q_nope | q_side], scaled as the scores.
  void absorb(std::int64_t t, std::int64_t head, float* out) const {
    unscaled_query(t, head, out);
    context_.leaf.scale(out, scale_, width_);
  }
  void unscaled_query(std::int64_t t, std::int64_t head, float* out) const {
    const std::int64_t row = sequence_.first_row + t;
    const std::int64_t position = sequence_.start_pos + t;
    if (shape_.kind == MlaKind::kMqa) {
      load_query(context_, args_, row, position, head, out);
      return;
    }
    load_query(context_, args_, row, position, head, work_.query);
    const std::int64_t dn = shape_.nope_dim;
    const Matrix keys(args_.kv_b.slice_rows(value_row(head) - dn, dn));
    MatmulArgs weight;
    weight.weight = keys.data;
    weight.format = keys.format;
    weight.weight_stride = keys.row_bytes;
    weight.depth = keys.cols;
    weight.num_outputs = keys.rows;
    std::fill_n(out, shape_.kv_rank, 0.0f);
    context_.leaf.axpy_rows(weight, work_.query, out);
    std::copy_n(work_.query + dn, shape_.rope_dim, out + shape_.kv_rank);
  }

  void attend(const CachePage& page, std::int64_t heads) const {
    WeightView cached;
    cached.data = page.data;
    cached.format = args_.cache.dtype == DType::kBf16 ? WeightFormat::kBf16 : WeightFormat::kF32;
    cached.rows = page.count;
    cached.cols = width_;
    const Matrix keys(cached);
    multiply(context_, keys, {work_.queries, width_, nullptr, heads, false},
             {work_.scores, kBlockTokens}, work_.product);
    for (std::int64_t h = 0; h < heads; ++h) {
      merge_scores(context_.leaf, work_.scores + h * kBlockTokens, page.count, work_.softmax[h],
                   work_.mixed + h * shape_.kv_rank, shape_.kv_rank);
    }
    OuterArgs args;
    args.a = work_.scores;
    args.a_row = kBlockTokens;
    args.a_depth = 1;
    args.b = page.data;
    args.b_format = keys.format;
    args.b_stride = width_;
    args.c = work_.mixed;
    args.c_stride = args.cols = shape_.kv_rank;
    args.rows = heads;
    args.depth = page.count;
    context_.leaf.outer(args);
  }

  void finish(std::int64_t t, std::int64_t head, std::int64_t h) const {
    const std::int64_t dv = shape_.v_head_dim;
    float* mixed = work_.mixed + h * shape_.kv_rank;
    context_.leaf.scale(mixed, 1.0f / work_.softmax[h].sum, shape_.kv_rank);
    const std::int64_t row = sequence_.first_row + t;
    float* out = args_.out.f32() + (row * shape_.num_heads + head) * dv;
    multiply(context_, Matrix(args_.kv_b.slice_rows(value_row(head), dv)),
             {mixed, shape_.kv_rank, nullptr, 1, false}, {out, dv}, work_.product);
    finish_head(context_, args_, row, head, out);
  }

  const Context& context_;
  const MlaArgs& args_;
  const MlaShape& shape_;
  const SequenceRows& sequence_;
  const AbsorbedWork& work_;
  std::int64_t width_;
  float scale_;
};

// Heads a task takes: all threads busy first, then large groups, since each group reads the whole
// cache. Heads do not touch each other, so the choice changes no bits.
std::int64_t group_size(std::int64_t heads, std::int64_t rows, int threads) {
  return std::clamp<std::int64_t>(heads * rows / threads, 1, std::min(kMaxGroup, heads));
}

}  // namespace

void mla_decode(Context& context, const MlaArgs& args) {
  if (args.shape.kind == MlaKind::kGqa) {
    attend_expanded(context, args, Origin::kGenerated);
    return;
  }
  if (args.kv_b.grouped()) {
    fail(ErrorCode::kUnsupported,
         "mla_decode: layer {}: kv_b is quantised; BF16, F16 or F32 is needed", args.layer);
  }
  write_cache(context, args, Origin::kGenerated);
  AbsorbedWork shape;
  shape.shape = args.shape;
  context.scratch.reserve_workers(shape);
  const std::int64_t heads = args.shape.num_heads;
  const std::int64_t size = group_size(heads, args.batch.num_rows(), context.pool.size());
  const std::int64_t groups = (heads + size - 1) / size;
  const auto body = [&](std::int64_t begin, std::int64_t end, int worker) {
    const AbsorbedWork work = context.scratch.worker(shape, worker);
    for (const SequenceRows& s : args.batch.sequences) {
      if (s.origin != Origin::kGenerated) continue;
      const AbsorbedRow attention(context, args, s, work);
      const std::int64_t first = std::max(begin, s.first_row * groups);
      const std::int64_t last = std::min(end, (s.first_row + s.num_rows) * groups);
      for (std::int64_t task = first; task < last; ++task) {
        const std::int64_t head = task % groups * size;
        attention.run(task / groups - s.first_row, {head, std::min(size, heads - head)});
      }
    }
  };
  context.pool.parallel_for(args.batch.num_rows() * groups, 1, body);
}

}  // namespace baltoro::cpu
