// Kimi Delta Attention: one recurrent step of a head, rows times running decays, and the decayed
// inner products of a tile.

namespace baltoro::cpu {
namespace {

// What a column needs beside KdaStepArgs: [Dk] decay k and decay q, and k . q.
struct KdaStepShared {
  const float* decayed_k;
  const float* decayed_q;
  Vec overlap;
};

// C Vecs of value columns from j on; one Vec may have n lanes:
//   predicted = S^T (decay k);  delta = beta (v - predicted);  S <- decay S + k delta^T
//   out = (new S)^T q = S^T (decay q) + (k . q) delta
// so that one pass reads the old state for both products and the second, which finds it in L2,
// updates it. What the loops read is in variables of their own: a store to the state might else have
// changed it, and would have it read again.
template <int C>
inline void kda_columns(const KdaStepArgs& s, const KdaStepShared& shared, std::int64_t j,
                        int lanes) {
  const int n = C > 1 ? kLanes : lanes;
  const std::int64_t dk = s.dk, dv = s.dv;
  const float *const decayed_k = shared.decayed_k, *const decayed_q = shared.decayed_q;
  Vec predicted[C], out[C], delta[C];
  for (int c = 0; c < C; ++c) predicted[c] = out[c] = zero();
  const float* read = s.state + j;
  for (std::int64_t d = 0; d < dk; ++d, read += dv) {
    const Vec k = broadcast(decayed_k[d]), q = broadcast(decayed_q[d]);
    for (int c = 0; c < C; ++c) {
      const Vec old = in_register(get(read + c * kLanes, n));
      predicted[c] = fma(k, old, predicted[c]);
      out[c] = fma(q, old, out[c]);
    }
  }
  for (int c = 0; c < C; ++c) {
    delta[c] = broadcast(s.beta) * (get(s.v + j + c * kLanes, n) - predicted[c]);
    put(s.out + j + c * kLanes, fma(shared.overlap, delta[c], out[c]), n);
  }
  const float *const decays = s.decay, *const keys = s.k;
  float* row = s.state + j;
  for (std::int64_t d = 0; d < dk; ++d, row += dv) {
    const Vec decay = broadcast(decays[d]), k = broadcast(keys[d]);
    for (int c = 0; c < C; ++c) {
      put(row + c * kLanes, fma(k, delta[c], decay * get(row + c * kLanes, n)), n);
    }
  }
}

void kda_step(const KdaStepArgs& s) {
  float* decayed_k = s.scratch;
  float* decayed_q = s.scratch + s.dk;
  Vec overlap = zero();
  for_vecs(s.dk, [&](std::int64_t d, int c) {
    const Vec decay = get(s.decay + d, c), k = get(s.k + d, c), q = get(s.q + d, c);
    put(decayed_k + d, decay * k, c);
    put(decayed_q + d, decay * q, c);
    overlap = fma(k, q, overlap);
  });
  const KdaStepShared shared{decayed_k, decayed_q, broadcast(sum(overlap))};
  // Half of the registers; with 16 lanes a head of 128 is then read in the order of memory, and one of
  // 64 by the half of that.
  constexpr int kWide = kLanes / 2, kHalf = kWide > 1 ? kWide / 2 : 1;
  std::int64_t j = 0;
  for (; j + kWide * kLanes <= s.dv; j += kWide * kLanes) kda_columns<kWide>(s, shared, j, kLanes);
  for (; j + kHalf * kLanes <= s.dv; j += kHalf * kLanes) kda_columns<kHalf>(s, shared, j, kLanes);
  for (; j + kLanes <= s.dv; j += kLanes) kda_columns<1>(s, shared, j, kLanes);
  if (j < s.dv) kda_columns<1>(s, shared, j, static_cast<int>(s.dv - j));
}

void decay_row(float* row, const float* decay, std::int64_t n) {
  for_vecs(n, [&](std::int64_t d, int c) {
    put(row + d, zero_below(get(row + d, c) * get(decay + d, c), kSmallestDecay), c);
  });
}

void kda_decay(const KdaDecayArgs& a) {
  for_vecs(a.dk, [&](std::int64_t d, int c) {
    Vec running = get(a.running + d, c);
    for (std::int64_t i = 0; i < a.n; ++i) {
      const std::int64_t at = i * a.stride + d;
      const Vec next = zero_below(running * get(a.decay + at, c), kSmallestDecay);
      const Vec factor = a.inclusive ? next : running;
      put(a.out[0] + at, get(a.x[0] + at, c) * factor, c);
      if (a.x[1] != nullptr) put(a.out[1] + at, get(a.x[1] + at, c) * factor, c);
      running = next;
    }
    put(a.running + d, running, c);
  });
}

void kda_pairs(const KdaPairsArgs& p) {
  float* decayed = p.scratch;
  for (std::int64_t j = 0; j < p.n; ++j) {
    for_vecs(p.dk, [&](std::int64_t d, int c) { put(decayed + d, get(p.k + j * p.dk + d, c), c); });
    for (std::int64_t i = j; i < p.n; ++i) {
      const float* q = p.q + i * p.dk;
      const float* k = p.k + i * p.dk;
      const float* decay = p.decay + i * p.dk;
      Vec qk = zero(), kk = zero();
      for_vecs(p.dk, [&](std::int64_t d, int c) {
        Vec key = get(decayed + d, c);
        if (i > j) {
          key = zero_below(key * get(decay + d, c), kSmallestDecay);
          put(decayed + d, key, c);
        }
        qk = fma(get(q + d, c), key, qk);
        kk = fma(get(k + d, c), key, kk);
      });
      float sums[4];
      sum4(qk, kk, qk, kk, sums);
      p.qk[i * p.pair_stride + j] = sums[0];
      if (i > j) p.kk[i * p.pair_stride + j] = sums[1];
    }
  }
}

}  // namespace
}  // namespace baltoro::cpu
