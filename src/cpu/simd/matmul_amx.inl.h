// Matmul over rows of bf16 values with the AMX tile unit. A tile instruction multiplies 16 weight
// rows by 32 columns (1 KiB, as it lies in a bf16 matrix) with up to 16 activation rows and takes
// as long for one row as for 16; so one row and many share one loop, and their bits.
//
// Packed rows come in blocks of kPackedRows: of c rows, for every 32 columns 16 lines of c pairs,
// the layout of the instruction's second operand. Sums are [weight row, activation row] and are
// transposed on their way out.

namespace baltoro::cpu {
namespace {

// Columns of a panel. Weights, activations and sums of two blocks then share L1 (measured: 384 and
// 512 lose up to half of MXFP4's speed).
constexpr std::int64_t kAmxDepth = 256;
// The same where one block of rows waits for weights with scales. They are then read row by row, in longer pieces,
// and lines asked for ahead, over the end of a row: side by side, 32 rows give no prefetcher a stream to follow. (For
// bf16 weights, which can be multiplied where they lie, this was no faster.)
constexpr std::int64_t kFewDepth = 512;
// Columns of MXFP4 from which rows are decoded side by side (measured: 512 and fewer, 2304 and more).
constexpr std::int64_t kLongRow = 1024;
constexpr std::int64_t kTileWords = 512;  // of bf16: 16 weight rows, 32 columns
constexpr std::int64_t kTileSums = 256;   // of f32
constexpr std::int64_t kOutputTiles = kMatmulOutputs / 16;
// How far ahead of what is read; 16 KiB was slower.
constexpr std::int64_t kAheadBytes = 6144;
// Words of a panel, and of activations that are packed here.
constexpr std::int64_t kPanelWords = kMatmulOutputs * kFewDepth;
static_assert(kPanelWords >= kMatmulRows * kAmxDepth && kFewDepth >= kAmxDepth);
// Where weights are bf16 and met by few rows, tiles are read in place.
constexpr std::int64_t kDirectTileRows = 32;

// Operand of LDTILECFG: sums in tiles 0-3, weights in 4 and 5, activations in 6 and 7.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t column_bytes[16] = {};
  std::uint8_t rows[16] = {};

