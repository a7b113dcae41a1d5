// Chunks of 128 bf16 values, the step of the bf16 tables along the depth: activations rounded once
// and weights decoded exactly, as four registers of 32.
//
// MXFP4 is decoded without unpacking: word j of a chunk's 64 bytes holds the codes of elements
// 4j .. 4j + 3, so shifting by 4i and one permutation through a table of 16 codes give elements
// 4j + i for all j. Activations that meet MXFP4 are brought into the same order when they are
// packed: register i holds elements i, 4 + i, 8 + i, ...

namespace baltoro::cpu {
namespace {

constexpr int kPair = 32;  // bf16 values of one register
constexpr std::int64_t kChunk = kPackedAlign;
static_assert(kChunk == 4 * kPair);

inline __m512bh as_bh(__m512i v) { return __builtin_bit_cast(__m512bh, v); }
inline __m512i as_int(__m512bh v) { return __builtin_bit_cast(__m512i, v); }

// 32 words of packed rows, in a register for all of their uses: gcc 12 would load them again for each.
inline __m512bh load_pairs(const std::uint16_t* p) {
  __m512i words = _mm512_loadu_si512(p);
  asm("" : "+v"(words));
  return as_bh(words);
}

struct Chunk {
  __m512i part[4];
};

// Activations k .. k + n of a row (n at most 32) as bf16, zero beyond n.
inline __m512i bf16_pairs(const float* x, std::int64_t n) {
  if (n >= kPair) return as_int(_mm512_cvtne2ps_pbh(load(x + 16).v, load(x).v));
  if (n <= 0) return _mm512_setzero_si512();
  const int first = n < 16 ? static_cast<int>(n) : 16;
  const int second = static_cast<int>(n) - first;
  return as_int(_mm512_cvtne2ps_pbh(load_partial(x + 16, second).v, load_partial(x, first).v));
}

// Elements 4j + i of four registers in element order as register i.
inline Chunk deinterleave(const Chunk& in) {
  // Words 4j, then words 4j + 1, of two registers; plus 2 for the other two residues.
  alignas(64) static constexpr std::uint16_t kEven[32] = {
      0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60,
      1, 5, 9, 13, 17, 21, 25, 29, 33, 37, 41, 45, 49, 53, 57, 61};
  const __m512i even = _mm512_loadu_si512(kEven);
  const __m512i odd = _mm512_add_epi16(even, _mm512_set1_epi16(2));
  const __m512i low01 = _mm512_permutex2var_epi16(in.part[0], even, in.part[1]);
  const __m512i low23 = _mm512_permutex2var_epi16(in.part[0], odd, in.part[1]);
  const __m512i high01 = _mm512_permutex2var_epi16(in.part[2], even, in.part[3]);
  const __m512i high23 = _mm512_permutex2var_epi16(in.part[2], odd, in.part[3]);
  return {{_mm512_shuffle_i64x2(low01, high01, 0x44), _mm512_shuffle_i64x2(low01, high01, 0xee),
           _mm512_shuffle_i64x2(low23, high23, 0x44), _mm512_shuffle_i64x2(low23, high23, 0xee)}};
}

// Activations k .. k + n of a row, n at most a chunk and zero beyond, in the order of the weights.
template <LeafFormat F>
inline Chunk activation_chunk(const float* x, std::int64_t n) {
  Chunk chunk;
  for (int i = 0; i < 4; ++i) chunk.part[i] = bf16_pairs(x + i * kPair, n - i * kPair);
  if constexpr (F == LeafFormat::kMxfp4) return deinterleave(chunk);
  return chunk;
}

// Whether some scale of the rows is below `least` or above `largest`.
inline bool any_scale_outside(const MatmulArgs& a, int least, int largest) {
  const __m512i low = _mm512_set1_epi8(static_cast<char>(least));
  // Rows without gaps are one long row.
  const bool one_run = a.scale_stride == a.depth / kGroup;
  const std::int64_t count = (one_run ? a.num_outputs : 1) * (a.depth / kGroup);
  __m512i highest = _mm512_setzero_si512();
  for (std::int64_t n = 0; n < (one_run ? 1 : a.num_outputs); ++n) {
    const std::uint8_t* scales = a.scales + n * a.scale_stride;
    for (std::int64_t i = 0; i < count; i += 64) {
      const __mmask64 mask = count - i >= 64 ? ~0ull : (1ull << (count - i)) - 1;
      const __m512i s = _mm512_maskz_loadu_epi8(mask, scales + i);
      highest = _mm512_mask_max_epu8(highest, mask, highest, _mm512_sub_epi8(s, low));
    }
  }
  const __m512i span = _mm512_set1_epi8(static_cast<char>(largest - least));
  return _mm512_cmpgt_epu8_mask(highest, span) != 0;
}

// Whether some MXFP4 scale needs the general decoder: bytes 0 (2^-127, where the exponent field of
// bf16 ends) and above 252 (products may pass the largest bf16, 255 is NaN).
inline bool any_extreme_scale(const MatmulArgs& a) { return any_scale_outside(a, 1, 252); }

// The plain decoder, for the scales above.
inline Chunk mxfp4_chunk_general(const std::uint8_t* packed, const std::uint8_t* scales,
                                 std::int64_t n) {
  alignas(64) float values[kChunk] = {};
  for (std::int64_t k = 0; k < n; k += kGroup) {
    GroupDecoder group;
    group.decode(packed + k / 2, group_scale(scales[k / kGroup]));
    for (int i = 0; i < kGroup / kLanes; ++i) store(values + k + i * kLanes, group.out[i]);
  }
  return activation_chunk<LeafFormat::kMxfp4>(values, kChunk);
}

// The bf16 words of the 16 codes times 2^125. Bit 4 of an index belongs to the next code, so both
// halves are equal.
alignas(64) constexpr std::uint16_t kCodeWords[32] = {
    0x0000, 0x7d80, 0x7e00, 0x7e40, 0x7e80, 0x7ec0, 0x7f00, 0x7f40,  //
    0x0000, 0xfd80, 0xfe00, 0xfe40, 0xfe80, 0xfec0, 0xff00, 0xff40,  //
    0x0000, 0x7d80, 0x7e00, 0x7e40, 0x7e80, 0x7ec0, 0x7f00, 0x7f40,  //
    0x0000, 0xfd80, 0xfe00, 0xfe40, 0xfe80, 0xfec0, 0xff00, 0xff40};

// What `table` says of the 128 codes in 64 bytes.
inline Chunk look_up_codes(__m512i codes, __m512i table) {
  return {{_mm512_permutexvar_epi16(codes, table),
           _mm512_permutexvar_epi16(_mm512_srli_epi16(codes, 4), table),
           _mm512_permutexvar_epi16(_mm512_srli_epi16(codes, 8), table),
           _mm512_permutexvar_epi16(_mm512_srli_epi16(codes, 12), table)}};
}

// A chunk of MXFP4 weights for scales from 1 to 252: 64 bytes of codes, four scale bytes.
//
// (252 - scale) is subtracted from the exponents of the table; for zero the subtraction saturates. A
// product below the smallest normal bf16 becomes zero, as it would inside the dot product.
inline Chunk mxfp4_chunk(__m512i codes, std::uint32_t scales) {
  // Scale i of the chunk to the words of its group, 8 words a group.
  alignas(64) static constexpr std::int8_t kSpread[64] = {
      0, -1, 0, -1, 0, -1, 0, -1, 0, -1, 0, -1, 0, -1, 0, -1, 1, -1, 1, -1, 1, -1,
      1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 2, -1, 2, -1, 2, -1, 2, -1, 2, -1, 2, -1,
      2, -1, 2, -1, 3, -1, 3, -1, 3, -1, 3, -1, 3, -1, 3, -1, 3, -1, 3, -1};
  const __m512i scale_words =
      _mm512_shuffle_epi8(_mm512_set1_epi32(static_cast<int>(scales)), _mm512_loadu_si512(kSpread));
  const __m512i exponents =
      _mm512_sub_epi16(_mm512_set1_epi16(252 << 7), _mm512_slli_epi16(scale_words, 7));
  Chunk chunk = look_up_codes(codes, _mm512_loadu_si512(kCodeWords));
  for (__m512i& part : chunk.part) part = _mm512_subs_epu16(part, exponents);
  return chunk;
}

// Readers of a stored weight row: whole(k) gives the chunk of weights from k on, some(k, n) the
// first n < kChunk of them and zero beyond; k is a multiple of the chunk. Activations are packed for kOrder.
struct Bf16Reader {
  static constexpr LeafFormat kOrder = LeafFormat::kBf16;
  static constexpr std::int64_t bytes(std::int64_t columns) { return 2 * columns; }
  const std::uint8_t* data;

