// Vec of the NEON table: eight floats in two registers, with the arithmetic and the order of sums of
// the AVX2 table, so that both give the same bits.

namespace baltoro::cpu {
namespace {

struct Vec {
  static constexpr int kLanes = 8;
  float32x4_t lo, hi;
};

// 4 outputs x 3 rows: 24 registers of accumulators, 6 of rows and 2 of weights fill the 32.
constexpr int kTileRows = 3;

inline Vec broadcast(float x) { return {vdupq_n_f32(x), vdupq_n_f32(x)}; }
inline Vec zero() { return broadcast(0.0f); }
inline Vec load(const float* p) { return {vld1q_f32(p), vld1q_f32(p + 4)}; }
inline void store(float* p, Vec a) {
  vst1q_f32(p, a.lo);
  vst1q_f32(p + 4, a.hi);
}
// A value of several uses, loaded once. Its loads are instructions of their own anyway.
inline Vec in_register(Vec a) { return a; }
// n values, `stride` floats apart, zero beyond.
inline Vec load_strided(const float* p, std::int64_t stride, int n) {
  float lanes[Vec::kLanes] = {};
  for (int i = 0; i < n; ++i) lanes[i] = p[i * stride];
  return load(lanes);
}
inline Vec load_partial(const float* p, int n) { return load_strided(p, 1, n); }
inline void store_partial(float* p, Vec a, int n) {
  float lanes[Vec::kLanes];
  store(lanes, a);
  for (int i = 0; i < n; ++i) p[i] = lanes[i];
}

inline Vec operator+(Vec a, Vec b) { return {vaddq_f32(a.lo, b.lo), vaddq_f32(a.hi, b.hi)}; }
inline Vec operator-(Vec a, Vec b) { return {vsubq_f32(a.lo, b.lo), vsubq_f32(a.hi, b.hi)}; }
inline Vec operator*(Vec a, Vec b) { return {vmulq_f32(a.lo, b.lo), vmulq_f32(a.hi, b.hi)}; }
inline Vec operator/(Vec a, Vec b) { return {vdivq_f32(a.lo, b.lo), vdivq_f32(a.hi, b.hi)}; }
inline Vec fma(Vec a, Vec b, Vec c) {
  return {vfmaq_f32(c.lo, a.lo, b.lo), vfmaq_f32(c.hi, a.hi, b.hi)};
}
inline Vec choose(uint32x4_t lo, uint32x4_t hi, Vec a, Vec b) {
  return {vbslq_f32(lo, a.lo, b.lo), vbslq_f32(hi, a.hi, b.hi)};
}
// A NaN in b is kept.
inline Vec min(Vec a, Vec b) { return choose(vcltq_f32(a.lo, b.lo), vcltq_f32(a.hi, b.hi), a, b); }
inline Vec max(Vec a, Vec b) { return choose(vcgtq_f32(a.lo, b.lo), vcgtq_f32(a.hi, b.hi), a, b); }
inline Vec abs(Vec a) { return {vabsq_f32(a.lo), vabsq_f32(a.hi)}; }
inline Vec copy_sign(Vec magnitude, Vec sign) {
  const uint32x4_t mask = vdupq_n_u32(0x80000000u);
  return choose(mask, mask, sign, magnitude);
}
// Lane by lane: a where the sign bit of x is set, else b.
inline Vec select_negative(Vec x, Vec a, Vec b) {
  return choose(vcltzq_s32(vreinterpretq_s32_f32(x.lo)), vcltzq_s32(vreinterpretq_s32_f32(x.hi)), a,
                b);
}
// Zero where |a| < limit; a NaN is kept.
inline Vec zero_below(Vec a, float limit) {
  const float32x4_t bound = vdupq_n_f32(limit);
  return choose(vcaltq_f32(a.lo, bound), vcaltq_f32(a.hi, bound), zero(), a);
}
inline Vec reciprocal(Vec a) { return broadcast(1.0f) / a; }
inline Vec round_nearest(Vec a) { return {vrndnq_f32(a.lo), vrndnq_f32(a.hi)}; }
inline float32x4_t power_of_two(float32x4_t a) {
  const int32x4_t exponent = vaddq_s32(vcvtnq_s32_f32(a), vdupq_n_s32(127));
  return vreinterpretq_f32_s32(vshlq_n_s32(exponent, 23));
}
// 2^a for an integral a in [-126, 127].
inline Vec power_of_two(Vec a) { return {power_of_two(a.lo), power_of_two(a.hi)}; }
// a 2^n for an integral n in [-252, 254], as two factors so that subnormal results and overflow come
// out right.
inline Vec scale_by_power(Vec a, Vec n) {
  const Vec half = round_nearest(n * broadcast(0.5f));
  return a * power_of_two(half) * power_of_two(n - half);
}
inline float32x4_t round_bf16(float32x4_t a) {
  const uint32x4_t b = vreinterpretq_u32_f32(a), high = vdupq_n_u32(0xffff0000u);
  const uint32x4_t odd = vandq_u32(vshrq_n_u32(b, 16), vdupq_n_u32(1));
  const uint32x4_t rounded = vandq_u32(vaddq_u32(b, vaddq_u32(odd, vdupq_n_u32(0x7fff))), high);
  const uint32x4_t quiet = vorrq_u32(vandq_u32(b, high), vdupq_n_u32(0x00400000u));
  return vreinterpretq_f32_u32(vbslq_u32(vceqq_f32(a, a), rounded, quiet));
}
inline Vec round_bf16(Vec a) { return {round_bf16(a.lo), round_bf16(a.hi)}; }
inline bool all_finite(Vec a) {
  const uint32x4_t exponent = vdupq_n_u32(0x7f800000u);
  const auto all_ones = [&](float32x4_t x) {
    return vceqq_u32(vandq_u32(vreinterpretq_u32_f32(x), exponent), exponent);
  };
  return vmaxvq_u32(vorrq_u32(all_ones(a.lo), all_ones(a.hi))) == 0;
}

// out[j] lane i = p[4 i + j].
inline void deinterleave4(const float* p, Vec* out) {
  const float32x4x4_t lo = vld4q_f32(p), hi = vld4q_f32(p + 16);
  for (int j = 0; j < 4; ++j) out[j] = {lo.val[j], hi.val[j]};
}

// Sums of the lanes of four vectors; each in the order ((0+1)+(2+3)) + ((4+5)+(6+7)).
inline void sum4(Vec a, Vec b, Vec c, Vec d, float* out) {
  const float32x4_t lo = vpaddq_f32(vpaddq_f32(a.lo, b.lo), vpaddq_f32(c.lo, d.lo));
  const float32x4_t hi = vpaddq_f32(vpaddq_f32(a.hi, b.hi), vpaddq_f32(c.hi, d.hi));
  vst1q_f32(out, vaddq_f32(lo, hi));
}
inline float sum(Vec a) {
  float out[4];
  sum4(a, a, a, a, out);
  return out[0];
}
inline float max_lane(Vec a) { return vmaxvq_f32(vmaxq_f32(a.lo, a.hi)); }

// Bytes at any alignment.
inline uint16x8_t load_words(const std::uint8_t* p) { return vreinterpretq_u16_u8(vld1q_u8(p)); }
inline Vec load_f32(const std::uint8_t* p) {
  return {vreinterpretq_f32_u8(vld1q_u8(p)), vreinterpretq_f32_u8(vld1q_u8(p + 16))};
}
inline Vec load_bf16(const std::uint8_t* p) {
  const uint16x8_t words = load_words(p);
  return {vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(words), 16)),
          vreinterpretq_f32_u32(vshll_high_n_u16(words, 16))};
}
inline Vec load_f16(const std::uint8_t* p) {
  const float16x8_t halves = vreinterpretq_f16_u16(load_words(p));
  return {vcvt_f32_f16(vget_low_f16(halves)), vcvt_high_f32_f16(halves)};
}
inline Vec load_i8(const std::uint8_t* p) {
  const int16x8_t codes = vmovl_s8(vreinterpret_s8_u8(vld1_u8(p)));
  return {vcvtq_f32_s32(vmovl_s16(vget_low_s16(codes))), vcvtq_f32_s32(vmovl_high_s16(codes))};
}
inline void store_bf16(std::uint16_t* p, Vec a) {
  const Vec rounded = round_bf16(a);
  const uint16x4_t lo = vshrn_n_u32(vreinterpretq_u32_f32(rounded.lo), 16);
  vst1q_u16(p, vshrn_high_n_u32(lo, vreinterpretq_u32_f32(rounded.hi), 16));
}

