// Matmul over rows of bf16 values with VDPBF16PS: each of 16 lanes takes two products a step. Only
// weights that are exact in bf16 come here; the others use the f32 loops. The order of the sums
// differs from the f32 loops but is again fixed by the depth alone: a chunk of columns is summed from
// zero, then added to the chunks before it. Such short chains of dependent products keep the
// processor busy with few rows, and the additions run beside the products of many.
//
// Packed rows come in tiles of kRowTile (fewer at the end): for every 32 columns the rows of a tile,
// one after the other.

namespace baltoro::cpu {
namespace {

constexpr int kRowTile = 4;
constexpr int kFewRows = kRowTile;              // decoding in registers beats a panel
constexpr int kOutputTile = 3;                  // 12 sums of a chunk and 12 of all in registers
constexpr std::int64_t kPanelDepth = 1024;      // columns of a panel
constexpr std::int64_t kRowsTogether = 8;       // share a panel tile: with it half of L1
constexpr std::int64_t kFewRowsDepth = 8192;    // columns that few rows pack at a time
constexpr std::int64_t kPrefetchAhead = 20480;  // bytes; measured 12 to 32 KiB

// One tile of `count` rows, columns from x[r] on.
template <LeafFormat F>
void pack_tile(const float* const* x, std::int64_t count, std::int64_t depth, std::uint16_t* out) {
  for (std::int64_t k = 0; k < depth; k += kChunk) {
    for (std::int64_t r = 0; r < count; ++r) {
      const Chunk chunk = activation_chunk<F>(x[r] + k, depth - k);
      for (int i = 0; i < 4; ++i) {
        _mm512_storeu_si512(out + (k + i * kPair) * count + r * kPair, chunk.part[i]);
      }
    }
  }
}

inline std::int64_t tile_rows(std::int64_t m, std::int64_t num_rows) {
  return num_rows - m < kRowTile ? num_rows - m : kRowTile;
}

// Tile after tile, each row packed_depth words.
template <LeafFormat F>
void pack_tiles(const PackArgs& a) {
  for (std::int64_t m = 0; m < a.num_rows; m += kRowTile) {
    const std::int64_t count = tile_rows(m, a.num_rows);
    const float* x[kRowTile];
    for (std::int64_t r = 0; r < count; ++r) {
      x[r] = a.x + (a.x_rows != nullptr ? a.x_rows[m + r] : m + r) * a.x_stride;
    }
    std::uint16_t* out = a.out + m * packed_depth(a.depth);
    pack_tile<F>(x, count, a.depth, out);
    if (a.narrow != nullptr && !any_word_outside(out, count * packed_depth(a.depth))) {
      for (std::int64_t r = 0; r < count; ++r) a.narrow[m + r] = 1;
    }
  }
}

void pack_rows(const PackArgs& a) {
  if (a.format == LeafFormat::kMxfp4) return pack_tiles<LeafFormat::kMxfp4>(a);
  pack_tiles<LeafFormat::kBf16>(a);
}

// Packed rows from column `begin` on, `depth` words a row.
struct PackedBlock {
  const std::uint16_t* rows;
  std::int64_t depth, begin;

  const std::uint16_t* tile(std::int64_t m, std::int64_t count) const {
    return rows + m * depth + begin * count;
  }
};

// The rows of a depth block: from args.packed, or packed here into `place`.
template <typename Reader>
PackedBlock packed_block(const MatmulArgs& a, const DepthBlock& block, std::uint16_t* place) {
  if (a.packed != nullptr) return {a.packed, packed_depth(a.depth), block.begin};
  PackArgs pack;
  pack.x = a.x + block.begin;
  pack.x_stride = a.x_stride;
  pack.x_rows = a.x_rows;
  pack.num_rows = a.num_rows;
  pack.depth = block.count;
  pack.out = place;
  pack_tiles<Reader::kOrder>(pack);
  return {place, packed_depth(block.count), 0};
}

// Of R rows by N outputs: where they begin.
struct TilePlace {
  std::int64_t m, n;
};

template <int R, int N>
inline void add_sums(Accumulators<R, N>& sums, const Accumulators<R, N>& part) {
  for (int r = 0; r < R; ++r) {
    for (int j = 0; j < N; ++j) sums.acc[r][j] = sums.acc[r][j] + part.acc[r][j];
  }
}

// A chunk of N weight rows times R activation rows.
template <int R, int N>
inline void multiply_chunk(const Chunk* w, const std::uint16_t* x, Accumulators<R, N>& part) {
  for (int i = 0; i < 4; ++i) {
    for (int r = 0; r < R; ++r) {
      const __m512bh xv = load_pairs(x + (i * R + r) * kPair);
      for (int j = 0; j < N; ++j) {
        part.acc[r][j].v = _mm512_dpbf16_ps(part.acc[r][j].v, as_bh(w[j].part[i]), xv);
      }
    }
  }
}

// Few rows: each weight is decoded in registers and used for all of them.

template <typename Reader>
inline constexpr bool kScalesSums = false;
template <>
inline constexpr bool kScalesSums<Mxfp4Sums> = true;

// Weight rows that R activation rows read at a time. Plain weights one after the other, in the order
// of memory: several streams, even of neighbours, halve the read bandwidth of Zen 4. Where decoding
// takes as long as reading the prefetcher does not keep up, and lines are asked for in that order
// instead; then rows may share the loads of activations.
template <typename Reader, int R>
inline constexpr int kTogether = kScalesSums<Reader> ? (R <= 2 ? 4 : 2)
                                 : R == 1            ? 1
                                 : R == 2            ? 4
                                                     : 2;

// N weight rows, and the lines that they will read some time from now.
template <typename Reader, int N>
struct DirectWeights {
  Reader row[4];
  const std::uint8_t* ahead;

