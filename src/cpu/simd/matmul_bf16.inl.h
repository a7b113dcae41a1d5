// Matmul over rows of bf16 values with VDPBF16PS: each of 16 lanes takes two products a step. Only
// weights that are exact in bf16 come here; the others use the f32 loops. The order of the sums
// differs from the f32 loops but is again fixed by the depth alone: kSumDepth columns are summed
// from zero, then added to the columns before them. Such short chains of dependent products let the
// loop over few rows read one weight row after the other, in the order of memory.

namespace baltoro::cpu {
namespace {

constexpr int kFewRows = 4;  // rows for which decoding in registers beats a panel
constexpr std::int64_t kSumDepth = kDepth;

// Packed rows, `stride` words apart, from the first column of a depth block on.
struct PackedBlock {
  const std::uint16_t* rows;
  std::int64_t stride;
};

template <LeafFormat F>
void pack_row(const float* x, std::int64_t depth, std::uint16_t* out) {
  for (std::int64_t k = 0; k < depth; k += kChunk) {
    const Chunk chunk = activation_chunk<F>(x + k, depth - k);
    for (int i = 0; i < 4; ++i) _mm512_storeu_si512(out + k + i * kPair, chunk.part[i]);
  }
}

// Row after row, each packed_depth words.
void pack_rows(const PackArgs& a) {
  for (std::int64_t m = 0; m < a.num_rows; ++m) {
    const float* x = a.x + (a.x_rows != nullptr ? a.x_rows[m] : m) * a.x_stride;
    std::uint16_t* to = a.out + m * packed_depth(a.depth);
    if (a.format == LeafFormat::kMxfp4) {
      pack_row<LeafFormat::kMxfp4>(x, a.depth, to);
    } else {
      pack_row<LeafFormat::kBf16>(x, a.depth, to);
    }
  }
}

// The rows of a depth block: from args.packed, or packed here into `place`.
template <typename Reader>
PackedBlock packed_block(const MatmulArgs& a, const DepthBlock& block, std::uint16_t* place) {
  if (a.packed != nullptr) return {a.packed + block.begin, packed_depth(a.depth)};
  const std::int64_t stride = packed_depth(block.count);
  for (std::int64_t m = 0; m < a.num_rows; ++m) {
    pack_row<Reader::kOrder>(x_row(a, m) + block.begin, block.count, place + m * stride);
  }
  return {place, stride};
}

// The depth block of weight rows n + first .. n + first + Together times R activation rows, added
// to the sums of outputs n and following.
template <typename Reader, int Together, int R, int N>
inline void bf16_block_sums(const MatmulArgs& a, std::int64_t n, int first, const DepthBlock& block,
                            const PackedBlock& x, Accumulators<R, N>& sums) {
  const auto row = [&](int j) { return Reader(a, n + first + (j < Together ? j : 0)); };
  const Reader rows[kTileOutputs] = {row(0), row(1), row(2), row(3)};
  for (std::int64_t begin = 0; begin < block.count; begin += kSumDepth) {
    const std::int64_t left = block.count - begin;
    const std::int64_t end = begin + (left < kSumDepth ? left : kSumDepth);
    Accumulators<R, Together> part;
    part.clear();
    for (std::int64_t k = begin; k < end; k += kChunk) {
      for (int j = 0; j < Together; ++j) {
        const Chunk w = read_chunk(rows[j], block.begin + k, chunk_size(k, block.count));
        for (int i = 0; i < 4; ++i) {
          for (int r = 0; r < R; ++r) {
            const __m512i xv = _mm512_loadu_si512(x.rows + r * x.stride + k + i * kPair);
            part.acc[r][j].v = _mm512_dpbf16_ps(part.acc[r][j].v, as_bh(w.part[i]), as_bh(xv));
          }
        }
      }
    }
    for (int r = 0; r < R; ++r) {
      for (int j = 0; j < Together; ++j) {
        sums.acc[r][first + j] = sums.acc[r][first + j] + part.acc[r][j];
      }
    }
  }
}

template <typename Reader, int R, int N>
void bf16_direct(const MatmulArgs& a, std::int64_t n, const DepthBlock& block, const PackedBlock& x,
                 float* partial) {
  // One row reads the weights in the order of memory: several streams, even of neighbours, halve
  // the read bandwidth of Zen 4.
  constexpr int kTogether = R == 1 ? 1 : N;
  Accumulators<R, N> sums;
  sums.start(block, partial);
  for (int j = 0; j < N; j += kTogether) {
    bf16_block_sums<Reader, kTogether>(a, n, j, block, x, sums);
  }
  sums.finish(a, block, 0, n, partial);
}

template <typename Reader, int R>
void bf16_few_rows(const MatmulArgs& a) {
  auto* place = reinterpret_cast<std::uint16_t*>(a.scratch + kMatmulRows * kMatmulOutputs * 16);
  constexpr std::int64_t size = R == 1 ? 2 * kDirectDepth : kDirectDepth;
  for (std::int64_t begin = 0; begin < a.depth; begin += size) {
    const DepthBlock block = depth_block(a, begin, size);
    const PackedBlock x = packed_block<Reader>(a, block, place);
    std::int64_t n = 0;
    for (; n + kTileOutputs <= a.num_outputs; n += kTileOutputs) {
      bf16_direct<Reader, R, kTileOutputs>(a, n, block, x, a.scratch + n * R * kLanes);
    }
    for (; n < a.num_outputs; ++n) {
      bf16_direct<Reader, R, 1>(a, n, block, x, a.scratch + n * R * kLanes);
    }
  }
}

// bf16_few_rows<num_rows> for 1 <= num_rows <= R.
template <typename Reader, int R>
void bf16_few_rows_of(const MatmulArgs& a) {
  if (a.num_rows == R) return bf16_few_rows<Reader, R>(a);
  if constexpr (R > 1) bf16_few_rows_of<Reader, R - 1>(a);
}

// R packed rows against kTileOutputs packed panel rows.
template <int R>
inline void bf16_tile(const PackedBlock& x, std::int64_t count, const std::uint16_t* panel,
                      Accumulators<R, kTileOutputs>& sums) {
  for (std::int64_t k = 0; k < count; k += kPair) {
    __m512bh xv[R];
    for (int r = 0; r < R; ++r) xv[r] = as_bh(_mm512_loadu_si512(x.rows + r * x.stride + k));
    for (int j = 0; j < kTileOutputs; ++j) {
      const __m512bh w = as_bh(_mm512_loadu_si512(panel + j * kSumDepth + k));
      for (int r = 0; r < R; ++r) sums.acc[r][j].v = _mm512_dpbf16_ps(sums.acc[r][j].v, w, xv[r]);
    }
  }
}

template <int R>
inline void bf16_panel_tile(const MatmulArgs& a, std::int64_t m, std::int64_t n,
                            const DepthBlock& block, const PackedBlock& x,
                            const std::uint16_t* panel) {
  float* partial = a.scratch + n * kMatmulRows * kLanes + m * kTileOutputs * kLanes;
  Accumulators<R, kTileOutputs> sums;
  sums.clear();
  bf16_tile<R>({x.rows + m * x.stride, x.stride}, packed_depth(block.count), panel, sums);
  sums.add_before(block, partial);
  sums.finish(a, block, m, n, partial);
}

// Up to kPanel weight rows of a depth block, kSumDepth words apart, zero-padded to whole chunks and
// whole panels.
template <typename Reader>
void bf16_panel(const MatmulArgs& a, std::int64_t first, const DepthBlock& block,
                std::uint16_t* panel) {
  for (int n = 0; n < kPanel; ++n) {
    const bool present = first + n < a.num_outputs;
    const Reader row(a, present ? first + n : first);
    for (std::int64_t k = 0; k < block.count; k += kChunk) {
      const Chunk w =
          present ? read_chunk(row, block.begin + k, chunk_size(k, block.count)) : Chunk{};
      for (int i = 0; i < 4; ++i) {
        _mm512_storeu_si512(panel + n * kSumDepth + k + i * kPair, w.part[i]);
      }
    }
  }
}

template <typename Reader>
void bf16_many_rows(const MatmulArgs& a) {
  auto* panel = reinterpret_cast<std::uint16_t*>(a.scratch + kMatmulRows * kMatmulOutputs * 16);
  std::uint16_t* place = panel + kPanel * kSumDepth;
  for (std::int64_t begin = 0; begin < a.depth; begin += kSumDepth) {
    const DepthBlock block = depth_block(a, begin, kSumDepth);
    const PackedBlock x = packed_block<Reader>(a, block, place);
    for (std::int64_t n = 0; n < a.num_outputs; n += kPanel) {
      bf16_panel<Reader>(a, n, block, panel);
      for (int j = 0; j < kPanel && n + j < a.num_outputs; j += kTileOutputs) {
        std::int64_t m = 0;
        for (; m + kTileRows <= a.num_rows; m += kTileRows) {
          bf16_panel_tile<kTileRows>(a, m, n + j, block, x, panel + j * kSumDepth);
        }
        for (; m < a.num_rows; ++m) {
          bf16_panel_tile<1>(a, m, n + j, block, x, panel + j * kSumDepth);
        }
      }
    }
  }
}

template <typename Reader>
void bf16_block(const MatmulArgs& a) {
  if (a.num_rows > kFewRows) return bf16_many_rows<Reader>(a);
  bf16_few_rows_of<Reader, kFewRows>(a);
}

template <typename Reader>
void bf16_all_rows(const MatmulArgs& all) {
  MatmulArgs a = all;
  for (std::int64_t m = 0; m < all.num_rows; m += kMatmulRows) {
    a.num_rows = all.num_rows - m < kMatmulRows ? all.num_rows - m : kMatmulRows;
    bf16_block<Reader>(a);
    if (a.packed != nullptr) a.packed += kMatmulRows * packed_depth(a.depth);
    a.out += kMatmulRows * a.out_stride;
  }
}

// More than kMatmulRows rows are packed rows.
void matmul_bf16(const MatmulArgs& a) {
  if (a.format == LeafFormat::kBf16) return bf16_all_rows<Bf16Reader>(a);
  if (a.format == LeafFormat::kMxint8) return bf16_all_rows<Mxint8Reader>(a);
  if (a.format != LeafFormat::kMxfp4) return matmul(a);
  if (any_extreme_scale(a)) return bf16_all_rows<Mxfp4ExtremeReader>(a);
  bf16_all_rows<Mxfp4Reader>(a);
}

}  // namespace
}  // namespace baltoro::cpu
