#include "cpu/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/error.h"

namespace baltoro::cpu {
namespace {

LeafFormat cache_format(const MlaArgs& args) {
  return args.cache.dtype == DType::kBf16 ? LeafFormat::kBf16 : LeafFormat::kF32;
}

std::int64_t cache_row_bytes(const MlaArgs& args) {
  return args.shape.cache_width() * static_cast<std::int64_t>(dtype_bytes(args.cache.dtype));
}

// Adjacent pairs (2i, 2i + 1) by position * theta^(-2i / size).
void rotate(const Context& context, float theta, std::int64_t position, float* side,
            std::int64_t size) {
  for (std::int64_t i = 0; i + 1 < size; i += 2) {
    // In double: a float angle at position 10^6 is off by 0.03 rad.
    const double exponent = -static_cast<double>(i) / static_cast<double>(size);
    const double angle =
        static_cast<double>(position) * std::pow(static_cast<double>(theta), exponent);
    const auto cosine = static_cast<float>(std::cos(angle));
    const auto sine = static_cast<float>(std::sin(angle));
    const float a = side[i], b = side[i + 1];
    side[i] = a * cosine - b * sine;
    side[i + 1] = a * sine + b * cosine;
  }
  if (context.round) context.leaf.round_bf16(side, size);
}

struct CacheRowWork {
  std::int64_t width = 0;
  float* row = nullptr;
  void carve(Carver& carver) { row = carver.floats(width); }
};

// [normalised latent | side key], or [keys | values] of all heads.
void build_row(const Context& context, const MlaArgs& args, std::int64_t row, std::int64_t position,
               float* out) {
  const MlaShape& shape = args.shape;
  const std::int64_t kv_cols = args.kv.cols();
  std::copy_n(args.kv.f32() + row * kv_cols, kv_cols, out);
  if (shape.kind == MlaKind::kGqa) {
    std::copy_n(args.v.f32() + row * args.v.cols(), args.v.cols(), out + kv_cols);
    return;
  }
  const std::int64_t rank = shape.kv_rank;
  const float mean = context.leaf.sum_squares(out, rank) / static_cast<float>(rank);
  context.leaf.norm_apply(out, 1.0f / std::sqrt(mean + args.kv_norm_eps), args.kv_norm, rank, out,
                          context.round);
  if (args.rope_theta) rotate(context, *args.rope_theta, position, out + rank, shape.rope_dim);
}

void write_row(const Context& context, const MlaArgs& args, const SequenceRows& sequence,
               std::int64_t t, float* row) {
  const std::int64_t position = sequence.start_pos + t;
  build_row(context, args, sequence.first_row + t, position, row);
  const std::int64_t page = sequence.pages[static_cast<std::size_t>(position / kBlockTokens)];
  const std::int64_t slot = page * kBlockTokens + position % kBlockTokens;
  const std::int64_t width = args.shape.cache_width();
  if (args.cache.dtype == DType::kBf16) {
    auto* to = static_cast<std::uint16_t*>(args.cache.data) + slot * width;
    context.leaf.encode_bf16(row, width, to);
  } else {
    std::copy_n(row, width, static_cast<float*>(args.cache.data) + slot * width);
  }
}

}  // namespace

CachePage cache_page(const MlaArgs& args, const SequenceRows& sequence, std::int64_t index,
                     std::int64_t length) {
  const std::int64_t page = sequence.pages[static_cast<std::size_t>(index)];
  const std::int64_t first = index * kBlockTokens;
  const auto* data = static_cast<const std::uint8_t*>(args.cache.data);
  return {data + page * kBlockTokens * cache_row_bytes(args), first,
          std::min(kBlockTokens, length - first)};
}

void decode_page(const Context& context, const MlaArgs& args, const CachePage& page,
                 PageColumns columns, const Output& out) {
  const auto value_bytes = static_cast<std::int64_t>(dtype_bytes(args.cache.dtype));
  if (columns.cols == args.shape.cache_width() && out.stride == columns.cols) {
    context.leaf.decode_row(page.data, nullptr, cache_format(args), page.count * columns.cols,
                            out.data);
    return;
  }
  for (std::int64_t j = 0; j < page.count; ++j) {
    const std::uint8_t* row = page.data + j * cache_row_bytes(args) + columns.begin * value_bytes;
    context.leaf.decode_row(row, nullptr, cache_format(args), columns.cols,
                            out.data + j * out.stride);
  }
}

void write_cache(Context& context, const MlaArgs& args, Origin origin) {
  if (args.cache.dtype == DType::kE4m3) {
    fail(ErrorCode::kUnsupported,
         "mla: the CPU keeps latents as bf16 or f32, like activations; use --latents auto");
  }
  const CacheRowWork shape{args.shape.cache_width(), nullptr};
  context.scratch.reserve_workers(shape);
  const std::span<const SequenceRows> sequences = args.batch.sequences;
  // Rows of the batch belong to sequences in ascending order.
  const auto body = [&](std::int64_t begin, std::int64_t end, int worker) {
    const CacheRowWork work = context.scratch.worker(shape, worker);
    for (const SequenceRows& s : sequences) {
      if (s.origin != origin) continue;
      const std::int64_t first = std::max(begin, s.first_row);
      const std::int64_t last = std::min(end, s.first_row + s.num_rows);
      for (std::int64_t r = first; r < last; ++r) {
        write_row(context, args, s, r - s.first_row, work.row);
      }
    }
  };
  context.pool.parallel_for(args.batch.num_rows(), 16, body);
}

void load_query(const Context& context, const MlaArgs& args, std::int64_t row,
                std::int64_t position, std::int64_t head, float* out) {
  const MlaShape& shape = args.shape;
  const std::int64_t dim = shape.qk_dim();
  std::copy_n(args.q.f32() + row * args.q.cols() + head * dim, dim, out);
  if (args.rope_theta) {
    rotate(context, *args.rope_theta, position, out + shape.nope_dim, shape.rope_dim);
  }
}

void merge_scores(const LeafTable& leaf, float* scores, std::int64_t count, SoftmaxState& state,
                  float* out, std::int64_t cols) {
  const float page_largest = leaf.max(scores, count);
  if (state.empty) {
    state = {page_largest, leaf.exp_sum(scores, count, page_largest), false};
    std::fill_n(out, cols, 0.0f);
    return;
  }
  const float largest = std::max(state.largest, page_largest);
  const float kept = std::exp(state.largest - largest);
  state.sum = state.sum * kept + leaf.exp_sum(scores, count, largest);
  state.largest = largest;
  if (kept != 1.0f) leaf.scale(out, kept, cols);
}

void finish_head(const Context& context, const MlaArgs& args, std::int64_t row, std::int64_t head,
                 const float* attention) {
  const std::int64_t dv = args.shape.v_head_dim;
  const std::int64_t at = (row * args.shape.num_heads + head) * dv;
  float* out = args.out.f32() + at;
  if (attention != out) std::copy_n(attention, dv, out);
  if (context.round) context.leaf.round_bf16(out, dv);
  if (args.gate) context.leaf.gate_apply(out, args.gate.f32() + at, dv, out, context.round);
}

}  // namespace baltoro::cpu
