// Vec of the AVX-512 tables: sixteen floats; needs F, BW, DQ and VL.

namespace baltoro::cpu {
namespace {

struct Vec {
  static constexpr int kLanes = 16;
  __m512 v;
};

// 4 outputs x 6 rows: 24 accumulators, 6 rows and 1 weight of the 32 registers.
constexpr int kTileRows = 6;

inline Vec broadcast(float x) { return {_mm512_set1_ps(x)}; }
inline Vec zero() { return {_mm512_setzero_ps()}; }
inline Vec load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline void store(float* p, Vec a) { _mm512_storeu_ps(p, a.v); }
// A value of several uses, loaded once: without stores between them gcc repeats the load for each.
inline Vec in_register(Vec a) {
  __asm__("" : "+v"(a.v));
  return a;
}
inline __mmask16 lane_mask(int n) { return static_cast<__mmask16>((1u << n) - 1u); }
// n values, `stride` floats apart, zero beyond.
inline Vec load_strided(const float* p, std::int64_t stride, int n) {
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i at = _mm512_mullo_epi32(lane, _mm512_set1_epi32(static_cast<int>(stride)));
  return {_mm512_mask_i32gather_ps(_mm512_setzero_ps(), lane_mask(n), at, p, 4)};
}
inline Vec load_partial(const float* p, int n) { return {_mm512_maskz_loadu_ps(lane_mask(n), p)}; }
inline void store_partial(float* p, Vec a, int n) { _mm512_mask_storeu_ps(p, lane_mask(n), a.v); }

inline Vec operator+(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Vec operator-(Vec a, Vec b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Vec operator*(Vec a, Vec b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Vec operator/(Vec a, Vec b) { return {_mm512_div_ps(a.v, b.v)}; }
inline Vec fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
// A NaN in b is kept.
inline Vec min(Vec a, Vec b) { return {_mm512_min_ps(a.v, b.v)}; }
inline Vec max(Vec a, Vec b) { return {_mm512_max_ps(a.v, b.v)}; }
inline Vec abs(Vec a) { return {_mm512_andnot_ps(_mm512_set1_ps(-0.0f), a.v)}; }
inline Vec copy_sign(Vec magnitude, Vec sign) {
  const __m512 mask = _mm512_set1_ps(-0.0f);
  return {_mm512_or_ps(_mm512_andnot_ps(mask, magnitude.v), _mm512_and_ps(mask, sign.v))};
}
// Lane by lane: a where the sign bit of x is set, else b.
inline Vec select_negative(Vec x, Vec a, Vec b) {
  return {_mm512_mask_blend_ps(_mm512_movepi32_mask(_mm512_castps_si512(x.v)), b.v, a.v)};
}
// Zero where |a| < limit; a NaN is kept.
inline Vec zero_below(Vec a, float limit) {
  const __mmask16 kept = _mm512_cmp_ps_mask(abs(a).v, _mm512_set1_ps(limit), _CMP_NLT_UQ);
  return {_mm512_maskz_mov_ps(kept, a.v)};
}
// 1 / a within 2 ulp for 1 <= a <= 4: the estimate is good to 14 bits, and one step doubles them.
inline Vec reciprocal(Vec a) {
  const __m512 estimate = _mm512_rcp14_ps(a.v);
  const __m512 error = _mm512_fnmadd_ps(a.v, estimate, _mm512_set1_ps(1.0f));
  return {_mm512_fmadd_ps(estimate, error, estimate)};
}
inline Vec round_nearest(Vec a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
// 2^a for an integral a in [-126, 127].
inline Vec power_of_two(Vec a) {
  const __m512i exponent = _mm512_add_epi32(_mm512_cvtps_epi32(a.v), _mm512_set1_epi32(127));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(exponent, 23))};
}
// a 2^n for an integral n, rounded once where the result is subnormal.
inline Vec scale_by_power(Vec a, Vec n) { return {_mm512_scalef_ps(a.v, n.v)}; }
inline Vec round_bf16(Vec a) {
  const __m512i b = _mm512_castps_si512(a.v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(b, 16), _mm512_set1_epi32(1));
  const __m512i high = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
  const __m512i rounded =
      _mm512_and_si512(_mm512_add_epi32(b, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), high);
  const __m512i quiet = _mm512_or_si512(_mm512_and_si512(b, high), _mm512_set1_epi32(0x00400000));
  return {_mm512_castsi512_ps(
      _mm512_mask_blend_epi32(_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q), rounded, quiet))};
}
inline bool all_finite(Vec a) {
  const __m512i exponent = _mm512_set1_epi32(0x7f800000);
  return _mm512_cmpeq_epi32_mask(_mm512_and_si512(_mm512_castps_si512(a.v), exponent), exponent) ==
         0;
}

// out[j] lane i = p[4 i + j].
inline void deinterleave4(const float* p, Vec* out) {
  const __m512i even = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 1, 5, 9, 13, 17, 21, 25, 29);
  const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(2));
  const __m512 a = _mm512_loadu_ps(p), b = _mm512_loadu_ps(p + 16);
  const __m512 c = _mm512_loadu_ps(p + 32), d = _mm512_loadu_ps(p + 48);
  const __m512 ab01 = _mm512_permutex2var_ps(a, even, b), cd01 = _mm512_permutex2var_ps(c, even, d);
  const __m512 ab23 = _mm512_permutex2var_ps(a, odd, b), cd23 = _mm512_permutex2var_ps(c, odd, d);
  out[0].v = _mm512_shuffle_f32x4(ab01, cd01, 0x44);
  out[1].v = _mm512_shuffle_f32x4(ab01, cd01, 0xee);
  out[2].v = _mm512_shuffle_f32x4(ab23, cd23, 0x44);
  out[3].v = _mm512_shuffle_f32x4(ab23, cd23, 0xee);
}

// Sums of the lanes of four vectors: halves first, then as in the AVX2 table.
inline void sum4(Vec a, Vec b, Vec c, Vec d, float* out) {
  const auto halves = [](Vec x) {
    return _mm256_add_ps(_mm512_castps512_ps256(x.v), _mm512_extractf32x8_ps(x.v, 1));
  };
  const __m256 ab = _mm256_hadd_ps(halves(a), halves(b));
  const __m256 cd = _mm256_hadd_ps(halves(c), halves(d));
  const __m256 abcd = _mm256_hadd_ps(ab, cd);
  _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(abcd), _mm256_extractf128_ps(abcd, 1)));
}
inline float sum(Vec a) {
  float out[4];
  sum4(a, a, a, a, out);
  return out[0];
}
inline float max_lane(Vec a) { return _mm512_reduce_max_ps(a.v); }