  DirectWeights(const MatmulArgs& a, std::int64_t n)
      : row{at(a, n, 0), at(a, n, 1), at(a, n, 2), at(a, n, 3)},
        ahead(a.weight + n * a.weight_stride + kPrefetchAhead) {
    static_assert(N <= 4);
  }
  static Reader at(const MatmulArgs& a, std::int64_t n, int j) { return {a, n + (j < N ? j : 0)}; }
};

// Adds `count` columns from k on, a chunk at most, of N weight rows times R activation rows.
template <typename Reader, int R, int N>
inline void add_direct_chunk(const DirectWeights<Reader, N>& weights, std::int64_t k,
                             std::int64_t count, const std::uint16_t* x, Accumulators<R, N>& sums) {
  Accumulators<R, N> part;
  part.clear();
  Chunk w[N];
  for (int j = 0; j < N; ++j) {
    if constexpr (kScalesSums<Reader>) {
      __builtin_prefetch(weights.ahead + (k >> 1) * N + 64 * j, 0, 2);
      w[j] = weights.row[j].unscaled(k, count);
    } else {
      w[j] = read_chunk(weights.row[j], k, count);
    }
  }
  multiply_chunk(w, x, part);
  if constexpr (kScalesSums<Reader>) {
    for (int j = 0; j < N; ++j) {
      const Vec scales = weights.row[j].lane_scales(k, count);
      for (int r = 0; r < R; ++r) sums.acc[r][j] = fma(part.acc[r][j], scales, sums.acc[r][j]);
    }
  } else {
    add_sums(sums, part);
  }
}

template <typename Reader, int R, int N>
void bf16_direct_tile(const MatmulArgs& a, std::int64_t n, const DepthBlock& block,
                      const std::uint16_t* x) {
  float* partial = a.scratch + n * R * kLanes;
  Accumulators<R, N> sums;
  sums.start(block, partial);
  const DirectWeights<Reader, N> weights(a, n);
  if constexpr (kScalesSums<Reader>) {
    // Of the next call.
    prefetch(a.scales + (n + kMatmulOutputs) * a.scale_stride, N * a.scale_stride);
  }
  std::int64_t k = 0;
  for (; k + kChunk <= block.count; k += kChunk) {
    add_direct_chunk(weights, block.begin + k, kChunk, x + k * R, sums);
  }
  if (k < block.count) {
    add_direct_chunk(weights, block.begin + k, block.count - k, x + k * R, sums);
  }
  sums.finish(a, block, 0, n, partial);
}

template <typename Reader, int R>
void bf16_few_rows(const MatmulArgs& a) {
  constexpr int kOutputs = kTogether<Reader, R>;
  auto* place = reinterpret_cast<std::uint16_t*>(a.scratch + kMatmulRows * kMatmulOutputs * kLanes);
  const std::int64_t size = a.packed != nullptr ? a.depth : kFewRowsDepth;
  for (std::int64_t begin = 0; begin < a.depth; begin += size) {
    const DepthBlock block = depth_block(a, begin, size);
    const std::uint16_t* x = packed_block<Reader>(a, block, place).tile(0, R);
    std::int64_t n = 0;
    for (; n + kOutputs <= a.num_outputs; n += kOutputs) {
      bf16_direct_tile<Reader, R, kOutputs>(a, n, block, x);
    }
    for (; n < a.num_outputs; ++n) bf16_direct_tile<Reader, R, 1>(a, n, block, x);
  }
}

// bf16_few_rows<num_rows> for 1 <= num_rows <= R.
template <typename Reader, int R>
void bf16_few_rows_of(const MatmulArgs& a) {
  if (a.num_rows == R) return bf16_few_rows<Reader, R>(a);
  if constexpr (R > 1) bf16_few_rows_of<Reader, R - 1>(a);
}

// Many rows: a panel of weights is decoded once and meets all of them. It lies as packed rows do, in
// tiles of kOutputTile outputs.

template <typename Reader>
void bf16_panel(const MatmulArgs& a, const DepthBlock& block, std::uint16_t* panel) {
  const std::int64_t depth = packed_depth(block.count);
  for (std::int64_t n = 0; n < a.num_outputs; ++n) {
    const std::int64_t first = n / kOutputTile * kOutputTile, left = a.num_outputs - first;
    const std::int64_t count = left < kOutputTile ? left : kOutputTile;
    std::uint16_t* to = panel + first * depth + (n - first) * kPair;
    const Reader row(a, n);
    for (std::int64_t k = 0; k < block.count; k += kChunk) {
      const Chunk w = read_chunk(row, block.begin + k, chunk_size(k, block.count));
      for (int i = 0; i < 4; ++i) _mm512_storeu_si512(to + (k + i * kPair) * count, w.part[i]);
    }
  }
}

// R packed rows times N rows of a panel; the depth is a multiple of the chunk.
template <int R, int N>
inline void add_panel_rows(const std::uint16_t* x, const std::uint16_t* panel, std::int64_t depth,
                           Accumulators<R, N>& sums) {
  for (std::int64_t k = 0; k < depth; k += kChunk, x += R * kChunk, panel += N * kChunk) {
    Accumulators<R, N> part;
    part.clear();
    for (int i = 0; i < 4; ++i) {
      __m512bh xv[R];
      for (int r = 0; r < R; ++r) xv[r] = load_pairs(x + (i * R + r) * kPair);
      for (int j = 0; j < N; ++j) {
        const __m512bh w = load_pairs(panel + (i * N + j) * kPair);
        for (int r = 0; r < R; ++r) part.acc[r][j].v = _mm512_dpbf16_ps(part.acc[r][j].v, w, xv[r]);
      }
    }
    add_sums(sums, part);
  }
}

// The lanes of twelve vectors summed as sum4 does, in half of its operations: vectors share registers,
// and the order within each is kept. Lane 4 r + j of the result is the sum of acc[r][j].
inline __m512 sums_of_tile(const Accumulators<4, 3>& tile) {
  const auto& v = tile.acc;
  // Both halves of a and of b, folded: quarters 0 and 1 belong to a, 2 and 3 to b.
  const auto fold = [](Vec a, Vec b) {
    return _mm512_add_ps(_mm512_shuffle_f32x4(a.v, b.v, 0x44),
                         _mm512_shuffle_f32x4(a.v, b.v, 0xee));
  };
  // Neighbours of a, then of b, in each quarter.
  const auto add_neighbours = [](__m512 a, __m512 b) {
    return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd));
  };
  const __m512 rows01 = add_neighbours(fold(v[0][0], v[0][1]), fold(v[1][0], v[1][1]));
  const __m512 rows23 = add_neighbours(fold(v[2][0], v[2][1]), fold(v[3][0], v[3][1]));
  const __m512 thirds = add_neighbours(fold(v[0][2], v[1][2]), fold(v[2][2], v[3][2]));
  const __m512 firsts = add_neighbours(rows01, rows23);
  const __m512 last = add_neighbours(thirds, thirds);
  const __m512 sums = _mm512_add_ps(_mm512_shuffle_f32x4(firsts, last, 0x88),
                                    _mm512_shuffle_f32x4(firsts, last, 0xdd));
  // Output 0 of four rows, output 1 of them, output 2 of rows 0 and 2 (twice), of rows 1 and 3.
  const __m512i by_rows = _mm512_setr_epi32(0, 4, 8, 8, 1, 5, 12, 12, 2, 6, 9, 9, 3, 7, 13, 13);
  return _mm512_permutexvar_ps(by_rows, sums);
}

