// Vec of the portable table: eight floats that the compiler may map to what the baseline has.
// Multiply-add rounds twice here, so its bits differ from the tables with FMA.

namespace baltoro::cpu {
namespace {

struct Vec {
  static constexpr int kLanes = 8;
  float v[8];
};

constexpr int kTileRows = 2;

template <typename Fn>
inline Vec make_vec(Fn&& fn) {
  Vec r;
  for (int i = 0; i < Vec::kLanes; ++i) r.v[i] = fn(i);
  return r;
}

inline std::uint32_t bits_of(float x) { return __builtin_bit_cast(std::uint32_t, x); }
inline float float_of(std::uint32_t x) { return __builtin_bit_cast(float, x); }

inline Vec broadcast(float x) {
  return make_vec([&](int) { return x; });
}
inline Vec zero() { return broadcast(0.0f); }
inline Vec load(const float* p) {
  Vec r;
  __builtin_memcpy(&r, p, sizeof(r));
  return r;
}
// A value of several uses, loaded once; here the compiler decides.
inline Vec in_register(Vec a) { return a; }
// n values, `stride` floats apart, zero beyond.
inline Vec load_strided(const float* p, std::int64_t stride, int n) {
  return make_vec([&](int i) { return i < n ? p[i * stride] : 0.0f; });
}
inline void store(float* p, Vec a) { __builtin_memcpy(p, &a, sizeof(a)); }
inline Vec load_partial(const float* p, int n) {
  Vec r = zero();
  __builtin_memcpy(&r, p, static_cast<std::size_t>(n) * 4);
  return r;
}
inline void store_partial(float* p, Vec a, int n) {
  __builtin_memcpy(p, &a, static_cast<std::size_t>(n) * 4);
}

inline Vec operator+(Vec a, Vec b) {
  return make_vec([&](int i) { return a.v[i] + b.v[i]; });
}
inline Vec operator-(Vec a, Vec b) {
  return make_vec([&](int i) { return a.v[i] - b.v[i]; });
}
inline Vec operator*(Vec a, Vec b) {
  return make_vec([&](int i) { return a.v[i] * b.v[i]; });
}
inline Vec operator/(Vec a, Vec b) {
  return make_vec([&](int i) { return a.v[i] / b.v[i]; });
}
inline Vec fma(Vec a, Vec b, Vec c) {
  return make_vec([&](int i) { return a.v[i] * b.v[i] + c.v[i]; });
}
// A NaN in b is kept.
inline Vec min(Vec a, Vec b) {
  return make_vec([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
inline Vec max(Vec a, Vec b) {
  return make_vec([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
inline Vec abs(Vec a) {
  return make_vec([&](int i) { return float_of(bits_of(a.v[i]) & 0x7fffffffu); });
}
inline Vec copy_sign(Vec magnitude, Vec sign) {
  return make_vec([&](int i) {
    return float_of((bits_of(magnitude.v[i]) & 0x7fffffffu) | (bits_of(sign.v[i]) & 0x80000000u));
  });
}
// Lane by lane: a where the sign bit of x is set, else b.
inline Vec select_negative(Vec x, Vec a, Vec b) {
  return make_vec([&](int i) { return (bits_of(x.v[i]) >> 31) != 0 ? a.v[i] : b.v[i]; });
}
// Zero where |a| < limit; a NaN is kept.
inline Vec zero_below(Vec a, float limit) {
  return make_vec([&](int i) { return abs(a).v[i] < limit ? 0.0f : a.v[i]; });
}
inline Vec reciprocal(Vec a) { return broadcast(1.0f) / a; }
// Nearest integer for |a| < 2^22, as a float: the addition pushes the fraction out.
inline Vec round_nearest(Vec a) {
  constexpr float kShift = 12582912.0f;  // 1.5 * 2^23
  return make_vec([&](int i) { return (a.v[i] + kShift) - kShift; });
}
// 2^a for an integral a in [-126, 127].
inline Vec power_of_two(Vec a) {
  return make_vec([&](int i) {
    const int exponent = a.v[i] == a.v[i] ? static_cast<int>(a.v[i]) : 0;
    return float_of(static_cast<std::uint32_t>(exponent + 127) << 23);
  });
}
// a 2^n for an integral n in [-252, 254], as two factors so that subnormal results and overflow come
// out right.
inline Vec scale_by_power(Vec a, Vec n) {
  const Vec half = round_nearest(n * broadcast(0.5f));
  return a * power_of_two(half) * power_of_two(n - half);
}
inline Vec round_bf16(Vec a) {
  return make_vec([&](int i) {
    const std::uint32_t b = bits_of(a.v[i]);
    if ((b & 0x7fffffffu) > 0x7f800000u) return float_of((b & 0xffff0000u) | 0x00400000u);
    return float_of((b + 0x7fffu + ((b >> 16) & 1u)) & 0xffff0000u);
  });
}
inline bool all_finite(Vec a) {
  bool finite = true;
  for (int i = 0; i < Vec::kLanes; ++i) finite &= (bits_of(a.v[i]) & 0x7f800000u) != 0x7f800000u;
  return finite;
}

// out[j] lane i = p[4 i + j].
inline void deinterleave4(const float* p, Vec* out) {
  for (int j = 0; j < 4; ++j) out[j] = make_vec([&](int i) { return p[4 * i + j]; });
}

// Sums of the lanes of four vectors; each in the order ((0+1)+(2+3)) + ((4+5)+(6+7)).
inline void sum4(Vec a, Vec b, Vec c, Vec d, float* out) {
  const Vec all[4] = {a, b, c, d};
  for (int r = 0; r < 4; ++r) {
    const float* v = all[r].v;
    out[r] = ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
  }
}
inline float sum(Vec a) {
  float out[4];
  sum4(a, a, a, a, out);
  return out[0];
}
inline float max_lane(Vec a) {
  float m = a.v[0];
  for (int i = 1; i < Vec::kLanes; ++i) m = m > a.v[i] ? m : a.v[i];
  return m;
}

inline Vec load_f32(const std::uint8_t* p) {
  Vec r;
  __builtin_memcpy(&r, p, sizeof(r));
  return r;
}
inline Vec load_bf16(const std::uint8_t* p) {
  std::uint16_t half[8];
  __builtin_memcpy(half, p, sizeof(half));
  return make_vec([&](int i) { return float_of(static_cast<std::uint32_t>(half[i]) << 16); });
}
inline float f16_value(std::uint32_t half) {
  const std::uint32_t sign = (half & 0x8000u) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1fu, mantissa = half & 0x3ffu;
  if (exponent == 31) return float_of(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) return float_of(sign | ((exponent + 112u) << 23) | (mantissa << 13));
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return sign != 0 ? -magnitude : magnitude;
}
inline Vec load_f16(const std::uint8_t* p) {
  std::uint16_t half[8];
  __builtin_memcpy(half, p, sizeof(half));
  return make_vec([&](int i) { return f16_value(half[i]); });
}
inline Vec load_i8(const std::uint8_t* p) {
  return make_vec([&](int i) { return static_cast<float>(static_cast<std::int8_t>(p[i])); });
}
inline void store_bf16(std::uint16_t* p, Vec a) {
  for (int i = 0; i < Vec::kLanes; ++i) {
    p[i] = static_cast<std::uint16_t>(bits_of(round_bf16(a).v[i]) >> 16);
  }
}

// One MXFP4 group: 16 packed bytes to 32 values.
struct GroupDecoder {
  static constexpr bool kPermuted = false;
  Vec out[32 / Vec::kLanes];
  static void permute(const float* in, float* to) { __builtin_memcpy(to, in, 32 * sizeof(float)); }
  void decode(const std::uint8_t* packed, float scale) {
    constexpr float kValue[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                  -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
    for (int i = 0; i < 32; i += 2) {
      out[i / 8].v[i % 8] = kValue[packed[i / 2] & 15u] * scale;
      out[i / 8].v[i % 8 + 1] = kValue[packed[i / 2] >> 4] * scale;
    }
  }
};

}  // namespace
}  // namespace baltoro::cpu