// One MXFP4 group: 16 packed bytes to 32 values, in the order of permute(). Two table look-ups give
// the bytes of a bf16 value, which is the upper half of an f32.
struct GroupDecoder {
  static constexpr bool kPermuted = true;
  Vec out[32 / Vec::kLanes];

  void decode(const std::uint8_t* packed, float scale) {
    const uint8x16_t bytes = vld1q_u8(packed);
    const Words even(vandq_u8(bytes, vdupq_n_u8(15))), odd(vshrq_n_u8(bytes, 4));
    const float32x4_t factor = vdupq_n_f32(scale);
    for (int half = 0; half < 2; ++half) {
      const uint32x4_t e = even.pairs[half], o = odd.pairs[half];
      out[2 * half] = {vmulq_f32(lower(e), factor), vmulq_f32(lower(o), factor)};
      out[2 * half + 1] = {vmulq_f32(upper(e), factor), vmulq_f32(upper(o), factor)};
    }
  }

  // Transposes both 4 x 4 halves of a group: the order in which decode() gives elements. Its own
  // inverse.
  static void permute(const float* in, float* to) {
    for (int half = 0; half < 32; half += 16) {
      const float32x4x4_t columns = vld4q_f32(in + half);
      for (int j = 0; j < 4; ++j) vst1q_f32(to + half + 4 * j, columns.val[j]);
    }
  }

 private:
  // The bf16 values of 16 codes, two in each word.
  struct Words {
    uint32x4_t pairs[2];

    explicit Words(uint8x16_t codes) {
      alignas(16) static constexpr std::uint8_t kHigh[16] = {0,    0x3f, 0x3f, 0x3f, 0x40, 0x40,
                                                             0x40, 0x40, 0x80, 0xbf, 0xbf, 0xbf,
                                                             0xc0, 0xc0, 0xc0, 0xc0};
      alignas(16) static constexpr std::uint8_t kLow[16] = {0, 0, 0x80, 0xc0, 0, 0x40, 0x80, 0xc0,
                                                            0, 0, 0x80, 0xc0, 0, 0x40, 0x80, 0xc0};
      const uint8x16_t high = vqtbl1q_u8(vld1q_u8(kHigh), codes);
      const uint8x16_t low = vqtbl1q_u8(vld1q_u8(kLow), codes);
      pairs[0] = vreinterpretq_u32_u8(vzip1q_u8(low, high));
      pairs[1] = vreinterpretq_u32_u8(vzip2q_u8(low, high));
    }
  };
  static float32x4_t lower(uint32x4_t pairs) {
    return vreinterpretq_f32_u32(vshlq_n_u32(pairs, 16));
  }
  static float32x4_t upper(uint32x4_t pairs) {
    return vreinterpretq_f32_u32(vandq_u32(pairs, vdupq_n_u32(0xffff0000u)));
  }
};

}  // namespace
}  // namespace baltoro::cpu