// A depth block of the rows and outputs of one call.
struct PanelProduct {
  const MatmulArgs& a;
  DepthBlock block;
  PackedBlock x;
  const std::uint16_t* panel;

  template <int R, int N>
  void tile(const TilePlace& at) const {
    const std::int64_t depth = packed_depth(block.count);
    float* partial = a.scratch + (at.n * kMatmulRows + at.m * N) * kLanes;
    Accumulators<R, N> sums;
    sums.start(block, partial);
    add_panel_rows(x.tile(at.m, R), panel + at.n * depth, depth, sums);
    if constexpr (R == 4 && N == 3) {
      if (block.last) return store_tile(sums_of_tile(sums), at);
    }
    sums.finish(a, block, at.m, at.n, partial);
  }
  void store_tile(__m512 sums, const TilePlace& at) const {
    float* out = a.out + at.m * a.out_stride + at.n;
    _mm_mask_storeu_ps(out, 7, _mm512_castps512_ps128(sums));
    _mm_mask_storeu_ps(out + a.out_stride, 7, _mm512_extractf32x4_ps(sums, 1));
    _mm_mask_storeu_ps(out + 2 * a.out_stride, 7, _mm512_extractf32x4_ps(sums, 2));
    _mm_mask_storeu_ps(out + 3 * a.out_stride, 7, _mm512_extractf32x4_ps(sums, 3));
  }
  // tile<R, outputs> for 1 <= outputs <= N.
  template <int R, int N>
  void tile_of_outputs(const TilePlace& at) const {
    if (a.num_outputs - at.n >= N) return tile<R, N>(at);
    if constexpr (N > 1) tile_of_outputs<R, N - 1>(at);
  }
  // tile<rows, outputs> for 1 <= rows <= R.
  template <int R>
  void tile_of_rows(const TilePlace& at) const {
    if (a.num_rows - at.m >= R) return tile_of_outputs<R, kOutputTile>(at);
    if constexpr (R > 1) tile_of_rows<R - 1>(at);
  }
  void run() const {
    for (std::int64_t first = 0; first < a.num_rows; first += kRowsTogether) {
      const std::int64_t left = a.num_rows - first;
      const std::int64_t end = first + (left < kRowsTogether ? left : kRowsTogether);
      for (std::int64_t n = 0; n < a.num_outputs; n += kOutputTile) {
        for (std::int64_t m = first; m < end; m += kRowTile) tile_of_rows<kRowTile>({m, n});
      }
    }
  }
};

