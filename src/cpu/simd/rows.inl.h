// Loops over one row: element-wise functions and fixed-order reductions.

namespace baltoro::cpu {
namespace {

// Calls fn(i, n) for i = 0, kLanes, ...; n = kLanes but for the rest.
template <typename Fn>
inline void for_vecs(std::int64_t n, Fn&& fn) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) fn(i, kLanes);
  if (i < n) fn(i, static_cast<int>(n - i));
}
inline Vec get(const float* p, int n) { return n == kLanes ? load(p) : load_partial(p, n); }
inline void put(float* p, Vec v, int n) {
  if (n == kLanes) {
    store(p, v);
  } else {
    store_partial(p, v, n);
  }
}
inline Vec rounded(Vec v, bool round) { return round ? round_bf16(v) : v; }

void encode_bf16(const float* x, std::int64_t n, std::uint16_t* out) {
  for_vecs(n, [&](std::int64_t i, int count) {
    if (count == kLanes) return store_bf16(out + i, load(x + i));
    std::uint16_t words[kLanes];
    store_bf16(words, load_partial(x + i, count));
    __builtin_memcpy(out + i, words, static_cast<std::size_t>(count) * 2);
  });
}
void round_bf16_row(float* x, std::int64_t n) {
  for_vecs(n, [&](std::int64_t i, int c) { put(x + i, round_bf16(get(x + i, c)), c); });
}
void add(float* out, const float* residual, std::int64_t n, bool round) {
  for_vecs(n, [&](std::int64_t i, int c) {
    put(out + i, rounded(get(residual + i, c) + get(out + i, c), round), c);
  });
}
void scale(float* x, float factor, std::int64_t n) {
  for_vecs(n, [&](std::int64_t i, int c) { put(x + i, get(x + i, c) * broadcast(factor), c); });
}
void multiply(float* out, const float* a, const float* b, std::int64_t n) {
  for_vecs(n, [&](std::int64_t i, int c) { put(out + i, get(a + i, c) * get(b + i, c), c); });
}

void squares_and_dot(const float* x, const float* w, std::int64_t n, float* sums) {
  Vec squares = zero(), dot = zero();
  for_vecs(n, [&](std::int64_t i, int c) {
    const Vec v = get(x + i, c);
    squares = fma(v, v, squares);
    dot = fma(v, get(w + i, c), dot);
  });
  sums[0] = sum(squares);
  sums[1] = sum(dot);
}
float sum_squares(const float* x, std::int64_t n) {
  Vec squares = zero();
  for_vecs(n, [&](std::int64_t i, int c) {
    const Vec v = get(x + i, c);
    squares = fma(v, v, squares);
  });
  return sum(squares);
}
void weighted_sum(const float* const* src, const float* coef, std::int64_t count, std::int64_t n,
                  float* out, bool round) {
  for_vecs(n, [&](std::int64_t i, int c) {
    Vec acc = zero();
    for (std::int64_t s = 0; s < count; ++s) {
      acc = fma(broadcast(coef[s]), get(src[s] + i, c), acc);
    }
    put(out + i, rounded(acc, round), c);
  });
}
void norm_apply(const float* x, float factor, const float* weight, std::int64_t n, float* out,
                bool round) {
  for_vecs(n, [&](std::int64_t i, int c) {
    const Vec normed = rounded(get(x + i, c) * broadcast(factor), round);
    put(out + i, rounded(get(weight + i, c) * normed, round), c);
  });
}
void norm_gate(const float* x, float factor, const float* weight, const float* gate, std::int64_t n,
               float* out, bool round) {
  for_vecs(n, [&](std::int64_t i, int c) {
    Vec v = get(x + i, c) * broadcast(factor) * get(weight + i, c);
    if (gate != nullptr) v = v * sigmoid(get(gate + i, c));
    put(out + i, rounded(v, round), c);
  });
}
void gate_apply(const float* x, const float* gate, std::int64_t n, float* out, bool round) {
  for_vecs(n, [&](std::int64_t i, int c) {
    const Vec s = rounded(sigmoid(get(gate + i, c)), round);
    put(out + i, rounded(get(x + i, c) * s, round), c);
  });
}
bool all_finite_row(const float* x, std::int64_t n) {
  bool finite = true;
  for_vecs(n, [&](std::int64_t i, int c) { finite = finite && all_finite(get(x + i, c)); });
  return finite;
}