  Bf16Reader(const MatmulArgs& a, std::int64_t n) : data(a.weight + n * a.weight_stride) {}
  Chunk whole(std::int64_t k) const {
    Chunk chunk;
    for (int i = 0; i < 4; ++i) {
      chunk.part[i] = _mm512_loadu_si512(data + 2 * (k + i * kPair));
    }
    return chunk;
  }
  Chunk some(std::int64_t k, std::int64_t n) const {
    Chunk chunk;
    for (int i = 0; i < 4; ++i) {
      const std::int64_t left = n - i * kPair;
      const __mmask32 mask = left >= kPair ? ~0u : left <= 0 ? 0u : (1u << left) - 1u;
      chunk.part[i] = _mm512_maskz_loadu_epi16(mask, data + 2 * (k + i * kPair));
    }
    return chunk;
  }
};

// A row of codes and of the scales of its groups.
struct ScaledRow {
  const std::uint8_t* data;
  const std::uint8_t* scales;

  ScaledRow(const MatmulArgs& a, std::int64_t n)
      : data(a.weight + n * a.weight_stride), scales(a.scales + n * a.scale_stride) {}
};

// Of MXFP4 codes: the chunk from k on, and the four scales of its groups; zero beyond n.
struct Mxfp4Row : ScaledRow {
  static constexpr LeafFormat kOrder = LeafFormat::kMxfp4;
  static constexpr std::int64_t bytes(std::int64_t columns) { return columns >> 1; }
  using ScaledRow::ScaledRow;

