// Vector exp, sigmoid, tanh, softplus over Vec, within 3 ulp of the exact value. NaN passes
// through.

namespace baltoro::cpu {
namespace {

// e^r - 1 for |r| <= ln 2 / 2: r + r^2 P(r), P the minimax polynomial (error below 2^-28 of e^r).
inline Vec expm1_reduced(Vec r) {
  Vec p = broadcast(0x1.6a23d0p-10f);
  p = fma(p, r, broadcast(0x1.123a20p-7f));
  p = fma(p, r, broadcast(0x1.5558f2p-5f));
  p = fma(p, r, broadcast(0x1.555492p-3f));
  p = fma(p, r, broadcast(0x1.fffffcp-2f));
  return fma(p * r, r, r);
}

struct Reduced {
  Vec n;  // integral
  Vec r;  // x = n ln 2 + r
};
inline Reduced reduce(Vec x) {
  const Vec n = round_nearest(x * broadcast(1.44269504f));
  // ln 2 in two parts; the first has 9 trailing zero bits, so that n times it is exact.
  Vec r = fma(n, broadcast(-0.693359375f), x);
  r = fma(n, broadcast(2.12194440e-4f), r);
  return {n, r};
}

inline Vec exp(Vec x) {
  const Reduced s = reduce(min(broadcast(89.0f), max(broadcast(-104.0f), x)));
  return scale_by_power(expm1_reduced(s.r) + broadcast(1.0f), s.n);
}

// 1 / (1 + e) for x >= 0 and e / (1 + e) for x < 0, with e = exp(-|x|) <= 1.
inline Vec sigmoid(Vec x) {
  const Vec one = broadcast(1.0f);
  const Vec e = exp(zero() - abs(x));
  return select_negative(x, e, one) * reciprocal(one + e);
}

// -e / (e + 2) with e = expm1(-2|x|), which is accurate for small |x| too.
inline Vec tanh(Vec x) {
  const Vec y = max(broadcast(-40.0f), broadcast(-2.0f) * abs(x));
  const Reduced s = reduce(y);
  const Vec scale = power_of_two(s.n);
  const Vec e = fma(scale, expm1_reduced(s.r), scale - broadcast(1.0f));
  return copy_sign(e * reciprocal(e + broadcast(2.0f)), x);
}

// log(1 + u) for u in [0, 1] as 2 atanh(s), s = u / (2 + u) <= 1/3; s^17 / 17 is below 2^-28.
inline Vec log1p_unit(Vec u) {
  const Vec s = u * reciprocal(broadcast(2.0f) + u);
  const Vec t = s * s;
  Vec p = broadcast(1.0f / 15.0f);
  p = fma(p, t, broadcast(1.0f / 13.0f));
  p = fma(p, t, broadcast(1.0f / 11.0f));
  p = fma(p, t, broadcast(1.0f / 9.0f));
  p = fma(p, t, broadcast(1.0f / 7.0f));
  p = fma(p, t, broadcast(1.0f / 5.0f));
  p = fma(p, t, broadcast(1.0f / 3.0f));
  return broadcast(2.0f) * fma(p * t, s, s);
}

inline Vec softplus(Vec x) { return max(zero(), x) + log1p_unit(exp(zero() - abs(x))); }

}  // namespace
}  // namespace baltoro::cpu
