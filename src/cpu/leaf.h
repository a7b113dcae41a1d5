// The leaf loops of the CPU backend: one table of plain functions per instruction set. The only
// project header that an ISA file may include, so it holds declarations and integers alone: an
// inline function here could be compiled with AVX-512 and then linked for everyone.
//
// All arrays are f32 and dense unless said otherwise. `round` asks for rounding to bf16 at the
// points that the op headers name. Reductions run lane-parallel along their own length in one fixed
// order, so a result never depends on how many rows, heads or threads share the call.
#pragma once

#include <cstddef>
#include <cstdint>

namespace baltoro::cpu {

// Same order as baltoro::WeightFormat.
enum class LeafFormat : std::uint8_t { kF32, kBf16, kF16, kMxfp4, kMxint8 };

// Limits of one matmul call and of the scratch that it needs.
constexpr std::int64_t kMatmulRows = 64;
constexpr std::int64_t kMatmulOutputs = 32;
// Partial sums (at most 16 lanes each), one panel of decoded weights, and packed rows: 512 f32 or
// 1024 bf16 columns of each.
constexpr std::int64_t kMatmulScratchFloats =
    kMatmulRows * kMatmulOutputs * 16 + (kMatmulOutputs + kMatmulRows) * 512;

// Rows of bf16 values that a table has brought into its own order (PackArgs) take their depth
// rounded up to kPackedAlign, in words; rows that begin a block of kPackedRows can be cut off.
// kPackedGroup rows at a time share the decoding of the weights.
constexpr std::int64_t kPackedAlign = 128;
constexpr std::int64_t kPackedRows = 16;
constexpr std::int64_t kPackedGroup = 512;

struct PackArgs {
  const float* x = nullptr;  // rows of bf16 values
  std::int64_t x_stride = 0;
  const std::int32_t* x_rows = nullptr;  // as in MatmulArgs
  std::int64_t num_rows = 0;
  std::int64_t depth = 0;
  LeafFormat format = LeafFormat::kBf16;  // of the weights that the rows will meet
  std::uint16_t* out = nullptr;           // 64-byte aligned
  // [num_rows], cleared by the caller, for kMxfp4: set for rows that are good for MatmulArgs::narrow.
  std::uint8_t* narrow = nullptr;
};

// out[m, n] = sum_k weight[n, k] x[row(m), k] for at most kMatmulOutputs outputs and kMatmulRows
// rows, or any number of packed rows.
struct MatmulArgs {
  const std::uint8_t* weight = nullptr;  // any alignment
  const std::uint8_t* scales = nullptr;  // kMxfp4, kMxint8: E8M0, depth / 32 a row
  LeafFormat format = LeafFormat::kF32;
  std::int64_t weight_stride = 0;  // bytes from row to row
  std::int64_t scale_stride = 0;
  std::int64_t depth = 0;  // kMxfp4, kMxint8: a multiple of 32
  std::int64_t num_outputs = 0;
  const float* x = nullptr;
  std::int64_t x_stride = 0;              // floats
  const std::int32_t* x_rows = nullptr;   // row(m) = x_rows[m], or m where null
  const std::uint16_t* packed = nullptr;  // the rows by pack_rows, for matmul_bf16; null: from x
  // [num_rows] of the packed rows: all values are zero or within the range of magnitudes in which
  // the table may scale sums instead of MXFP4 weights; null: not known.
  const std::uint8_t* narrow = nullptr;
  std::int64_t num_rows = 0;
  float* out = nullptr;
  std::int64_t out_stride = 0;
  float* scratch = nullptr;  // kMatmulScratchFloats, 64-byte aligned
};

// c[i, j] = c[i, j] + a[i, 0] b[0, j] + a[i, 1] b[1, j] + ..., added in this order.
struct OuterArgs {
  const float* a = nullptr;
  std::int64_t a_row = 0;    // floats from i to i + 1
  std::int64_t a_depth = 0;  // floats from k to k + 1
  const void* b = nullptr;
  LeafFormat b_format = LeafFormat::kF32;  // or kBf16
  std::int64_t b_stride = 0;               // values from k to k + 1
  float* c = nullptr;
  std::int64_t c_stride = 0;
  std::int64_t rows = 0, depth = 0, cols = 0;
};

// A factor of decays below this counts as zero. Far above the subnormals, whose arithmetic is a
// hundred times slower, even for the product of two factors; far below what f32 resolves beside
// values of order one.
constexpr float kSmallestDecay = 0x1p-40f;

// Rows times running products of decays, per channel d, walking rows i = 0 .. n - 1 (`stride` floats
// apart, negative to walk back in time):
//   inclusive   running <- running decay_i;  out_i = x_i running
//   exclusive   out_i = x_i running;  running <- running decay_i
struct KdaDecayArgs {
  const float* decay = nullptr;
  std::int64_t stride = 0;
  std::int64_t n = 0, dk = 0;
  bool inclusive = true;
  const float* x[2] = {};  // the second may be null
  float* out[2] = {};
  float* running = nullptr;  // [Dk], in and out
};

// The short convolution of one token, and its history moved on by a row:
//   out = round(silu(taps[c, W-1] x[c] + sum_j taps[c, j] history[j, c])), j from 0 on, x last
struct ConvStepArgs {
  const float* x = nullptr;  // [n]
  float* history = nullptr;  // [W - 1] rows of n, oldest first; null where W = 1
  std::int64_t history_stride = 0;
  const float* taps = nullptr;  // [n, W]
  std::int64_t width = 0, n = 0;
  float* out = nullptr;  // [n]
  bool round = false;
};

// out[c, r] = in[r, c]
struct TransposeArgs {
  const float* in = nullptr;
  std::int64_t in_stride = 0;
  std::int64_t rows = 0, cols = 0;  // of `in`
  float* out = nullptr;
  std::int64_t out_stride = 0;
};

// One head, one token of the delta rule (ops/kda.h): state [Dk, Dv] is updated in place, out [Dv]
// reads the updated state.
struct KdaStepArgs {
  float* state = nullptr;
  std::int64_t dk = 0, dv = 0;
  const float* decay = nullptr;  // [Dk], exp(g)
  const float* q = nullptr;      // [Dk]
  const float* k = nullptr;      // [Dk]
  const float* v = nullptr;      // [Dv]
  float beta = 0;
  float* out = nullptr;      // [Dv]
  float* scratch = nullptr;  // [2 Dk]
};

// Decayed inner products inside one tile of n rows: for i >= j, with d(i, j) the product of the
// decays of rows j+1..i, kk[i, j] = k_i . (d(i, j) k_j) for i > j and qk[i, j] = q_i . (d(i, j)
// k_j). No exponent is formed: every factor is a product of decays and at most 1.
struct KdaPairsArgs {
  const float* q = nullptr;  // [n, Dk]
  const float* k = nullptr;
  const float* decay = nullptr;
  std::int64_t n = 0, dk = 0;
  float* kk = nullptr;
  float* qk = nullptr;
  std::int64_t pair_stride = 0;
  float* scratch = nullptr;  // [Dk rounded up to 16], 64-byte aligned
};

// Floats that the peak functions read and write: at most 32 accumulators of 16 lanes.
constexpr std::int64_t kPeakFloats = 32 * 16;

struct LeafTable {
  const char* name;