  // k is not negative: shifts, not divisions that round.
  __m512i codes(std::int64_t k, std::int64_t n) const {
    if (n == kChunk) {
      __m512i codes = _mm512_loadu_si512(data + (k >> 1));
      asm("" : "+v"(codes));  // gcc 12 would load them again for each of their uses
      return codes;
    }
    return _mm512_maskz_loadu_epi8((1ull << (n / 2)) - 1, data + (k >> 1));
  }
  std::uint32_t group_scales(std::int64_t k, std::int64_t n) const {
    const std::uint8_t* from = scales + (k >> 5);
    std::uint32_t four = 0;
    if (n == kChunk) {
      __builtin_memcpy(&four, from, sizeof(four));
    } else {
      for (std::int64_t i = 0; i < n / kGroup; ++i) four |= std::uint32_t{from[i]} << (8 * i);
    }
    return four;
  }
};

struct Mxfp4Reader : Mxfp4Row {
  using Mxfp4Row::Mxfp4Row;
  Chunk whole(std::int64_t k) const { return some(k, kChunk); }
  Chunk some(std::int64_t k, std::int64_t n) const {
    return mxfp4_chunk(codes(k, n), group_scales(k, n));
  }
};

struct Mxfp4ExtremeReader : Mxfp4Reader {
  using Mxfp4Reader::Mxfp4Reader;
  Chunk whole(std::int64_t k) const { return some(k, kChunk); }
  Chunk some(std::int64_t k, std::int64_t n) const {
    return mxfp4_chunk_general(data + k / 2, scales + k / kGroup, n);
  }
};

// MXINT8 codes have at most 8 significant bits, and so have their bf16 values; values below the
// smallest normal bf16 become zero.
struct Mxint8Reader : ScaledRow {
  static constexpr LeafFormat kOrder = LeafFormat::kMxint8;
  static constexpr std::int64_t bytes(std::int64_t columns) { return columns; }
  using ScaledRow::ScaledRow;

