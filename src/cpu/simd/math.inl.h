// Vector exp, sigmoid, tanh, softplus over Vec, within 3 ulp of the exact value. NaN passes
// through.

namespace baltoro::cpu {
namespace {

// e^r - 1 for |r| <= ln 2 / 2: the Taylor series to r^7; the next term is below 2^-27 of the sum.
inline Vec expm1_reduced(Vec r) {
  Vec p = broadcast(1.0f / 5040.0f);
  p = fma(p, r, broadcast(1.0f / 720.0f));
  p = fma(p, r, broadcast(1.0f / 120.0f));
  p = fma(p, r, broadcast(1.0f / 24.0f));
  p = fma(p, r, broadcast(1.0f / 6.0f));
  p = fma(p, r, broadcast(0.5f));
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

// 2^n for an integral n in [-252, 254], as two factors so that subnormal results and overflow come
// out right.
struct Power {
  Vec first, second;
};
inline Power split_power(Vec n) {
  const Vec half = round_nearest(n * broadcast(0.5f));
  return {power_of_two(half), power_of_two(n - half)};
}

inline Vec exp(Vec x) {
  const Vec clamped = min(broadcast(89.0f), max(broadcast(-104.0f), x));
  const Reduced s = reduce(clamped);
  const Power p = split_power(s.n);
  return (expm1_reduced(s.r) + broadcast(1.0f)) * p.first * p.second;
}

inline Vec sigmoid(Vec x) {
  const Vec one = broadcast(1.0f);
  return one / (one + exp(zero() - x));
}

// -e / (e + 2) with e = expm1(-2|x|), which is accurate for small |x| too.
inline Vec tanh(Vec x) {
  const Vec y = max(broadcast(-40.0f), broadcast(-2.0f) * abs(x));
  const Reduced s = reduce(y);
  const Vec scale = power_of_two(s.n);
  const Vec e = fma(scale, expm1_reduced(s.r), scale - broadcast(1.0f));
  return copy_sign(e / (e + broadcast(2.0f)), x);
}

// log(1 + u) for u in [0, 1] as 2 atanh(s), s = u / (2 + u) <= 1/3; s^17 / 17 is below 2^-28.
inline Vec log1p_unit(Vec u) {
  const Vec s = u / (broadcast(2.0f) + u);
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
