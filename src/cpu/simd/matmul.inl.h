// Dot products of weight rows with activation rows. Every output has one accumulator of Vec::kLanes
// partial sums that walks the depth in order: the same bits from the loop over few rows, which
// decodes in registers, and from the tiles, which read a decoded panel.

namespace baltoro::cpu {
namespace {

constexpr int kLanes = Vec::kLanes;
constexpr int kPanel = 8;             // weight rows decoded together
constexpr int kTileOutputs = 4;       // of a panel, in registers together
constexpr std::int64_t kDepth = 512;  // columns of a panel: 16 KiB, half of a small L1
// Columns that few_rows permutes at a time.
constexpr std::int64_t kDirectDepth = 4096;
constexpr std::int64_t kGroup = 32;  // MXFP4

template <LeafFormat F>
inline constexpr int kBytes = F == LeafFormat::kF32 ? 4 : 2;

// Values k .. k + kLanes of a row that starts at `row`.
template <LeafFormat F>
inline Vec load_weight(const std::uint8_t* row, std::int64_t k) {
  if constexpr (F == LeafFormat::kF32) return load_f32(row + 4 * k);
  if constexpr (F == LeafFormat::kBf16) return load_bf16(row + 2 * k);
  if constexpr (F == LeafFormat::kF16) return load_f16(row + 2 * k);
}

// The first n of them, zero beyond; reads no byte past the row.
template <LeafFormat F>
inline Vec load_weight_partial(const std::uint8_t* row, std::int64_t k, int n) {
  alignas(64) std::uint8_t bytes[4 * kLanes] = {};
  __builtin_memcpy(bytes, row + kBytes<F> * k, static_cast<std::size_t>(kBytes<F> * n));
  return load_weight<F>(bytes, 0);
}

// 2^(byte - 127); 0 is the subnormal 2^-127, 255 is NaN. A table: one load a group, where the
// special cases would cost as much as the decoding.
struct GroupScales {
  float value[256];
};
constexpr GroupScales make_group_scales() {
  GroupScales scales{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    const std::uint32_t bits = byte == 0 || byte == 255 ? (byte << 23) | 0x00400000u : byte << 23;
    scales.value[byte] = __builtin_bit_cast(float, bits);
  }
  return scales;
}
constexpr GroupScales kGroupScales = make_group_scales();
inline float group_scale(std::uint8_t byte) { return kGroupScales.value[byte]; }

// Calls fn(k, Vec) over the row's values in order. The last Vec may be partial.
template <LeafFormat F, typename Fn>
inline void for_each_weight(const std::uint8_t* row, const std::uint8_t* scales, std::int64_t depth,
                            Fn&& fn) {
  if constexpr (F == LeafFormat::kMxfp4) {
    GroupDecoder group;
    for (std::int64_t k = 0; k < depth; k += kGroup) {
      group.decode(row + k / 2, group_scale(scales[k / kGroup]));
      for (int i = 0; i < kGroup / kLanes; ++i) fn(k + i * kLanes, group.out[i], kLanes);
    }
  } else {
    std::int64_t k = 0;
    for (; k + kLanes <= depth; k += kLanes) fn(k, load_weight<F>(row, k), kLanes);
    const int rest = static_cast<int>(depth - k);
    if (rest > 0) fn(k, load_weight_partial<F>(row, k, rest), rest);
  }
}

inline const float* x_row(const MatmulArgs& a, std::int64_t m) {
  return a.x + (a.x_rows != nullptr ? a.x_rows[m] : m) * a.x_stride;
}

// A block of columns [begin, begin + count) of the depth, and whether it is the first or last.
struct DepthBlock {
  std::int64_t begin, count;
  bool first, last;
};
inline DepthBlock depth_block(const MatmulArgs& a, std::int64_t begin, std::int64_t size) {
  const std::int64_t count = a.depth - begin < size ? a.depth - begin : size;
  return {begin, count, begin == 0, begin + count == a.depth};
}

// Accumulators of R activation rows by N outputs; between depth blocks they rest in `partial`.
template <int R, int N>
struct Accumulators {
  Vec acc[R][N];

