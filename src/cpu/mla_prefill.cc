// Expanded attention: keys and values of a head are up-projected page by page and met by a strip of
// rows of the sequence. One task a head of a sequence.
#include <algorithm>
#include <cmath>

#include "cpu/attention.h"
#include "cpu/expanded.h"

namespace baltoro::cpu {
namespace {

// Rows that share the up-projected page; bounds the scratch.
constexpr std::int64_t kStrip = 512;
// Of these, rows that meet a page together: their scores stay in L1.
constexpr std::int64_t kBlockRows = 64;

struct ExpandedWork {
  MlaShape shape;
  std::int64_t strip = 0;  // rows of the longest strip
  ProductWork product;
  float* latent = nullptr;          // [page, cache_width], not for kGqa
  float* keys = nullptr;            // [page, Dn]
  float* columns = nullptr;         // [qk_dim, page], the keys so that scores run along positions
  float* values = nullptr;          // [page, Dv]
  float* queries = nullptr;         // [strip, qk_dim], scaled as the scores
  float* scores = nullptr;          // [kBlockRows, page]
  float* mixed = nullptr;           // [strip, Dv]: sum of p_j v_j
  SoftmaxState* softmax = nullptr;  // [strip]

  void carve(Carver& carver) {
    product.carve(carver);
    latent = carver.floats(kBlockTokens * shape.cache_width());
    keys = carver.floats(kBlockTokens * shape.nope_dim);
    columns = carver.floats(shape.qk_dim() * kBlockTokens);
    values = carver.floats(kBlockTokens * shape.v_head_dim);
    queries = carver.floats(strip * shape.qk_dim());
    scores = carver.floats(kBlockRows * kBlockTokens);
    mixed = carver.floats(strip * shape.v_head_dim);
    softmax = carver.take<SoftmaxState>(strip);
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
        scale_(1.0f / std::sqrt(static_cast<float>(shape_.qk_dim()))) {}

  void run() const {
    for (std::int64_t begin = 0; begin < sequence_.num_rows; begin += kStrip) {
      run_strip(begin, std::min(kStrip, sequence_.num_rows - begin));
    }
  }

 private:
  // Rows [begin, begin + count) of the sequence; below, rows count from `begin`.
  void run_strip(std::int64_t begin, std::int64_t count) const {
    const std::int64_t dim = shape_.qk_dim(), dv = shape_.v_head_dim;
    const std::int64_t row = sequence_.first_row + begin, position = sequence_.start_pos + begin;
    for (std::int64_t t = 0; t < count; ++t) {
      load_query(context_, args_, row + t, position + t, head_, work_.queries + t * dim);
    }
    context_.leaf.scale(work_.queries, scale_, count * dim);
    std::fill_n(work_.softmax, count, SoftmaxState{});
    const std::int64_t length = position + count;
    for (std::int64_t index = 0; index * kBlockTokens < length; ++index) {
      const CachePage page = cache_page(args_, sequence_, index, length);
      expand(page);
      const std::int64_t first = std::max<std::int64_t>(0, page.first_pos - position);
      for (std::int64_t t = first; t < count; t += kBlockRows) {
        attend(page, position, {t, std::min(kBlockRows, count - t)});
      }
    }
    for (std::int64_t t = 0; t < count; ++t) {
      context_.leaf.scale(mixed(t), 1.0f / work_.softmax[t].sum, dv);
      finish_head(context_, args_, row + t, head_, mixed(t));
    }
  }

  float* mixed(std::int64_t t) const { return work_.mixed + t * shape_.v_head_dim; }

  // Columns [begin, begin + count) of `in` become rows [to, to + count) of `columns`.
  void transpose(const CachePage& page, const Output& in, Range range, std::int64_t to) const {
    TransposeArgs args;
    args.in = in.data + range.begin;
    args.in_stride = in.stride;
    args.rows = page.count;
    args.cols = range.count;
    args.out = work_.columns + to * kBlockTokens;
    args.out_stride = kBlockTokens;
    context_.leaf.transpose(args);
  }

  void expand(const CachePage& page) const {
    const std::int64_t dn = shape_.nope_dim, dr = shape_.rope_dim, dv = shape_.v_head_dim;
    if (shape_.kind == MlaKind::kGqa) {
      const std::int64_t group = head_ / (shape_.num_heads / shape_.num_kv_heads);
      decode_page(context_, args_, page, {group * dn, dn}, {work_.keys, dn});
      transpose(page, {work_.keys, dn}, {0, dn}, 0);
      decode_page(context_, args_, page, {shape_.num_kv_heads * dn + group * dv, dv},
                  {work_.values, dv});
      return;
    }
    const std::int64_t width = shape_.cache_width(), rank = shape_.kv_rank;
    decode_page(context_, args_, page, {0, width}, {work_.latent, width});
    const Rows latents{work_.latent, width, nullptr, page.count, context_.round};
    std::int64_t value_row = head_ * dv;
    if (shape_.kind == MlaKind::kLatent) {
      value_row = head_ * (dn + dv) + dn;
      multiply(context_, Matrix(args_.kv_b.slice_rows(value_row - dn, dn)), latents,
               {work_.keys, dn}, work_.product);
      transpose(page, {work_.keys, dn}, {0, dn}, 0);
    } else {  // queries of latent width meet the cached rows themselves
      transpose(page, {work_.latent, width}, {0, dn}, 0);
    }
    transpose(page, {work_.latent, width}, {rank, dr}, dn);
    multiply(context_, Matrix(args_.kv_b.slice_rows(value_row, dv)), latents, {work_.values, dv},
             work_.product);
  }

  // Rows of the strip, none before the page; position is the strip's first.
  void attend(const CachePage& page, std::int64_t position, Range rows) const {
    score(page, rows);
    std::int64_t whole = rows.count;  // rows from here on see the whole page
    for (std::int64_t r = 0; r < rows.count; ++r) {
      const std::int64_t t = rows.begin + r;
      const std::int64_t visible = std::min(kBlockTokens, position + t + 1 - page.first_pos);
      if (visible == kBlockTokens) whole = std::min(whole, r);
      merge_scores(context_.leaf, work_.scores + r * kBlockTokens, visible, work_.softmax[t],
                   mixed(t), shape_.v_head_dim);
      // A row inside the page stops at its own key: a later row must not reach it, even times zero.
      if (visible < kBlockTokens) accumulate(rows.begin, {r, 1}, visible);
    }
    accumulate(rows.begin, {whole, rows.count - whole}, kBlockTokens);
  }

  void score(const CachePage& page, Range rows) const {
    std::fill_n(work_.scores, rows.count * kBlockTokens, 0.0f);
    OuterArgs args;
    args.a = work_.queries + rows.begin * shape_.qk_dim();
    args.a_row = shape_.qk_dim();
    args.a_depth = 1;
    args.b = work_.columns;
    args.b_stride = args.c_stride = kBlockTokens;
    args.c = work_.scores;
    args.rows = rows.count;
    args.depth = shape_.qk_dim();
    args.cols = page.count;
    context_.leaf.outer(args);
  }

  // Rows of the block that starts at `begin`.
  void accumulate(std::int64_t begin, Range rows, std::int64_t depth) const {
    OuterArgs args;
    args.a = work_.scores + rows.begin * kBlockTokens;
    args.a_row = kBlockTokens;
    args.a_depth = 1;
    args.b = work_.values;
    args.c = mixed(begin + rows.begin);
    args.b_stride = args.c_stride = args.cols = shape_.v_head_dim;
    args.rows = rows.count;
    args.depth = depth;
    context_.leaf.outer(args);
  }

  const Context& context_;
  const MlaArgs& args_;
  const MlaShape& shape_;
  const SequenceRows& sequence_;
  std::int64_t head_;
  const ExpandedWork& work_;
  float scale_;
};

}  // namespace

void attend_expanded(Context& context, const MlaArgs& args, Origin origin) {
  write_cache(context, args, origin);
  ExpandedWork shape;
  shape.shape = args.shape;
  for (const SequenceRows& s : args.batch.sequences) {
    if (s.origin == origin) shape.strip = std::max(shape.strip, std::min(kStrip, s.num_rows));
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
