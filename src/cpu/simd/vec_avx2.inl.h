// Vec of the AVX2 table: eight floats, FMA, F16C.

namespace baltoro::cpu {
namespace {

struct Vec {
  static constexpr int kLanes = 8;
  __m256 v;
};

// 4 outputs x 3 rows: 12 accumulators, 3 rows and 1 weight fill the 16 registers.
constexpr int kTileRows = 3;

inline Vec broadcast(float x) { return {_mm256_set1_ps(x)}; }
inline Vec zero() { return {_mm256_setzero_ps()}; }
inline Vec load(const float* p) { return {_mm256_loadu_ps(p)}; }
inline void store(float* p, Vec a) { _mm256_storeu_ps(p, a.v); }
// A value of several uses, loaded once: without stores between them gcc repeats the load for each.
inline Vec in_register(Vec a) {
  __asm__("" : "+x"(a.v));
  return a;
}
inline __m256i lane_mask(int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
// n values, `stride` floats apart, zero beyond.
inline Vec load_strided(const float* p, std::int64_t stride, int n) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i at = _mm256_mullo_epi32(lane, _mm256_set1_epi32(static_cast<int>(stride)));
  return {
      _mm256_mask_i32gather_ps(_mm256_setzero_ps(), p, at, _mm256_castsi256_ps(lane_mask(n)), 4)};
}
inline Vec load_partial(const float* p, int n) { return {_mm256_maskload_ps(p, lane_mask(n))}; }
inline void store_partial(float* p, Vec a, int n) { _mm256_maskstore_ps(p, lane_mask(n), a.v); }

inline Vec operator+(Vec a, Vec b) { return {_mm256_add_ps(a.v, b.v)}; }
inline Vec operator-(Vec a, Vec b) { return {_mm256_sub_ps(a.v, b.v)}; }
inline Vec operator*(Vec a, Vec b) { return {_mm256_mul_ps(a.v, b.v)}; }
inline Vec operator/(Vec a, Vec b) { return {_mm256_div_ps(a.v, b.v)}; }
inline Vec fma(Vec a, Vec b, Vec c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
// A NaN in b is kept.
inline Vec min(Vec a, Vec b) { return {_mm256_min_ps(a.v, b.v)}; }
inline Vec max(Vec a, Vec b) { return {_mm256_max_ps(a.v, b.v)}; }
inline Vec abs(Vec a) { return {_mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.v)}; }
inline Vec copy_sign(Vec magnitude, Vec sign) {
  const __m256 mask = _mm256_set1_ps(-0.0f);
  return {_mm256_or_ps(_mm256_andnot_ps(mask, magnitude.v), _mm256_and_ps(mask, sign.v))};
}
// Lane by lane: a where the sign bit of x is set, else b.
inline Vec select_negative(Vec x, Vec a, Vec b) { return {_mm256_blendv_ps(b.v, a.v, x.v)}; }
// Zero where |a| < limit; a NaN is kept.
inline Vec zero_below(Vec a, float limit) {
  return {_mm256_and_ps(_mm256_cmp_ps(abs(a).v, _mm256_set1_ps(limit), _CMP_NLT_UQ), a.v)};
}
inline Vec reciprocal(Vec a) { return broadcast(1.0f) / a; }
inline Vec round_nearest(Vec a) {
  return {_mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
// 2^a for an integral a in [-126, 127].
inline Vec power_of_two(Vec a) {
  const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(a.v), _mm256_set1_epi32(127));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23))};
}
// a 2^n for an integral n in [-252, 254], as two factors so that subnormal results and overflow come
// out right.
inline Vec scale_by_power(Vec a, Vec n) {
  const Vec half = round_nearest(n * broadcast(0.5f));
  return a * power_of_two(half) * power_of_two(n - half);
}
inline Vec round_bf16(Vec a) {
  const __m256i b = _mm256_castps_si256(a.v);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(b, 16), _mm256_set1_epi32(1));
  const __m256i high = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
  const __m256i rounded =
      _mm256_and_si256(_mm256_add_epi32(b, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), high);
  const __m256i quiet = _mm256_or_si256(_mm256_and_si256(b, high), _mm256_set1_epi32(0x00400000));
  return {_mm256_blendv_ps(_mm256_castsi256_ps(rounded), _mm256_castsi256_ps(quiet),
                           _mm256_cmp_ps(a.v, a.v, _CMP_UNORD_Q))};
}
inline bool all_finite(Vec a) {
  const __m256i exponent = _mm256_set1_epi32(0x7f800000);
  const __m256i all_ones =
      _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_castps_si256(a.v), exponent), exponent);
  return _mm256_testz_si256(all_ones, all_ones) != 0;
}