  // Rows of any f32 values; bits depend on the row, the weight row and depth alone.
  void (*matmul)(const MatmulArgs& args);
  // The same for rows that hold bf16 values; may use bf16 products.
  void (*matmul_bf16)(const MatmulArgs& args);
  // Packs rows that meet bf16, MXFP4 or MXINT8 weights, so that it happens once an op; null where
  // matmul_bf16 has no order of its own.
  void (*pack_rows)(const PackArgs& args);
  void (*outer)(const OuterArgs& args);
  // out[c] += sum_r coef[r] weight[r, c], r in order; the format has no scales.
  void (*axpy_rows)(const MatmulArgs& weight, const float* coef, float* out);

  // out = n stored values of a row as f32.
  void (*decode_row)(const std::uint8_t* data, const std::uint8_t* scales, LeafFormat format,
                     std::int64_t n, float* out);
  // Nearest-even bf16 words of x.
  void (*encode_bf16)(const float* x, std::int64_t n, std::uint16_t* out);
  void (*round_bf16)(float* x, std::int64_t n);
  // out = round(residual + out); out is already rounded where round is set.
  void (*add)(float* out, const float* residual, std::int64_t n, bool round);
  void (*scale)(float* x, float factor, std::int64_t n);
  // out = a * b
  void (*multiply)(float* out, const float* a, const float* b, std::int64_t n);