  explicit TileConfig(std::int64_t activation_rows) {
    for (int t = 0; t < 8; ++t) {
      const bool weights = t == 4 || t == 5;
      column_bytes[t] = static_cast<std::uint16_t>(weights ? 64 : 4 * activation_rows);
      rows[t] = 16;
    }
  }
};

// 16 lines of 16 words of 32 bits, transposed.
inline void transpose16(__m512i v[16]) {
  __m512i t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    v[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    v[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    v[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    v[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(v[i], v[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(v[i], v[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_i32x4(v[i + 8], v[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(v[i + 8], v[i + 12], 0xdd);
  }
  for (int i = 0; i < 4; ++i) {
    v[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
    v[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
    v[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
    v[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd);
  }
}

// One block of `count` rows (at most kPackedRows), columns from x[r] on.
template <LeafFormat F>
void pack_block(const float* const* x, std::int64_t count, std::int64_t depth, std::uint16_t* out) {
  const __mmask16 mask = lane_mask(static_cast<int>(count));
  for (std::int64_t k = 0; k < depth; k += kChunk) {
    if (count == 1) {
      const Chunk chunk = activation_chunk<F>(x[0] + k, depth - k);
      for (int i = 0; i < 4; ++i) _mm512_storeu_si512(out + k + i * kPair, chunk.part[i]);
      continue;
    }
    alignas(64) __m512i lines[4][16];
    for (int r = 0; r < 16; ++r) {
      const Chunk chunk = r < count ? activation_chunk<F>(x[r] + k, depth - k) : Chunk{};
      for (int i = 0; i < 4; ++i) lines[i][r] = chunk.part[i];
    }
    for (int i = 0; i < 4; ++i) {
      transpose16(lines[i]);
      std::uint16_t* to = out + (k + i * kPair) * count;
      for (int line = 0; line < 16; ++line) {
        _mm512_mask_storeu_epi32(to + line * 2 * count, mask, lines[i][line]);
      }
    }
  }
}

// Rows first .. first + num_rows of a list, block after block of packed_depth(depth) columns.
template <LeafFormat F>
void pack_blocks(const PackArgs& a) {
  for (std::int64_t m = 0; m < a.num_rows; m += kPackedRows) {
    const std::int64_t count = a.num_rows - m < kPackedRows ? a.num_rows - m : kPackedRows;
    const float* x[kPackedRows];
    for (std::int64_t r = 0; r < count; ++r) {
      x[r] = a.x + (a.x_rows != nullptr ? a.x_rows[m + r] : m + r) * a.x_stride;
    }
    pack_block<F>(x, count, a.depth, a.out + m * packed_depth(a.depth));
  }
}

void pack_rows_amx(const PackArgs& a) {
  if (a.format == LeafFormat::kMxfp4) return pack_blocks<LeafFormat::kMxfp4>(a);
  pack_blocks<LeafFormat::kBf16>(a);
}

// Weight tiles of 16 rows: tile k of the depth at data + k * step, its lines `stride` bytes apart.
struct WeightTiles {
  const std::uint8_t* data;
  std::int64_t stride, step;
};

// Sums of one or two blocks of activation rows and one or two tiles of outputs over `tiles` tiles
// of depth. All pointers stand at the first of them.
struct TileRun {
  WeightTiles weights[2];
  const std::uint16_t* rows[2];
  std::int64_t row_count;  // of each block
  std::int64_t tiles;
  float* sums[2][2];  // [output tile][row block]
  bool first;         // start from zero, not from `sums`
};

template <int Outputs, int Blocks>
inline void run_tiles(const TileRun& run) {
  const std::int64_t line = 4 * run.row_count;
  if (run.first) {
    _tile_zero(0);
    if constexpr (Blocks > 1) _tile_zero(1);
    if constexpr (Outputs > 1) _tile_zero(2);
    if constexpr (Outputs > 1 && Blocks > 1) _tile_zero(3);
  } else {
    _tile_loadd(0, run.sums[0][0], line);
    if constexpr (Blocks > 1) _tile_loadd(1, run.sums[0][1], line);
    if constexpr (Outputs > 1) _tile_loadd(2, run.sums[1][0], line);
    if constexpr (Outputs > 1 && Blocks > 1) _tile_loadd(3, run.sums[1][1], line);
  }
  const WeightTiles& w0 = run.weights[0];
  const WeightTiles& w1 = run.weights[Outputs - 1];
  for (std::int64_t k = 0; k < run.tiles; ++k) {
    const std::int64_t at = k * kPair * run.row_count;
    _tile_loadd(6, run.rows[0] + at, line);
    _tile_loadd(4, w0.data + k * w0.step, w0.stride);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (Blocks > 1) {
      _tile_loadd(7, run.rows[1] + at, line);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (Outputs > 1) {
      _tile_loadd(5, w1.data + k * w1.step, w1.stride);
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (Blocks > 1) _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, run.sums[0][0], line);
  if constexpr (Blocks > 1) _tile_stored(1, run.sums[0][1], line);
  if constexpr (Outputs > 1) _tile_stored(2, run.sums[1][0], line);
  if constexpr (Outputs > 1 && Blocks > 1) _tile_stored(3, run.sums[1][1], line);
}

// A matmul of at most kPackedGroup packed rows or kMatmulRows others, depth block by depth block.
template <typename Reader>
class AmxMatmul {
 public:
  explicit AmxMatmul(const MatmulArgs& args)
      : a_(args),
        sums_(args.scratch),
        panel_(reinterpret_cast<std::uint16_t*>(sums_ + kPackedGroup * kMatmulOutputs)),
        place_(panel_ + kPanelWords),
        blocks_((args.num_rows + kPackedRows - 1) / kPackedRows),
        tail_(args.num_rows - (blocks_ - 1) * kPackedRows),
        outputs_(args.num_outputs > 16 ? 2 : 1) {
    static_assert(kPackedGroup * kMatmulOutputs + kPanelWords <= kMatmulScratchFloats);
  }

  void run() {
    if (reads_row_by_row()) {
      run_few();
    } else {
      run_many();
    }
    _tile_release();
    for (std::int64_t b = 0; b < blocks_; ++b) write(b);
  }

 private:
  // Whether the few activation rows there are wait for weights, and decoding each row at length is
  // what gets them soonest. Long rows of MXFP4 come sooner side by side (docs/performance.md).
  bool reads_row_by_row() const {
    if (blocks_ > 1 || Reader::kOrder == LeafFormat::kBf16) return false;
    return Reader::kOrder == LeafFormat::kMxint8 || a_.depth < kLongRow;
  }

  // The same sums in the same order: a tile of sums is kept exactly between two depth blocks.
  void run_few() {
    // Codes of MXFP4 are short, and decoding them from a cache wants the smaller panel.
    constexpr std::int64_t kPiece = Reader::kOrder == LeafFormat::kMxfp4 ? kAmxDepth : kFewDepth;
    configure(tail_);
    for (std::int64_t begin = 0; begin < a_.depth; begin += kPiece) {
      block_ = depth_block(a_, begin, kPiece);
      if (a_.packed == nullptr) pack();
      for (std::int64_t n = 0; n < outputs_; ++n) {
        std::uint16_t* panel = panel_ + n * 16 * kPiece;
        for (std::int64_t r = 0; r < 16; ++r) decode_row(n * 16 + r, panel + r * kPair);
        tiles_[n] = {reinterpret_cast<const std::uint8_t*>(panel), 64, 2 * kTileWords};
      }
      asm volatile("" ::: "memory");
      multiply<1>(0);
    }
  }

  // The depth block of one output, from its line of the panel's first tile on.
  void decode_row(std::int64_t output, std::uint16_t* to) const {
    if (output >= a_.num_outputs) {
      for (std::int64_t k = 0; k < block_.count; k += kChunk, to += 4 * kTileWords)
        store_tile_line(to, Chunk{});
      return;
    }
    const Reader row(a_, output);
    constexpr std::int64_t kBytes = Reader::bytes(kChunk);
    const std::uint8_t* ahead =
        a_.weight + output * a_.weight_stride + Reader::bytes(block_.begin) + kAheadBytes;
    std::int64_t k = 0;
    for (; k + kChunk <= block_.count; k += kChunk, to += 4 * kTileWords, ahead += kBytes) {
      for (std::int64_t i = 0; i < kBytes; i += 64) __builtin_prefetch(ahead + i, 0, 2);
      store_tile_line(to, row.whole(block_.begin + k));
    }
    if (k < block_.count) store_tile_line(to, row.some(block_.begin + k, block_.count - k));
  }

  void run_many() {
    for (std::int64_t begin = 0; begin < a_.depth; begin += kAmxDepth) {
      block_ = depth_block(a_, begin, kAmxDepth);
      if (a_.packed == nullptr) pack();
      for (std::int64_t n = 0; n < outputs_; ++n) place_tiles(n);
      // gcc's tile loads do not say that they read memory.
      asm volatile("" ::: "memory");
      // Pairs of whole blocks; whatever is left has a configuration of its own.
      const std::int64_t whole = tail_ == kPackedRows ? blocks_ : blocks_ - 1;
      if (whole > 0) configure(kPackedRows);
      std::int64_t b = 0;
      for (; b + 2 <= whole; b += 2) multiply<2>(b);
      if (b < whole) multiply<1>(b++);
      if (b < blocks_) {
        configure(tail_);
        multiply<1>(b);
      }
    }
  }

  std::int64_t count_of(std::int64_t b) const { return b + 1 < blocks_ ? kPackedRows : tail_; }
  // [16 outputs, rows of the block]
  float* sums(std::int64_t n, std::int64_t b) const {
    return sums_ + (b * kOutputTiles + n) * kTileSums;
  }
  void configure(std::int64_t activation_rows) {
    if (configured_ == activation_rows) return;
    configured_ = activation_rows;
    const TileConfig config(activation_rows);
    // gcc's intrinsic says that it reads eight bytes.
    asm volatile("ldtilecfg %0" ::"m"(config));
  }

  void pack() {
    for (std::int64_t b = 0; b < blocks_; ++b) {
      const float* x[kPackedRows];
      for (std::int64_t r = 0; r < count_of(b); ++r) {
        x[r] = x_row(a_, b * kPackedRows + r) + block_.begin;
      }
      pack_block<Reader::kOrder>(x, count_of(b), block_.count,
                                 place_ + b * kPackedRows * kAmxDepth);
    }
  }
  const std::uint16_t* rows(std::int64_t b) const {
    if (a_.packed == nullptr) return place_ + b * kPackedRows * kAmxDepth;
    return a_.packed + b * kPackedRows * packed_depth(a_.depth) + block_.begin * count_of(b);
  }

  std::int64_t depth_tiles() const {
    // MXFP4 spreads a chunk over all of its tiles.
    const std::int64_t count =
        Reader::kOrder == LeafFormat::kMxfp4 ? packed_depth(block_.count) : block_.count;
    return (count + kPair - 1) / kPair;
  }

  // Where the depth block of output tile n is read: where it lies, or from the panel.
  void place_tiles(std::int64_t n) {
    const std::int64_t first = n * 16;
    const bool in_place = Reader::kOrder == LeafFormat::kBf16 && a_.num_rows <= kDirectTileRows &&
                          block_.count % kPair == 0 && first + 16 <= a_.num_outputs;
    if (in_place) {
      tiles_[n] = {a_.weight + first * a_.weight_stride + 2 * block_.begin, a_.weight_stride, 64};
    } else {
      // All of it before the first tile load, which would wait for stores still under way.
      for (std::int64_t k = 0; k < block_.count; k += kChunk) decode(n, k / kPair);
      const std::uint16_t* panel = panel_ + n * 16 * kAmxDepth;
      tiles_[n] = {reinterpret_cast<const std::uint8_t*>(panel), 64, 2 * kTileWords};
    }
  }

  // Asks for the codes that are decoded a depth block after those of output tile n from `column` on.
  // A load waits for earlier stores whose addresses end alike, and the panel's do: without this, one
  // miss begins when the one before has ended. (gcc 12 drops calls of a function that only prefetches.)
  [[gnu::always_inline]] void ask_ahead(std::int64_t n, std::int64_t column) const {
    const bool last = block_.begin + column + kAmxDepth >= a_.depth;
    const std::int64_t output = n * 16 + (last ? a_.num_outputs : 0);
    const std::int64_t at = last ? column : block_.begin + column + kAmxDepth;
    const std::uint8_t* codes = a_.weight + output * a_.weight_stride + Reader::bytes(at);
    constexpr std::int64_t kBytes = Reader::bytes(kChunk);
    for (std::int64_t r = 0; r < 16; ++r, codes += a_.weight_stride) {
      // Codes may lie at any byte.
      for (std::int64_t i = 0; i < kBytes; i += 64) __builtin_prefetch(codes + i);
      __builtin_prefetch(codes + kBytes - 1);
    }
  }

  // The chunk of output tile n that begins with depth tile k, into the panel.
  void decode(std::int64_t n, std::int64_t k) const {
    std::uint16_t* to = panel_ + n * 16 * kAmxDepth + k * kTileWords;
    const std::int64_t column = k * kPair;
    const std::int64_t count = chunk_size(column, block_.count);
    if constexpr (Reader::kOrder != LeafFormat::kBf16) ask_ahead(n, column);
    if (count == kChunk && (n + 1) * 16 <= a_.num_outputs) {
      for (std::int64_t r = 0; r < 16; ++r, to += kPair) {
        store_tile_line(to, Reader(a_, n * 16 + r).whole(block_.begin + column));
      }
      return;
    }
    for (std::int64_t r = 0; r < 16; ++r, to += kPair) {
      const std::int64_t output = n * 16 + r;
      store_tile_line(to, output < a_.num_outputs
                              ? read_chunk(Reader(a_, output), block_.begin + column, count)
                              : Chunk{});
    }
  }
  // A line of four tiles along the depth.
  static void store_tile_line(std::uint16_t* to, const Chunk& chunk) {
    for (int i = 0; i < 4; ++i) _mm512_store_si512(to + i * kTileWords, chunk.part[i]);
  }

  template <int Blocks>
  void multiply(std::int64_t b) const {
    TileRun run{};
    for (std::int64_t n = 0; n < outputs_; ++n) {
      run.weights[n] = tiles_[n];
      for (std::int64_t m = 0; m < Blocks; ++m) run.sums[n][m] = sums(n, b + m);
    }
    for (std::int64_t m = 0; m < Blocks; ++m) run.rows[m] = rows(b + m);
    run.row_count = count_of(b);
    run.tiles = depth_tiles();
    run.first = block_.first;
    if (outputs_ == 2) {
      run_tiles<2, Blocks>(run);
    } else {
      run_tiles<1, Blocks>(run);
    }
  }

  // The sums of a row block to their place.
  void write(std::int64_t b) const {
    const std::int64_t count = count_of(b);
    const __mmask16 columns = lane_mask(static_cast<int>(count));
    for (std::int64_t n = 0; n < outputs_; ++n) {
      const std::int64_t left = a_.num_outputs - n * 16;
      const __mmask16 mask = lane_mask(left < 16 ? static_cast<int>(left) : 16);
      float* out = a_.out + b * kPackedRows * a_.out_stride + n * 16;
      const float* from = sums(n, b);
      if (count == 1) {
        _mm512_mask_storeu_ps(out, mask, _mm512_load_ps(from));
        continue;
      }
      __m512i lines[16];
      for (int i = 0; i < 16; ++i) lines[i] = _mm512_maskz_loadu_epi32(columns, from + i * count);
      transpose16(lines);
      for (std::int64_t m = 0; m < count; ++m) {
        _mm512_mask_storeu_epi32(out + m * a_.out_stride, mask, lines[m]);
      }
    }
  }

  const MatmulArgs& a_;
  float* sums_;
  std::uint16_t* panel_;
  std::uint16_t* place_;
  std::int64_t blocks_, tail_, outputs_;
  std::int64_t configured_ = 0;  // rows of a block in the loaded tile configuration
  DepthBlock block_{};
  WeightTiles tiles_[kOutputTiles]{};
};

// More than kMatmulRows rows are packed rows.
template <typename Reader>
void amx_all_rows(const MatmulArgs& all) {
  MatmulArgs a = all;
  for (std::int64_t m = 0; m < all.num_rows; m += kPackedGroup) {
    a.num_rows = all.num_rows - m < kPackedGroup ? all.num_rows - m : kPackedGroup;
    AmxMatmul<Reader>(a).run();
    if (a.packed != nullptr) a.packed += kPackedGroup * packed_depth(a.depth);
    a.out += kPackedGroup * a.out_stride;
  }
}

void matmul_amx(const MatmulArgs& a) {
  if (a.format == LeafFormat::kBf16) return amx_all_rows<Bf16Reader>(a);
  if (a.format == LeafFormat::kMxint8) return amx_all_rows<Mxint8Reader>(a);
  if (a.format != LeafFormat::kMxfp4) return matmul(a);
  if (any_extreme_scale(a)) return amx_all_rows<Mxfp4ExtremeReader>(a);
  amx_all_rows<Mxfp4Reader>(a);
}

}  // namespace
}  // namespace baltoro::cpu
