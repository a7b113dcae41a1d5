// Matmul over rows of bf16 values with VDPBF16PS: each of 16 lanes takes two products a step. Only
// bf16 and MXFP4 weights (exact in bf16) come here; the others use the f32 loops. The order of the
// sums differs from the f32 loops but is again fixed by the depth alone.

namespace baltoro::cpu {
namespace {

constexpr int kPair = 32;  // bf16 values of one register

// Packed rows [num_rows, kDepth], packed panel rows and where partial sums rest.
struct Bf16Operands {
  const std::uint16_t* rows;
  const std::uint16_t* panel;
  float* partial;
};

inline __m512bh as_bh(__m512i v) { return __builtin_bit_cast(__m512bh, v); }
inline __m512i as_int(__m512bh v) { return __builtin_bit_cast(__m512i, v); }

inline __m512bh pack(Vec low, Vec high) { return _mm512_cvtne2ps_pbh(high.v, low.v); }

// Activations k .. k + n of a row, zero beyond n.
inline __m512bh pack_row(const float* x, std::int64_t n) {
  if (n >= kPair) return pack(load(x), load(x + 16));
  const int first = n < 16 ? static_cast<int>(n) : 16;
  const int second = static_cast<int>(n) - first;
  return pack(load_partial(x, first), load_partial(x + 16, second));
}

// n (at most 32) weights of a row from column k on, zero beyond; k is a multiple of 32.
template <LeafFormat F>
inline __m512bh weight_pairs(const std::uint8_t* row, const std::uint8_t* scales, std::int64_t k,
                             std::int64_t n) {
  if constexpr (F == LeafFormat::kMxfp4) {
    GroupDecoder group;
    group.decode(row + k / 2, group_scale(scales[k / kGroup]));
    return pack(group.out[0], group.out[1]);
  } else {
    const __mmask32 mask = n >= kPair ? 0xffffffffu : (1u << n) - 1u;
    return as_bh(_mm512_maskz_loadu_epi16(mask, row + 2 * k));
  }
}

template <LeafFormat F, int N>
inline void bf16_one_row_group(const MatmulArgs& a, std::int64_t first, const float* x) {
  Vec acc[kTileOutputs];
  for (int n = 0; n < kTileOutputs; ++n) acc[n] = zero();
  for (std::int64_t k = 0; k < a.depth; k += kPair) {
    const __m512bh xv = pack_row(x + k, a.depth - k);
    for (int n = 0; n < N; ++n) {
      const std::uint8_t* row = a.weight + (first + n) * a.weight_stride;
      const std::uint8_t* scales =
          F == LeafFormat::kMxfp4 ? a.scales + (first + n) * a.scale_stride : nullptr;
      acc[n].v = _mm512_dpbf16_ps(acc[n].v, weight_pairs<F>(row, scales, k, a.depth - k), xv);
    }
  }
  float sums[kTileOutputs];
  sum4(acc[0], acc[1], acc[2], acc[3], sums);
  for (int n = 0; n < N; ++n) a.out[first + n] = sums[n];
}

template <LeafFormat F>
void bf16_one_row(const MatmulArgs& a) {
  const float* x = x_row(a, 0);
  std::int64_t n = 0;
  for (; n + kTileOutputs <= a.num_outputs; n += kTileOutputs) {
    bf16_one_row_group<F, kTileOutputs>(a, n, x);
  }
  for (; n < a.num_outputs; ++n) bf16_one_row_group<F, 1>(a, n, x);
}

// R packed rows against kTileOutputs packed panel rows.
template <int R>
inline void bf16_tile(const std::uint16_t* x, std::int64_t count, const std::uint16_t* panel,
                      Accumulators<R, kTileOutputs>& sums) {
  for (std::int64_t k = 0; k < count; k += kPair) {
    __m512bh xv[R];
    for (int r = 0; r < R; ++r) xv[r] = as_bh(_mm512_loadu_si512(x + r * kDepth + k));
    for (int j = 0; j < kTileOutputs; ++j) {
      const __m512bh w = as_bh(_mm512_loadu_si512(panel + j * kDepth + k));
      for (int r = 0; r < R; ++r) {
        sums.acc[r][j].v = _mm512_dpbf16_ps(sums.acc[r][j].v, w, xv[r]);
      }
    }
  }
}

template <int R>
inline void bf16_panel_tile(const MatmulArgs& a, std::int64_t m, std::int64_t n,
                            const DepthBlock& block, const Bf16Operands& operands) {
  float* partial = operands.partial + n * kMatmulRows * kLanes + m * kTileOutputs * kLanes;
  Accumulators<R, kTileOutputs> sums;
  sums.start(block, partial);
  bf16_tile<R>(operands.rows + m * kDepth, block.count, operands.panel, sums);
  sums.finish(a, block, m, n, partial);
}

template <LeafFormat F>
void bf16_panel(const MatmulArgs& a, std::int64_t first, const DepthBlock& block,
                std::uint16_t* panel) {
  for (int n = 0; n < kPanel; ++n) {
    const bool present = first + n < a.num_outputs;
    const std::uint8_t* row = a.weight + (first + n) * a.weight_stride;
    const std::uint8_t* scales =
        F == LeafFormat::kMxfp4 ? a.scales + (first + n) * a.scale_stride : nullptr;
    for (std::int64_t k = 0; k < block.count; k += kPair) {
      const __m512i w = present
                            ? as_int(weight_pairs<F>(row, scales, block.begin + k, block.count - k))
                            : _mm512_setzero_si512();
      _mm512_storeu_si512(panel + n * kDepth + k, w);
    }
  }
}

template <LeafFormat F>
void bf16_many_rows(const MatmulArgs& a) {
  float* partial = a.scratch;
  auto* panel = reinterpret_cast<std::uint16_t*>(partial + kMatmulRows * kMatmulOutputs * 16);
  auto* rows = panel + 2 * kPanel * kDepth;
  for (std::int64_t begin = 0; begin < a.depth; begin += kDepth) {
    const DepthBlock block = depth_block(a, begin, kDepth);
    for (std::int64_t m = 0; m < a.num_rows; ++m) {
      const float* x = x_row(a, m) + begin;
      for (std::int64_t k = 0; k < block.count; k += kPair) {
        _mm512_storeu_si512(rows + m * kDepth + k, as_int(pack_row(x + k, block.count - k)));
      }
    }
    for (std::int64_t n = 0; n < a.num_outputs; n += kPanel) {
      bf16_panel<F>(a, n, block, panel);
      for (int j = 0; j < kPanel && n + j < a.num_outputs; j += kTileOutputs) {
        const Bf16Operands operands{rows, panel + j * kDepth, partial};
        std::int64_t m = 0;
        for (; m + kTileRows <= a.num_rows; m += kTileRows) {
          bf16_panel_tile<kTileRows>(a, m, n + j, block, operands);
        }
        for (; m < a.num_rows; ++m) bf16_panel_tile<1>(a, m, n + j, block, operands);
      }
    }
  }
}

template <LeafFormat F>
void bf16_format(const MatmulArgs& a) {
  if (a.num_rows == 1) {
    bf16_one_row<F>(a);
  } else {
    bf16_many_rows<F>(a);
  }
}

void matmul_bf16(const MatmulArgs& a) {
  if (a.format == LeafFormat::kBf16) return bf16_format<LeafFormat::kBf16>(a);
  if (a.format == LeafFormat::kMxfp4) return bf16_format<LeafFormat::kMxfp4>(a);
  matmul(a);
}

}  // namespace
}  // namespace baltoro::cpu