  void (*transpose)(const TransposeArgs& args);

  float (*sum_squares)(const float* x, std::int64_t n);
  // sums[0] = x . x, sums[1] = x . w
  void (*squares_and_dot)(const float* x, const float* w, std::int64_t n, float* sums);
  // out = round(sum_i coef[i] src[i]), in order of i.
  void (*weighted_sum)(const float* const* src, const float* coef, std::int64_t count,
                       std::int64_t n, float* out, bool round);
  // out = round(weight * round(x * factor)); x may be out.
  void (*norm_apply)(const float* x, float factor, const float* weight, std::int64_t n, float* out,
                     bool round);
  // out = round(x * factor * weight * sigmoid(gate)), one rounding; gate null: no sigmoid factor.
  void (*norm_gate)(const float* x, float factor, const float* weight, const float* gate,
                    std::int64_t n, float* out, bool round);
  // out = round(x * round(sigmoid(gate)))
  void (*gate_apply)(const float* x, const float* gate, std::int64_t n, float* out, bool round);
  bool (*all_finite)(const float* x, std::int64_t n);

  void (*sigmoid)(const float* x, std::int64_t n, float* out);
  // gate = round(beta tanh(gate / beta) sigmoid(gate) * linear_beta tanh(up / linear_beta))
  void (*situ)(float* gate, const float* up, std::int64_t n, float beta, float linear_beta,
               bool round);
  // gate = round(round(gate sigmoid(gate)) * up)
  void (*swiglu)(float* gate, const float* up, std::int64_t n, bool round);
  float (*max)(const float* x, std::int64_t n);
  // x = exp(x - shift), returns the sum.
  float (*exp_sum)(float* x, std::int64_t n, float shift);

  // [n, width] -> [width, n]
  void (*transpose_taps)(const float* taps, std::int64_t n, std::int64_t width, float* out);
  // out = round(silu(sum_j taps[j, c] rows[j][c])), j in order.
  void (*conv_silu)(const float* const* rows, const float* taps, std::int64_t width, std::int64_t n,
                    float* out, bool round);
  void (*conv_step)(const ConvStepArgs& args);
  // x = x / sqrt(x . x + eps), then times `factor`.
  void (*l2_normalize)(float* x, std::int64_t n, float eps, float factor);
  // out = exp(lower_bound * sigmoid(rate * (x + bias)))
  void (*decay_bounded)(const float* x, const float* bias, std::int64_t n, float rate,
                        float lower_bound, float* out);
  // out = exp(-rate * softplus(x + bias))
  void (*decay_softplus)(const float* x, const float* bias, std::int64_t n, float rate, float* out);
  // row = row * decay, zero where that is below kSmallestDecay.
  void (*decay_row)(float* row, const float* decay, std::int64_t n);
  void (*kda_decay)(const KdaDecayArgs& args);
  void (*kda_step)(const KdaStepArgs& args);
  void (*kda_pairs)(const KdaPairsArgs& args);

  // Multiply-adds on registers alone, f32 and, as matmul_bf16 does them, of bf16 values: the roof of
  // the two matmuls. `lanes` holds kPeakFloats finite values below 1 and is overwritten. Returns the
  // FLOPs done.
  std::int64_t (*peak_f32)(std::int64_t iterations, float* lanes);
  std::int64_t (*peak_bf16)(std::int64_t iterations, float* lanes);
  // The sum of n values, a multiple of 128, by independent chains: the roof of what reads memory.
  float (*sum)(const float* x, std::int64_t n);
};

extern const LeafTable kScalarLeaf;
extern const LeafTable kNeonLeaf;
extern const LeafTable kAvx2Leaf;
extern const LeafTable kAvx512Leaf;
extern const LeafTable kAvx512Bf16Leaf;
extern const LeafTable kAmxLeaf;

}  // namespace baltoro::cpu