  __m512i group(std::int64_t k) const {
    Int8Decoder values;
    values.decode(data + k, group_scale(scales[k / kGroup]));
    return as_int(_mm512_cvtne2ps_pbh(values.out[1].v, values.out[0].v));
  }
  Chunk whole(std::int64_t k) const {
    static_assert(kPair == kGroup);
    return {{group(k), group(k + kPair), group(k + 2 * kPair), group(k + 3 * kPair)}};
  }
  Chunk some(std::int64_t k, std::int64_t n) const {
    Chunk chunk{};
    for (std::int64_t i = 0; i < n / kPair; ++i) chunk.part[i] = group(k + i * kPair);
    return chunk;
  }
};

// The same for scales from 7, below which subnormals begin, to 133, which leaves a code as it is: the
// bf16 word of a code, less a difference of exponents; for zero the subtraction saturates.
constexpr int kInt8LeastScale = 7, kInt8LargestScale = 133;

// What a scale byte subtracts from two words.
struct Int8Exponents {
  std::uint32_t pair[256];
};
constexpr Int8Exponents make_int8_exponents() {
  Int8Exponents exponents{};
  for (std::uint32_t byte = kInt8LeastScale; byte <= kInt8LargestScale; ++byte) {
    exponents.pair[byte] = (kInt8LargestScale - byte) * 0x00800080u;
  }
  return exponents;
}
constexpr Int8Exponents kInt8Exponents = make_int8_exponents();

struct Mxint8NarrowReader : Mxint8Reader {
  using Mxint8Reader::Mxint8Reader;

  static __m512i group(const std::uint8_t* codes, std::uint8_t scale) {
    // Upper words: what a rounding conversion gives, for less.
    alignas(64) static constexpr std::uint16_t kUpper[32] = {
        1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31,
        33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
    const __m512i low = _mm512_castps_si512(load_i8(codes).v);
    const __m512i high = _mm512_castps_si512(load_i8(codes + kLanes).v);
    const __m512i words = _mm512_permutex2var_epi16(low, _mm512_loadu_si512(kUpper), high);
    const auto exponents = static_cast<int>(kInt8Exponents.pair[scale]);
    return _mm512_subs_epu16(words, _mm512_set1_epi32(exponents));
  }
  Chunk whole(std::int64_t k) const {
    const std::uint8_t* codes = data + k;
    const std::uint8_t* four = scales + (k >> 5);  // k is not negative
    return {{group(codes, four[0]), group(codes + kPair, four[1]),
             group(codes + 2 * kPair, four[2]), group(codes + 3 * kPair, four[3])}};
  }
  Chunk some(std::int64_t k, std::int64_t n) const {
    Chunk chunk{};
    for (std::int64_t i = 0; i < n / kPair; ++i) {
      chunk.part[i] = group(data + k + i * kPair, scales[k / kGroup + i]);
    }
    return chunk;
  }
};

template <typename Reader>
inline Chunk read_chunk(const Reader& row, std::int64_t k, std::int64_t n) {
  return n == kChunk ? row.whole(k) : row.some(k, n);
}

inline std::int64_t chunk_size(std::int64_t k, std::int64_t depth) {
  return depth - k < kChunk ? depth - k : kChunk;
}
inline std::int64_t packed_depth(std::int64_t depth) {
  return (depth + kChunk - 1) / kChunk * kChunk;
}

}  // namespace
}  // namespace baltoro::cpu