void sigmoid_row(const float* x, std::int64_t n, float* out) {
  for_vecs(n, [&](std::int64_t i, int c) { put(out + i, sigmoid(get(x + i, c)), c); });
}
void situ(float* gate, const float* up, std::int64_t n, float beta, float linear_beta, bool round) {
  const Vec inverse = broadcast(1.0f / beta), linear_inverse = broadcast(1.0f / linear_beta);
  for_vecs(n, [&](std::int64_t i, int c) {
    const Vec g = get(gate + i, c);
    const Vec capped = broadcast(beta) * tanh(g * inverse);
    const Vec linear = broadcast(linear_beta) * tanh(get(up + i, c) * linear_inverse);
    put(gate + i, rounded(capped * sigmoid(g) * linear, round), c);
  });
}
void swiglu(float* gate, const float* up, std::int64_t n, bool round) {
  for_vecs(n, [&](std::int64_t i, int c) {
    const Vec g = get(gate + i, c);
    put(gate + i, rounded(rounded(g * sigmoid(g), round) * get(up + i, c), round), c);
  });
}
void transpose(const TransposeArgs& t) {
  for (std::int64_t c = 0; c < t.cols; ++c) {
    for_vecs(t.rows, [&](std::int64_t r, int n) {
      put(t.out + c * t.out_stride + r, load_strided(t.in + r * t.in_stride + c, t.in_stride, n),
          n);
    });
  }
}
float max_row(const float* x, std::int64_t n) {
  Vec m = broadcast(x[0]);
  for_vecs(n, [&](std::int64_t i, int c) {
    // Lanes past the end repeat x[0].
    float last[kLanes];
    if (c != kLanes) {
      store(last, broadcast(x[0]));
      for (int j = 0; j < c; ++j) last[j] = x[i + j];
    }
    m = max(c == kLanes ? load(x + i) : load(last), m);
  });
  return max_lane(m);
}
float exp_sum(float* x, std::int64_t n, float shift) {
  Vec total = zero();
  for_vecs(n, [&](std::int64_t i, int c) {
    const Vec e = exp(get(x + i, c) - broadcast(shift));
    put(x + i, e, c);
    total = total + get(x + i, c);
  });
  return sum(total);
}

void transpose_taps(const float* taps, std::int64_t n, std::int64_t width, float* out) {
  std::int64_t c = 0;
  for (; width == 4 && c + kLanes <= n; c += kLanes) {
    Vec by_age[4];
    deinterleave4(taps + 4 * c, by_age);
    for (int j = 0; j < 4; ++j) store(out + j * n + c, by_age[j]);
  }
  for (; c < n; ++c) {
    for (std::int64_t j = 0; j < width; ++j) out[j * n + c] = taps[c * width + j];
  }
}
void conv_silu(const float* const* rows, const float* taps, std::int64_t width, std::int64_t n,
               float* out, bool round) {
  for_vecs(n, [&](std::int64_t i, int c) {
    Vec y = zero();
    for (std::int64_t j = 0; j < width; ++j) {
      y = fma(get(taps + j * n + i, c), get(rows[j] + i, c), y);
    }
    put(out + i, rounded(y * sigmoid(y), round), c);
  });
}
// One Vec of channels from i on, of the released width.
inline void conv_step_of_four(const ConvStepArgs& a, std::int64_t i) {
  float* const oldest = a.history + i;
  float* const middle = oldest + a.history_stride;
  float* const newest = middle + a.history_stride;
  const Vec rows[] = {load(oldest), load(middle), load(newest), load(a.x + i)};
  Vec taps[4];
  deinterleave4(a.taps + 4 * i, taps);
  store(oldest, rows[1]);
  store(middle, rows[2]);
  store(newest, rows[3]);
  Vec y = zero();
  for (int j = 0; j < 4; ++j) y = fma(taps[j], rows[j], y);
  store(a.out + i, rounded(y * sigmoid(y), a.round));
}
void conv_step(const ConvStepArgs& args) {
  const ConvStepArgs a = args;
  for_vecs(a.n, [&](std::int64_t i, int c) {
    if (a.width == 4 && c == kLanes) return conv_step_of_four(a, i);
    Vec y = zero();
    for (std::int64_t j = 0; j < a.width; ++j) {
      const Vec row = get(j + 1 < a.width ? a.history + j * a.history_stride + i : a.x + i, c);
      y = fma(load_strided(a.taps + i * a.width + j, a.width, c), row, y);
      if (j > 0) put(a.history + (j - 1) * a.history_stride + i, row, c);
    }
    put(a.out + i, rounded(y * sigmoid(y), a.round), c);
  });
}
void l2_normalize(float* x, std::int64_t n, float eps, float factor) {
  const Vec length = broadcast(1.0f / __builtin_sqrtf(sum_squares(x, n) + eps));
  for_vecs(
      n, [&](std::int64_t i, int c) { put(x + i, get(x + i, c) * length * broadcast(factor), c); });
}
void decay_bounded(const float* x, const float* bias, std::int64_t n, float rate, float lower_bound,
                   float* out) {
  for_vecs(n, [&](std::int64_t i, int c) {
    const Vec z = get(x + i, c) + get(bias + i, c);
    put(out + i, exp(broadcast(lower_bound) * sigmoid(broadcast(rate) * z)), c);
  });
}
void decay_softplus(const float* x, const float* bias, std::int64_t n, float rate, float* out) {
  for_vecs(n, [&](std::int64_t i, int c) {
    const Vec z = get(x + i, c) + get(bias + i, c);
    put(out + i, exp(broadcast(-rate) * softplus(z)), c);
  });
}

}  // namespace
}  // namespace baltoro::cpu