  void start(const DepthBlock& block, const float* partial) {
    for (int r = 0; r < R; ++r) {
      for (int j = 0; j < N; ++j) {
        acc[r][j] = block.first ? zero() : load(partial + (r * N + j) * kLanes);
      }
    }
  }
  void finish(const MatmulArgs& a, const DepthBlock& block, std::int64_t m, std::int64_t n,
              float* partial) const {
    for (int r = 0; r < R; ++r) {
      if (!block.last) {
        for (int j = 0; j < N; ++j) store(partial + (r * N + j) * kLanes, acc[r][j]);
        continue;
      }
      float sums[4];
      sum4(acc[r][0], acc[r][N > 1 ? 1 : 0], acc[r][N > 2 ? 2 : 0], acc[r][N > 3 ? 3 : 0], sums);
      float* out = a.out + (m + r) * a.out_stride + n;
      for (int j = 0; j < N && n + j < a.num_outputs; ++j) out[j] = sums[j];
    }
  }
};

// Few rows: each weight is decoded in registers and used for all of them.

template <LeafFormat F, int R, int N>
inline void direct_sums(const MatmulArgs& a, std::int64_t n, const DepthBlock& block,
                        const float* const* x, Accumulators<R, N>& sums) {
  const std::uint8_t* row = a.weight + n * a.weight_stride;
  if constexpr (F == LeafFormat::kMxfp4) {
    const std::uint8_t* scales = a.scales + n * a.scale_stride + block.begin / kGroup;
    row += block.begin / 2;
    for (std::int64_t k = 0; k < block.count; k += kGroup) {
      for (int j = 0; j < N; ++j) {
        GroupDecoder group;
        group.decode(row + j * a.weight_stride + k / 2,
                     group_scale(scales[j * a.scale_stride + k / kGroup]));
        for (int i = 0; i < kGroup / kLanes; ++i) {
          for (int r = 0; r < R; ++r) {
            sums.acc[r][j] = fma(group.out[i], load(x[r] + k + i * kLanes), sums.acc[r][j]);
          }
        }
      }
    }
    return;
  } else {
    row += kBytes<F> * block.begin;
    std::int64_t k = 0;
    for (; k + kLanes <= block.count; k += kLanes) {
      Vec xv[R];
      for (int r = 0; r < R; ++r) xv[r] = load(x[r] + k);
      for (int j = 0; j < N; ++j) {
        const Vec w = load_weight<F>(row + j * a.weight_stride, k);
        for (int r = 0; r < R; ++r) sums.acc[r][j] = fma(w, xv[r], sums.acc[r][j]);
      }
    }
    const int rest = static_cast<int>(block.count - k);
    for (int r = 0; rest > 0 && r < R; ++r) {
      const Vec xv = load_partial(x[r] + k, rest);
      for (int j = 0; j < N; ++j) {
        const Vec w = load_weight_partial<F>(row + j * a.weight_stride, k, rest);
        sums.acc[r][j] = fma(w, xv, sums.acc[r][j]);
      }
    }
  }
}

template <LeafFormat F, int R, int N>
inline void direct_tile(const MatmulArgs& a, std::int64_t n, const DepthBlock& block,
                        const float* const* x, float* partial) {
  Accumulators<R, N> sums;
  sums.start(block, partial);
  direct_sums<F, R, N>(a, n, block, x, sums);
  sums.finish(a, block, 0, n, partial);
}

// The activations of one depth block in the order in which GroupDecoder gives the weights.
inline void permute_row(const float* x, std::int64_t count, float* out) {
  for (std::int64_t k = 0; k < count; k += kGroup) GroupDecoder::permute(x + k, out + k);
}

template <LeafFormat F, int R>
void few_rows(const MatmulArgs& a) {
  constexpr bool kPermute = F == LeafFormat::kMxfp4 && GroupDecoder::kPermuted;
  // Registers: MXFP4 decoding needs half of them.
  constexpr int kOutputs = F == LeafFormat::kMxfp4 && R > 1 ? 2 : kTileOutputs;
  const std::int64_t size = kPermute ? kDirectDepth : a.depth;
  float* permuted = a.scratch + kMatmulRows * kMatmulOutputs * 16;
  for (std::int64_t begin = 0; begin < a.depth; begin += size) {
    const DepthBlock block = depth_block(a, begin, size);
    const float* x[R];
    for (int r = 0; r < R; ++r) {
      x[r] = x_row(a, r) + begin;
      if constexpr (kPermute) {
        permute_row(x[r], block.count, permuted + r * kDirectDepth);
        x[r] = permuted + r * kDirectDepth;
      }
    }
    float* partial = a.scratch;
    std::int64_t n = 0;
    for (; n + kOutputs <= a.num_outputs; n += kOutputs) {
      direct_tile<F, R, kOutputs>(a, n, block, x, partial + n * R * kLanes);
    }
    for (; n < a.num_outputs; ++n) {
      direct_tile<F, R, 1>(a, n, block, x, partial + n * R * kLanes);
    }
  }
}

// Many rows: a panel of weights is decoded once and meets all of them.

// Lines of the next depth block: the pieces of a row are too short for the hardware prefetcher.
inline void prefetch(const std::uint8_t* p, std::int64_t bytes) {
  for (std::int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(p + i);
}

// Decodes up to kPanel rows of one depth block, zero-padded to whole Vecs and whole panels.
template <LeafFormat F>
void decode_panel(const MatmulArgs& a, std::int64_t first, const DepthBlock& block, float* panel) {
  for (int n = 0; n < kPanel; ++n) {
    float* to = panel + n * kDepth;
    if (first + n >= a.num_outputs) {
      for (std::int64_t k = 0; k < block.count; k += kLanes) store(to + k, zero());
      continue;
    }
    const std::uint8_t* row = a.weight + (first + n) * a.weight_stride;
    const std::uint8_t* scales = nullptr;
    std::int64_t row_bytes = 0;
    if constexpr (F == LeafFormat::kMxfp4) {
      row += block.begin / 2;
      row_bytes = block.count / 2;
      scales = a.scales + (first + n) * a.scale_stride + block.begin / kGroup;
    } else {
      row += kBytes<F> * block.begin;
      row_bytes = kBytes<F> * block.count;
    }
    if (!block.last) prefetch(row + row_bytes, row_bytes);
    for_each_weight<F>(row, scales, block.count,
                       [to](std::int64_t k, Vec v, int) { store(to + k, v); });
  }
}

// Where the activation rows of a depth block are.
struct BlockRows {
  const MatmulArgs& args;
  std::int64_t begin;
  const float* permuted;  // [num_rows, kDepth], or null: the rows themselves

  const float* row(std::int64_t m) const {
    return permuted != nullptr ? permuted + m * kDepth : x_row(args, m) + begin;
  }
};

// R activation rows against kTileOutputs panel rows.
template <int R>
inline void tile(const BlockRows& rows, std::int64_t m, std::int64_t count, const float* panel,
                 Accumulators<R, kTileOutputs>& sums) {
  const float* x[R];
  for (int r = 0; r < R; ++r) x[r] = rows.row(m + r);
  std::int64_t k = 0;
  for (; k + kLanes <= count; k += kLanes) {
    Vec xv[R];
    for (int r = 0; r < R; ++r) xv[r] = load(x[r] + k);
    for (int j = 0; j < kTileOutputs; ++j) {
      const Vec w = load(panel + j * kDepth + k);
      for (int r = 0; r < R; ++r) sums.acc[r][j] = fma(w, xv[r], sums.acc[r][j]);
    }
  }
  const int rest = static_cast<int>(count - k);
  for (int r = 0; rest > 0 && r < R; ++r) {
    const Vec xv = load_partial(x[r] + k, rest);
    for (int j = 0; j < kTileOutputs; ++j) {
      sums.acc[r][j] = fma(load(panel + j * kDepth + k), xv, sums.acc[r][j]);
    }
  }
}

template <int R>
inline void panel_tile(const BlockRows& rows, std::int64_t m, std::int64_t n,
                       const DepthBlock& block, const float* panel, float* partial) {
  Accumulators<R, kTileOutputs> sums;
  sums.start(block, partial);
  tile<R>(rows, m, block.count, panel, sums);
  sums.finish(rows.args, block, m, n, partial);
}

// All activation rows against one panel.
void multiply_panel(const BlockRows& rows, std::int64_t first, const DepthBlock& block,
                    const float* panel, float* partial) {
  constexpr std::int64_t kRowPartial = kTileOutputs * kLanes;
  const MatmulArgs& a = rows.args;
  for (int j = 0; j < kPanel && first + j < a.num_outputs; j += kTileOutputs) {
    const float* weights = panel + j * kDepth;
    float* sums = partial + j * kMatmulRows * kLanes;
    std::int64_t m = 0;
    for (; m + kTileRows <= a.num_rows; m += kTileRows) {
      panel_tile<kTileRows>(rows, m, first + j, block, weights, sums + m * kRowPartial);
    }
    for (; m < a.num_rows; ++m) {
      panel_tile<1>(rows, m, first + j, block, weights, sums + m * kRowPartial);
    }
  }
}

template <LeafFormat F>
void many_rows(const MatmulArgs& a) {
  float* partial = a.scratch;
  float* panel = partial + kMatmulRows * kMatmulOutputs * 16;
  float* permuted = panel + kPanel * kDepth;
  constexpr bool kPermute = F == LeafFormat::kMxfp4 && GroupDecoder::kPermuted;
  for (std::int64_t k = 0; k < a.depth; k += kDepth) {
    const DepthBlock block = depth_block(a, k, kDepth);
    if constexpr (kPermute) {
      for (std::int64_t m = 0; m < a.num_rows; ++m) {
        permute_row(x_row(a, m) + k, block.count, permuted + m * kDepth);
      }
    }
    const BlockRows rows{a, k, kPermute ? permuted : nullptr};
    for (std::int64_t n = 0; n < a.num_outputs; n += kPanel) {
      decode_panel<F>(a, n, block, panel);
      multiply_panel(rows, n, block, panel, partial + n * kMatmulRows * kLanes);
    }
  }
}

template <LeafFormat F>
void matmul_format(const MatmulArgs& a) {
  if (a.num_rows == 1) return few_rows<F, 1>(a);
  if (a.num_rows == 2) return few_rows<F, 2>(a);
  if (a.num_rows == 3) return few_rows<F, 3>(a);
  many_rows<F>(a);
}

void matmul(const MatmulArgs& a) {
  switch (a.format) {
    case LeafFormat::kF32:
      return matmul_format<LeafFormat::kF32>(a);
    case LeafFormat::kBf16:
      return matmul_format<LeafFormat::kBf16>(a);
    case LeafFormat::kF16:
      return matmul_format<LeafFormat::kF16>(a);
    case LeafFormat::kMxfp4:
      return matmul_format<LeafFormat::kMxfp4>(a);
  }
}

template <LeafFormat F>
void decode_row_format(const std::uint8_t* data, const std::uint8_t* scales, std::int64_t n,
                       float* out) {
  for_each_weight<F>(data, scales, n,
                     [out](std::int64_t k, Vec v, int count) { store_partial(out + k, v, count); });
  if constexpr (F == LeafFormat::kMxfp4 && GroupDecoder::kPermuted) {
    // The permutation is its own inverse.
    float group[kGroup];
    for (std::int64_t k = 0; k < n; k += kGroup) {
      GroupDecoder::permute(out + k, group);
      __builtin_memcpy(out + k, group, sizeof(group));
    }
  }
}

void decode_row(const std::uint8_t* data, const std::uint8_t* scales, LeafFormat format,
                std::int64_t n, float* out) {
  switch (format) {
    case LeafFormat::kF32:
      return decode_row_format<LeafFormat::kF32>(data, scales, n, out);
    case LeafFormat::kBf16:
      return decode_row_format<LeafFormat::kBf16>(data, scales, n, out);
    case LeafFormat::kF16:
      return decode_row_format<LeafFormat::kF16>(data, scales, n, out);
    case LeafFormat::kMxfp4:
      return decode_row_format<LeafFormat::kMxfp4>(data, scales, n, out);
  }
}

template <LeafFormat F>
void axpy_rows_format(const MatmulArgs& w, const float* coef, float* out) {
  for (std::int64_t c = 0; c < w.depth; c += 4 * kLanes) {
    // Four Vecs of columns together: independent chains over the rows.
    Vec acc[4];
    int count[4];
    for (int i = 0; i < 4; ++i) {
      const std::int64_t left = w.depth - c - i * kLanes;
      count[i] = left >= kLanes ? kLanes : left > 0 ? static_cast<int>(left) : 0;
      acc[i] = count[i] > 0 ? load_partial(out + c + i * kLanes, count[i]) : zero();
    }
    const bool whole = count[3] == kLanes;
    for (std::int64_t r = 0; r < w.num_outputs; ++r) {
      const std::uint8_t* row = w.weight + r * w.weight_stride;
      const Vec factor = broadcast(coef[r]);
      for (int i = 0; i < 4 && count[i] > 0; ++i) {
        const std::int64_t at = c + i * kLanes;
        const Vec v = whole || count[i] == kLanes ? load_weight<F>(row, at)
                                                  : load_weight_partial<F>(row, at, count[i]);
        acc[i] = fma(factor, v, acc[i]);
      }
    }
    for (int i = 0; i < 4 && count[i] > 0; ++i)
      store_partial(out + c + i * kLanes, acc[i], count[i]);
  }
}

void axpy_rows(const MatmulArgs& w, const float* coef, float* out) {
  if (w.format == LeafFormat::kF32) return axpy_rows_format<LeafFormat::kF32>(w, coef, out);
  if (w.format == LeafFormat::kBf16) return axpy_rows_format<LeafFormat::kBf16>(w, coef, out);
  axpy_rows_format<LeafFormat::kF16>(w, coef, out);
}

}  // namespace
}  // namespace baltoro::cpu
