#include "cpu/kda_chunk.h"

#include <algorithm>
#include <cstring>

namespace baltoro::cpu {
namespace {

// Rows of a tile. Inside a tile, pairs are formed one by one; between tiles, by matrix products.
constexpr std::int64_t kTile = 16;

void copy(float* to, const float* from, std::int64_t count) {
  std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
}

// With d(i, j) = the product of the decays of rows j+1..i (per key channel), the block is
//   kk[i, j] = k_i . (d(i, j) k_j)   for j < i
//   qk[i, j] = q_i . (d(i, j) k_j)   for j <= i
//   delta_i  = beta_i (v_i - S0^T (d(i, -1) k_i) - sum_{j<i} kk[i, j] delta_j)
//   o_i      = S0^T (d(i, -1) q_i) + sum_{j<=i} qk[i, j] delta_j
//   S        = Diag(d(n-1, -1)) S0 + sum_j (d(n-1, j) k_j) delta_j^T
// and delta follows by forward substitution.
// Every d is a product of factors in [0, 1]: no exponent of a cumulated gate is formed, so both
// gate forms are safe, and a strong decay underflows to the zero that it is. A pair (i, j) of
// different tiles splits at the start of i's tile, d(i, j) = d(i, start - 1) d(start - 1, j): no
// row after i takes part.
class Chunk {
 public:
  Chunk(const Context& context, const KdaRows& rows, const KdaChunkWork& work)
      : leaf_(context.leaf), context_(context), rows_(rows), work_(work), dk_(rows.dk) {}

  void run(float* state, float* out) {
    decay_from_start();
    for (std::int64_t begin = 0; begin < rows_.count; begin += kTile) {
      const std::int64_t count = std::min(kTile, rows_.count - begin);
      pairs_with_earlier_tiles(begin, count);
      pairs_inside(begin, count);
      finish_tile(begin, count);
    }
    solve(state);
    read(state, out);
    update(state);
  }

 private:
  const float* decay(std::int64_t row) const { return rows_.decay + row * dk_; }

  // q and k of rows [begin, begin + count) times the decays of this and the earlier rows that
  // `running` has gathered.
  void decay_rows(std::int64_t begin, std::int64_t count, float* running, float* q, float* k) {
    KdaDecayArgs args;
    args.decay = decay(begin);
    args.stride = args.dk = dk_;
    args.n = count;
    args.x[0] = rows_.q + begin * dk_;
    args.x[1] = rows_.k + begin * dk_;
    args.out[0] = q;
    args.out[1] = k;
    args.running = running;
    leaf_.kda_decay(args);
  }

  // decayed_q, decayed_k: what meets the state at the block's start; total: the whole decay.
  void decay_from_start() {
    std::fill_n(work_.total, dk_, 1.0f);
    decay_rows(0, rows_.count, work_.total, work_.decayed_q, work_.decayed_k);
  }

  void pairs_with_earlier_tiles(std::int64_t begin, std::int64_t count) {
    if (begin == 0) return;
    std::fill_n(work_.running, dk_, 1.0f);
    decay_rows(begin, count, work_.running, work_.tile_q, work_.tile_k);
    const Matrix earlier(work_.ahead_k, dk_, begin, dk_);
    const std::int64_t at = begin * kBlockTokens;
    multiply(context_, earlier, {work_.tile_k, dk_, nullptr, count, false},
             {work_.kk + at, kBlockTokens}, work_.product);
    multiply(context_, earlier, {work_.tile_q, dk_, nullptr, count, false},
             {work_.qk + at, kBlockTokens}, work_.product);
  }

  void pairs_inside(std::int64_t begin, std::int64_t count) {
    KdaPairsArgs pairs;
    pairs.q = rows_.q + begin * dk_;
    pairs.k = rows_.k + begin * dk_;
    pairs.decay = decay(begin);
    pairs.n = count;
    pairs.dk = dk_;
    pairs.kk = work_.kk + begin * kBlockTokens + begin;
    pairs.qk = work_.qk + begin * kBlockTokens + begin;
    pairs.pair_stride = kBlockTokens;
    pairs.scratch = work_.running;
    leaf_.kda_pairs(pairs);
  }

  // ahead_k of this tile and of the earlier ones, carried to this tile's end.
  void finish_tile(std::int64_t begin, std::int64_t count) {
    std::fill_n(work_.running, dk_, 1.0f);
    const std::int64_t last = begin + count - 1;
    KdaDecayArgs args;
    args.decay = decay(last);
    args.stride = -dk_;
    args.n = count;
    args.dk = dk_;
    args.inclusive = false;
    args.x[0] = rows_.k + last * dk_;
    args.out[0] = work_.ahead_k + last * dk_;
    args.running = work_.running;
    leaf_.kda_decay(args);
    for (std::int64_t j = 0; j < begin; ++j) {
      leaf_.decay_row(work_.ahead_k + j * dk_, work_.running, dk_);
    }
  }