template <typename Reader>
void bf16_many_rows(const MatmulArgs& a) {
  auto* panel = reinterpret_cast<std::uint16_t*>(a.scratch + kMatmulRows * kMatmulOutputs * kLanes);
  std::uint16_t* place = panel + kMatmulOutputs * kPanelDepth;
  static_assert(kMatmulRows * kMatmulOutputs * kLanes +
                    (kMatmulOutputs + kMatmulRows) * kPanelDepth / 2 <=
                kMatmulScratchFloats);
  for (std::int64_t begin = 0; begin < a.depth; begin += kPanelDepth) {
    const DepthBlock block = depth_block(a, begin, kPanelDepth);
    bf16_panel<Reader>(a, block, panel);
    const PackedBlock x = packed_block<Reader>(a, block, place);
    PanelProduct{a, block, x, panel}.run();
  }
}

// Rows in blocks whose sums find room between depth blocks; one depth block needs none.
template <typename Reader>
void bf16_all_rows(const MatmulArgs& all) {
  if (all.num_rows <= kFewRows) return bf16_few_rows_of<Reader, kFewRows>(all);
  const bool together = all.packed != nullptr && all.depth <= kPanelDepth;
  const std::int64_t size = together ? all.num_rows : kMatmulRows;
  MatmulArgs a = all;
  for (std::int64_t m = 0; m < all.num_rows; m += size) {
    a.num_rows = all.num_rows - m < size ? all.num_rows - m : size;
    bf16_many_rows<Reader>(a);
    if (a.packed != nullptr) a.packed += size * packed_depth(a.depth);
    a.out += size * a.out_stride;
  }
}

void matmul_mxfp4(const MatmulArgs& a) {
  if (a.num_rows <= kFewRows && Mxfp4Sums::may_take(a)) {
    bf16_few_rows_of<Mxfp4Sums, kFewRows>(a);
    // Only now, for here they are in L1; a product of other scales is thrown away.
    if (!any_scale_outside(a, kLeastScale, kLargestScale)) return;
  }
  if (any_extreme_scale(a)) return bf16_all_rows<Mxfp4ExtremeReader>(a);
  bf16_all_rows<Mxfp4Reader>(a);
}

void matmul_mxint8(const MatmulArgs& a) {
  if (a.num_rows <= kFewRows) {
    bf16_few_rows_of<Mxint8NarrowReader, kFewRows>(a);
    if (!any_scale_outside(a, kInt8LeastScale, kInt8LargestScale)) return;  // as above
  } else if (!any_scale_outside(a, kInt8LeastScale, kInt8LargestScale)) {
    return bf16_all_rows<Mxint8NarrowReader>(a);
  }
  bf16_all_rows<Mxint8Reader>(a);
}

// More than kMatmulRows rows are packed rows.
void matmul_bf16(const MatmulArgs& a) {
  if (a.format == LeafFormat::kBf16) return bf16_all_rows<Bf16Reader>(a);
  if (a.format == LeafFormat::kMxint8) return matmul_mxint8(a);
  if (a.format == LeafFormat::kMxfp4) return matmul_mxfp4(a);
  matmul(a);
}

}  // namespace
}  // namespace baltoro::cpu
