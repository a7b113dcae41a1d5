// Dot products of weight rows with activation rows. Every output has one accumulator of Vec::kLanes
// partial sums that walks the depth in order: the same bits from the loop over few rows, which
// decodes in registers, and from the tiles, which read a decoded panel.

namespace baltoro::cpu {
namespace {

constexpr int kPanel = 8;             // weight rows decoded together
constexpr int kTileOutputs = 4;       // of a panel, in registers together
constexpr std::int64_t kDepth = 512;  // columns of a panel: 16 KiB, half of a small L1
// Columns that few_rows permutes at a time.
constexpr std::int64_t kDirectDepth = 4096;

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
  void clear() {
    for (int r = 0; r < R; ++r) {
      for (int j = 0; j < N; ++j) acc[r][j] = zero();
    }
  }
  void save(float* partial) const {
    for (int r = 0; r < R; ++r) {
      for (int j = 0; j < N; ++j) store(partial + (r * N + j) * kLanes, acc[r][j]);
    }
  }
  void finish(const MatmulArgs& a, const DepthBlock& block, std::int64_t m, std::int64_t n,
              float* partial) const {
    if (!block.last) return save(partial);
    for (int r = 0; r < R; ++r) {
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
  if constexpr (kGrouped<F>) {
    const std::uint8_t* scales = a.scales + n * a.scale_stride + block.begin / kGroup;
    row += block.begin / kGroup * kGroupBytes<F>;
    for (std::int64_t k = 0; k < block.count; k += kGroup) {
      for (int j = 0; j < N; ++j) {
        Decoder<F> group;
        group.decode(row + j * a.weight_stride + k / kGroup * kGroupBytes<F>,
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

// The R activation rows from `first` on, at the depth block's first column.
template <int R>
struct DirectRows {
  std::int64_t first;
  const float* x[R];
};

template <LeafFormat F, int R, int N>
inline void direct_tile(const MatmulArgs& a, std::int64_t n, const DepthBlock& block,
                        const DirectRows<R>& rows, float* partial) {
  Accumulators<R, N> sums;
  sums.start(block, partial);
  direct_sums<F, R, N>(a, n, block, rows.x, sums);
  sums.finish(a, block, rows.first, n, partial);
}

// The activations of one depth block in the order in which the format's decoder gives the weights.
template <LeafFormat F>
inline void permute_row(const float* x, std::int64_t count, float* out) {
  for (std::int64_t k = 0; k < count; k += kGroup) Decoder<F>::permute(x + k, out + k);
}

template <LeafFormat F, int R>
void few_rows(const MatmulArgs& a, std::int64_t first) {
  constexpr bool kPermute = kGrouped<F> && Decoder<F>::kPermuted;
  // Registers: decoding a group needs half of them.
  constexpr int kOutputs = kGrouped<F> && R > 1 ? 2 : kTileOutputs;
  const std::int64_t size = kPermute ? kDirectDepth : a.depth;
  float* permuted = a.scratch + kMatmulRows * kMatmulOutputs * 16;
  for (std::int64_t begin = 0; begin < a.depth; begin += size) {
    const DepthBlock block = depth_block(a, begin, size);
    DirectRows<R> rows{first, {}};
    for (int r = 0; r < R; ++r) {
      rows.x[r] = x_row(a, first + r) + begin;
      if constexpr (kPermute) {
        permute_row<F>(rows.x[r], block.count, permuted + r * kDirectDepth);
        rows.x[r] = permuted + r * kDirectDepth;
      }
    }
    std::int64_t n = 0;
    for (; n + kOutputs <= a.num_outputs; n += kOutputs) {
      direct_tile<F, R, kOutputs>(a, n, block, rows, a.scratch + n * R * kLanes);
    }
    for (; n < a.num_outputs; ++n) {
      direct_tile<F, R, 1>(a, n, block, rows, a.scratch + n * R * kLanes);
    }
  }
}

// few_rows<F, count> for 1 <= count <= R.
template <LeafFormat F, int R>
void few_rows_of(const MatmulArgs& a, std::int64_t first, std::int64_t count) {
  if (count == R) return few_rows<F, R>(a, first);
  if constexpr (R > 1) few_rows_of<F, R - 1>(a, first, count);
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
    if constexpr (kGrouped<F>) {
      row += block.begin / kGroup * kGroupBytes<F>;
      row_bytes = block.count / kGroup * kGroupBytes<F>;
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

// R activation rows against kTileOutputs panel rows.
template <int R>
inline void tile(const float* x, std::int64_t count, const float* panel,
                 Accumulators<R, kTileOutputs>& sums) {
  for (std::int64_t k = 0; k < count; k += kLanes) {
    Vec xv[R];
    for (int r = 0; r < R; ++r) xv[r] = load(x + r * kDepth + k);
    for (int j = 0; j < kTileOutputs; ++j) {
      const Vec w = load(panel + j * kDepth + k);
      for (int r = 0; r < R; ++r) sums.acc[r][j] = fma(w, xv[r], sums.acc[r][j]);
    }
  }
}

// The packed activation rows, kTileOutputs rows of a panel, and where their partial sums rest:
// [num_rows, kTileOutputs] Vecs.
struct PanelPlace {
  const DepthBlock& block;
  const float* rows;
  const float* panel;
  float* partial;
};

template <int R>
inline void panel_tile(const MatmulArgs& a, std::int64_t m, std::int64_t n,
                       const PanelPlace& place) {
  float* partial = place.partial + m * kTileOutputs * kLanes;
  Accumulators<R, kTileOutputs> sums;
  sums.start(place.block, partial);
  tile<R>(place.rows + m * kDepth, place.block.count, place.panel, sums);
  sums.finish(a, place.block, m, n, partial);
}

// panel_tile<count> for 1 <= count <= R.
template <int R>
inline void panel_tile_of(std::int64_t count, const MatmulArgs& a, std::int64_t m, std::int64_t n,
                          const PanelPlace& place) {
  if (count == R) return panel_tile<R>(a, m, n, place);
  if constexpr (R > 1) panel_tile_of<R - 1>(count, a, m, n, place);
}

// The activations of a depth block as contiguous rows of kDepth floats, in the weights' order and
// zero-padded to whole Vecs: rows of the original may be a multiple of 4 KiB apart, which would put
// them all into the same few sets of L1.
template <LeafFormat F>
void pack_rows(const MatmulArgs& a, const DepthBlock& block, float* packed) {
  for (std::int64_t m = 0; m < a.num_rows; ++m) {
    const float* x = x_row(a, m) + block.begin;
    float* to = packed + m * kDepth;
    if constexpr (kGrouped<F>) {
      permute_row<F>(x, block.count, to);
    } else {
      std::int64_t k = 0;
      for (; k + kLanes <= block.count; k += kLanes) store(to + k, load(x + k));
      if (k < block.count) store(to + k, load_partial(x + k, static_cast<int>(block.count - k)));
    }
  }
}

template <LeafFormat F>
void many_rows(const MatmulArgs& a) {
  float* partial = a.scratch;
  float* panel = partial + kMatmulRows * kMatmulOutputs * 16;
  float* packed = panel + kPanel * kDepth;
  for (std::int64_t k = 0; k < a.depth; k += kDepth) {
    const DepthBlock block = depth_block(a, k, kDepth);
    pack_rows<F>(a, block, packed);
    for (std::int64_t n = 0; n < a.num_outputs; n += kTileOutputs) {
      if (n % kPanel == 0) decode_panel<F>(a, n, block, panel);
      const PanelPlace place{block, packed, panel + n % kPanel * kDepth,
                             partial + n * kMatmulRows * kLanes};
      std::int64_t m = 0;
      for (; m + kTileRows <= a.num_rows; m += kTileRows) panel_tile<kTileRows>(a, m, n, place);
      if (m < a.num_rows) panel_tile_of<kTileRows>(a.num_rows - m, a, m, n, place);
    }
  }
}

template <LeafFormat F>
void matmul_format(const MatmulArgs& a) {
  // Decoding plain formats twice is cheaper than a panel of them.
  constexpr std::int64_t kDirectRows = kGrouped<F> ? kTileRows : 2 * kTileRows;
  if (a.num_rows > kDirectRows) return many_rows<F>(a);
  for (std::int64_t m = 0; m < a.num_rows; m += kTileRows) {
    few_rows_of<F, kTileRows>(a, m, a.num_rows - m < kTileRows ? a.num_rows - m : kTileRows);
  }
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
    case LeafFormat::kMxint8:
      return matmul_format<LeafFormat::kMxint8>(a);
  }
}

}  // namespace
}  // namespace baltoro::cpu