  // out[i] += sum_{j<=i} pairs[i, j] delta[j] for the rows of one tile: the rectangle of earlier
  // tiles first, then row by row.
  void lower_product(const float* pairs, std::int64_t begin, std::int64_t count, float* out) const {
    outer(pairs + begin * kBlockTokens, count, begin, out + begin * rows_.dv);
    for (std::int64_t i = begin; i < begin + count; ++i) {
      OuterArgs row = outer_args(pairs + i * kBlockTokens + begin, 1, i - begin + 1);
      row.b = work_.delta + begin * rows_.dv;
      row.c = out + i * rows_.dv;
      leaf_.outer(row);
    }
  }
  OuterArgs outer_args(const float* pairs, std::int64_t count, std::int64_t depth) const {
    OuterArgs args;
    args.a = pairs;
    args.a_row = kBlockTokens;
    args.a_depth = 1;
    args.b_stride = args.c_stride = args.cols = rows_.dv;
    args.rows = count;
    args.depth = depth;
    return args;
  }
  void outer(const float* pairs, std::int64_t count, std::int64_t depth, float* out) const {
    OuterArgs args = outer_args(pairs, count, depth);
    args.b = work_.delta;
    args.c = out;
    leaf_.outer(args);
  }

  // out += rows S, rows [count, Dk].
  void times_state(const float* rows, const float* state, float* out) const {
    OuterArgs args;
    args.a = rows;
    args.a_row = dk_;
    args.a_depth = 1;
    args.b = state;
    args.c = out;
    args.b_stride = args.c_stride = args.cols = rows_.dv;
    args.rows = rows_.count;
    args.depth = dk_;
    leaf_.outer(args);
  }

  // delta by forward substitution: first beta_i v_i with the state's prediction taken off, then the
  // rows before. The coefficients are negated so that `outer` subtracts.
  void solve(const float* state) {
    const std::int64_t dv = rows_.dv;
    copy(work_.delta, rows_.v, rows_.count * dv);
    leaf_.scale(work_.decayed_k, -1.0f, rows_.count * dk_);
    times_state(work_.decayed_k, state, work_.delta);
    for (std::int64_t i = 0; i < rows_.count; ++i) {
      leaf_.scale(work_.delta + i * dv, rows_.beta[i], dv);
      leaf_.scale(work_.kk + i * kBlockTokens, -rows_.beta[i], i);
    }
    for (std::int64_t begin = 0; begin < rows_.count; begin += kTile) {
      const std::int64_t count = std::min(kTile, rows_.count - begin);
      outer(work_.kk + begin * kBlockTokens, count, begin, work_.delta + begin * dv);
      for (std::int64_t i = begin + 1; i < begin + count; ++i) {
        OuterArgs row = outer_args(work_.kk + i * kBlockTokens + begin, 1, i - begin);
        row.b = work_.delta + begin * dv;
        row.c = work_.delta + i * dv;
        leaf_.outer(row);
      }
    }
  }

  void read(const float* state, float* out) const {
    std::fill_n(out, rows_.count * rows_.dv, 0.0f);
    times_state(work_.decayed_q, state, out);
    for (std::int64_t begin = 0; begin < rows_.count; begin += kTile) {
      lower_product(work_.qk, begin, std::min(kTile, rows_.count - begin), out);
    }
  }

  void update(float* state) const {
    for (std::int64_t d = 0; d < dk_; ++d) {
      leaf_.scale(state + d * rows_.dv, work_.total[d], rows_.dv);
    }
    OuterArgs args;
    args.a = work_.ahead_k;
    args.a_row = 1;
    args.a_depth = dk_;
    args.b = work_.delta;
    args.c = state;
    args.b_stride = args.c_stride = args.cols = rows_.dv;
    args.rows = dk_;
    args.depth = rows_.count;
    leaf_.outer(args);
  }

  const LeafTable& leaf_;
  const Context& context_;
  const KdaRows& rows_;
  const KdaChunkWork& work_;
  std::int64_t dk_;
};

}  // namespace

void KdaChunkWork::carve(Carver& carver) {
  product.carve(carver);
  decayed_q = carver.floats(kBlockTokens * dk);
  decayed_k = carver.floats(kBlockTokens * dk);
  tile_q = carver.floats(kTile * dk);
  tile_k = carver.floats(kTile * dk);
  ahead_k = carver.floats(kBlockTokens * dk);
  total = carver.floats(dk);
  running = carver.floats(dk);
  kk = carver.floats(kBlockTokens * kBlockTokens);
  qk = carver.floats(kBlockTokens * kBlockTokens);
  delta = carver.floats(kBlockTokens * dv);
}

void kda_chunk(const Context& context, const KdaRows& rows, float* state, float* out,
               const KdaChunkWork& work) {
  Chunk(context, rows, work).run(state, out);
}

}  // namespace baltoro::cpu
