// Expanded attention: keys and values of a head are up-projected page by page and met by all rows
// of the sequence. One task a head of a sequence.
#include <algorithm>
#include <cmath>

#include "cpu/attention.h"
#include "cpu/expanded.h"

namespace baltoro::cpu {
namespace {

struct ExpandedWork {
  MlaShape shape;
  std::int64_t max_rows = 0;  // longest run of rows of a sequence
  ProductWork product;
  float* latent = nullptr;          // [page, cache_width], not for kGqa
  float* keys = nullptr;            // [page, qk_dim]
  float* values = nullptr;          // [page, Dv]
  float* queries = nullptr;         // [kMatmulRows, qk_dim]
  float* scores = nullptr;          // [kMatmulRows, page]
  SoftmaxState* softmax = nullptr;  // [max_rows]

  void carve(Carver& carver) {
    product.carve(carver);
    latent = carver.floats(kBlockTokens * shape.cache_width());
    keys = carver.floats(kBlockTokens * shape.qk_dim());
    values = carver.floats(kBlockTokens * shape.v_head_dim);
    queries = carver.floats(kMatmulRows * shape.qk_dim());
    scores = carver.floats(kMatmulRows * kBlockTokens);
    softmax = carver.take<SoftmaxState>(max_rows);
  }
};

class ExpandedHead {
 public:
  ExpandedHead(const Context& context, const MlaArgs& args, const SequenceRows& sequence,
               std::int64_t head, const ExpandedWork& work)
      : context_(context),
        args_(args),
        shape_(args.shape),
        sequence_(sequence),
        head_(head),
        work_(work),
        out_stride_(shape_.num_heads * shape_.v_head_dim),
        scale_(1.0f / std::sqrt(static_cast<float>(shape_.qk_dim()))) {}

  void run() {
    std::fill_n(work_.softmax, sequence_.num_rows, SoftmaxState{});
    const std::int64_t length = sequence_.start_pos + sequence_.num_rows;
    for (std::int64_t index = 0; index * kBlockTokens < length; ++index) {
      const CachePage page = cache_page(args_, sequence_, index, length);
      expand(page);
      const std::int64_t first = std::max<std::int64_t>(0, page.first_pos - sequence_.start_pos);
      for (std::int64_t t = first; t < sequence_.num_rows; t += kMatmulRows) {
        attend(page, t, std::min(kMatmulRows, sequence_.num_rows - t));
      }
    }
    for (std::int64_t t = 0; t < sequence_.num_rows; ++t) {
      context_.leaf.scale(out(t), 1.0f / work_.softmax[t].sum, shape_.v_head_dim);
      finish_head(context_, args_, sequence_.first_row + t, head_, out(t));
    }
  }

 private:
  // The output row also accumulates: nothing else reads it before it is finished.
  float* out(std::int64_t t) const {
    return args_.out.f32() + (sequence_.first_row + t) * out_stride_ + head_ * shape_.v_head_dim;
  }

  void expand(const CachePage& page) const {
    const std::int64_t dn = shape_.nope_dim, dr = shape_.rope_dim, dv = shape_.v_head_dim;
    if (shape_.kind == MlaKind::kGqa) {
      const std::int64_t group = head_ / (shape_.num_heads / shape_.num_kv_heads);
      decode_page(context_, args_, page, {group * dn, dn}, {work_.keys, dn});
      decode_page(context_, args_, page, {shape_.num_kv_heads * dn + group * dv, dv},
                  {work_.values, dv});
      return;
    }
    const std::int64_t width = shape_.cache_width(), rank = shape_.kv_rank;
    decode_page(context_, args_, page, {0, width}, {work_.latent, width});
    const Rows latents{work_.latent, width, nullptr, page.count, context_.round};
    std::int64_t first_row = head_ * dv;
    if (shape_.kind == MlaKind::kLatent) {
      first_row = head_ * (dn + dv) + dn;
      multiply(context_, Matrix(args_.kv_b.slice_rows(first_row - dn, dn)), latents,
               {work_.keys, dn + dr}, work_.product);
      for (std::int64_t j = 0; j < page.count; ++j) {
        std::copy_n(work_.latent + j * width + rank, dr, work_.keys + j * (dn + dr) + dn);
      }
    }
    multiply(context_, Matrix(args_.kv_b.slice_rows(first_row, dv)), latents, {work_.values, dv},
             work_.product);
  }