// out[j] lane i = p[4 i + j].
inline void deinterleave4(const float* p, Vec* out) {
  // Channels c and c + 4 share a register, then each half is a 4 x 4 transpose.
  const auto channels = [p](int c) {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p + 4 * c)),
                                _mm_loadu_ps(p + 4 * c + 16), 1);
  };
  const __m256 c0 = channels(0), c1 = channels(1), c2 = channels(2), c3 = channels(3);
  const __m256 low01 = _mm256_unpacklo_ps(c0, c1), low23 = _mm256_unpacklo_ps(c2, c3);
  const __m256 high01 = _mm256_unpackhi_ps(c0, c1), high23 = _mm256_unpackhi_ps(c2, c3);
  out[0].v = _mm256_shuffle_ps(low01, low23, 0x44);
  out[1].v = _mm256_shuffle_ps(low01, low23, 0xee);
  out[2].v = _mm256_shuffle_ps(high01, high23, 0x44);
  out[3].v = _mm256_shuffle_ps(high01, high23, 0xee);
}

// Sums of the lanes of four vectors; each in the order ((0+1)+(2+3)) + ((4+5)+(6+7)).
inline void sum4(Vec a, Vec b, Vec c, Vec d, float* out) {
  const __m256 ab = _mm256_hadd_ps(a.v, b.v);
  const __m256 cd = _mm256_hadd_ps(c.v, d.v);
  const __m256 abcd = _mm256_hadd_ps(ab, cd);
  _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(abcd), _mm256_extractf128_ps(abcd, 1)));
}
inline float sum(Vec a) {
  float out[4];
  sum4(a, a, a, a, out);
  return out[0];
}
inline float max_lane(Vec a) {
  __m128 m = _mm_max_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  m = _mm_max_ps(m, _mm_movehl_ps(m, m));
  m = _mm_max_ss(m, _mm_movehdup_ps(m));
  return _mm_cvtss_f32(m);
}

inline Vec load_f32(const std::uint8_t* p) {
  return {_mm256_loadu_ps(reinterpret_cast<const float*>(p))};
}
inline Vec load_bf16(const std::uint8_t* p) {
  const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16))};
}
inline Vec load_f16(const std::uint8_t* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
inline Vec load_i8(const std::uint8_t* p) {
  const __m128i codes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(codes))};
}
inline void store_bf16(std::uint16_t* p, Vec a) {
  const __m256i words = _mm256_srli_epi32(_mm256_castps_si256(round_bf16(a).v), 16);
  const __m128i packed =
      _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), packed);
}

// One MXFP4 group: 16 packed bytes to 32 values, in the order of permute(). Two shuffles look up
// the bytes of a bf16 value, which is the upper half of an f32.
struct GroupDecoder {
  static constexpr bool kPermuted = true;
  Vec out[32 / Vec::kLanes];

  void decode(const std::uint8_t* packed, float scale) {
    const __m256i high_bytes = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 0x3f, 0x3f, 0x3f, 0x40, 0x40, 0x40, 0x40, -0x80, -0x41, -0x41, -0x41,
                      -0x40, -0x40, -0x40, -0x40));
    const __m256i low_bytes = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        0, 0, -0x80, -0x40, 0, 0x40, -0x80, -0x40, 0, 0, -0x80, -0x40, 0, 0x40, -0x80, -0x40));
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(packed));
    // Lower lane: even elements, upper lane: odd ones.
    const __m256i codes = _mm256_and_si256(
        _mm256_inserti128_si256(_mm256_castsi128_si256(bytes), _mm_srli_epi16(bytes, 4), 1),
        _mm256_set1_epi8(15));
    const __m256i low = _mm256_shuffle_epi8(low_bytes, codes);
    const __m256i high = _mm256_shuffle_epi8(high_bytes, codes);
    const __m256i first = _mm256_unpacklo_epi8(low, high);
    const __m256i second = _mm256_unpackhi_epi8(low, high);
    const __m256 factor = _mm256_set1_ps(scale);
    out[0].v = _mm256_mul_ps(even_words(first), factor);
    out[1].v = _mm256_mul_ps(odd_words(first), factor);
    out[2].v = _mm256_mul_ps(even_words(second), factor);
    out[3].v = _mm256_mul_ps(odd_words(second), factor);
  }

  // Transposes both 4 x 4 halves of a group: the order in which decode() gives elements. Its own
  // inverse.
  static void permute(const float* in, float* to) {
    for (int half = 0; half < 32; half += 16) {
      __m128 a = _mm_loadu_ps(in + half), b = _mm_loadu_ps(in + half + 4);
      __m128 c = _mm_loadu_ps(in + half + 8), d = _mm_loadu_ps(in + half + 12);
      _MM_TRANSPOSE4_PS(a, b, c, d);
      _mm_storeu_ps(to + half, a);
      _mm_storeu_ps(to + half + 4, b);
      _mm_storeu_ps(to + half + 8, c);
      _mm_storeu_ps(to + half + 12, d);
    }
  }

 private:
  static __m256 even_words(__m256i words) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(words, 16));
  }
  static __m256 odd_words(__m256i words) {
    return _mm256_castsi256_ps(
        _mm256_and_si256(words, _mm256_set1_epi32(static_cast<int>(0xffff0000u))));
  }
};

}  // namespace
}  // namespace baltoro::cpu