inline Vec load_f32(const std::uint8_t* p) { return {_mm512_loadu_ps(p)}; }
inline Vec load_bf16(const std::uint8_t* p) {
  const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16))};
}
inline Vec load_f16(const std::uint8_t* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
inline Vec load_i8(const std::uint8_t* p) {
  const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(codes))};
}
inline void store_bf16(std::uint16_t* p, Vec a) {
  const __m512i words = _mm512_srli_epi32(_mm512_castps_si512(round_bf16(a).v), 16);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(words));
}

// One MXFP4 group: 16 packed bytes to 32 values. Nibble i of a 32-bit word is element i, and one
// permutation looks up all 16 codes.
struct GroupDecoder {
  static constexpr bool kPermuted = false;
  Vec out[32 / Vec::kLanes];
  static void permute(const float* in, float* to) { __builtin_memcpy(to, in, 32 * sizeof(float)); }
  void decode(const std::uint8_t* packed, float scale) {
    const __m512 table = _mm512_mul_ps(
        _mm512_set1_ps(scale), _mm512_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f, -0.0f,
                                              -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f));
    const __m512i shift =
        _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28);
    for (int half = 0; half < 2; ++half) {
      const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(packed + 8 * half));
      const __m512i word_of_lane =
          _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
      const __m512i words = _mm512_permutexvar_epi32(word_of_lane, _mm512_castsi128_si512(bytes));
      out[half].v = _mm512_permutexvar_ps(_mm512_srlv_epi32(words, shift), table);
    }
  }
};

}  // namespace
}  // namespace baltoro::cpu