  // Rows [begin, begin + count) of the sequence, none before the page.
  void attend(const CachePage& page, std::int64_t begin, std::int64_t count) const {
    const std::int64_t dim = shape_.qk_dim();
    for (std::int64_t r = 0; r < count; ++r) {
      load_query(context_, args_, sequence_.first_row + begin + r, sequence_.start_pos + begin + r,
                 head_, work_.queries + r * dim);
    }
    // Queries of latent width meet the cached rows themselves.
    const float* keys = shape_.kind == MlaKind::kMqa ? work_.latent : work_.keys;
    multiply(context_, Matrix(keys, dim, page.count, dim),
             {work_.queries, dim, nullptr, count, false}, {work_.scores, kBlockTokens},
             work_.product);
    context_.leaf.scale(work_.scores, scale_, count * kBlockTokens);
    std::int64_t whole = count;  // rows from here on see the whole page
    for (std::int64_t r = 0; r < count; ++r) {
      const std::int64_t visible =
          std::min(kBlockTokens, sequence_.start_pos + begin + r + 1 - page.first_pos);
      if (visible == kBlockTokens) whole = std::min(whole, r);
      merge_scores(context_.leaf, work_.scores + r * kBlockTokens, visible,
                   work_.softmax[begin + r], out(begin + r), shape_.v_head_dim);
      // A row inside the page stops at its own key: a later row must not reach it, even times zero.
      if (visible < kBlockTokens) accumulate(begin, r, 1, visible);
    }
    accumulate(begin, whole, count - whole, kBlockTokens);
  }

  void accumulate(std::int64_t begin, std::int64_t r, std::int64_t rows, std::int64_t depth) const {
    OuterArgs args;
    args.a = work_.scores + r * kBlockTokens;
    args.a_row = kBlockTokens;
    args.a_depth = 1;
    args.b = work_.values;
    args.b_stride = args.cols = shape_.v_head_dim;
    args.c = out(begin + r);
    args.c_stride = out_stride_;
    args.rows = rows;
    args.depth = depth;
    context_.leaf.outer(args);
  }

  const Context& context_;
  const MlaArgs& args_;
  const MlaShape& shape_;
  const SequenceRows& sequence_;
  std::int64_t head_;
  const ExpandedWork& work_;
  std::int64_t out_stride_;
  float scale_;
};

}  // namespace

void attend_expanded(Context& context, const MlaArgs& args, Origin origin) {
  write_cache(context, args, origin);
  ExpandedWork shape;
  shape.shape = args.shape;
  for (const SequenceRows& s : args.batch.sequences) {
    if (s.origin == origin) shape.max_rows = std::max(shape.max_rows, s.num_rows);
  }
  context.scratch.reserve_workers(shape);
  const std::int64_t heads = args.shape.num_heads;
  const auto body = [&](std::int64_t begin, std::int64_t end, int worker) {
    const ExpandedWork work = context.scratch.worker(shape, worker);
    for (std::int64_t task = begin; task < end; ++task) {
      const SequenceRows& s = args.batch.sequences[static_cast<std::size_t>(task / heads)];
      if (s.origin == origin) ExpandedHead(context, args, s, task % heads, work).run();
    }
  };
  const auto sequences = static_cast<std::int64_t>(args.batch.sequences.size());
  context.pool.parallel_for(sequences * heads, 1, body);
}

void mla_prefill(Context& context, const MlaArgs& args) {
  attend_expanded(context, args, Origin::kPrompt);
}

}  // namespace baltoro::cpu
