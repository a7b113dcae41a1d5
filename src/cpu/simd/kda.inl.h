// Kimi Delta Attention: one recurrent step of a head, and the decayed inner products of a tile.

namespace baltoro::cpu {
namespace {

// C Vecs of value columns from j on. The state is decayed twice rather than written twice: both
// passes give the same bits, and the second finds it in L1.
template <int C>
inline void kda_columns(const KdaStepArgs& s, std::int64_t j) {
  Vec predicted[C], out[C], delta[C];
  for (int c = 0; c < C; ++c) predicted[c] = out[c] = zero();
  const float* read = s.state + j;
  for (std::int64_t d = 0; d < s.dk; ++d, read += s.dv) {
    const Vec decay = broadcast(s.decay[d]), k = broadcast(s.k[d]);
    for (int c = 0; c < C; ++c) {
      predicted[c] = fma(k, decay * load(read + c * kLanes), predicted[c]);
    }
  }
  for (int c = 0; c < C; ++c) {
    delta[c] = broadcast(s.beta) * (load(s.v + j + c * kLanes) - predicted[c]);
  }
  float* row = s.state + j;
  for (std::int64_t d = 0; d < s.dk; ++d, row += s.dv) {
    const Vec decay = broadcast(s.decay[d]), k = broadcast(s.k[d]), q = broadcast(s.q[d]);
    for (int c = 0; c < C; ++c) {
      const Vec updated = fma(k, delta[c], decay * load(row + c * kLanes));
      store(row + c * kLanes, updated);
      out[c] = fma(q, updated, out[c]);
    }
  }
  for (int c = 0; c < C; ++c) store(s.out + j + c * kLanes, out[c]);
}

inline void kda_rest(const KdaStepArgs& s, std::int64_t j) {
  const int n = static_cast<int>(s.dv - j);
  Vec predicted = zero(), out = zero();
  for (std::int64_t d = 0; d < s.dk; ++d) {
    const Vec decayed = broadcast(s.decay[d]) * load_partial(s.state + d * s.dv + j, n);
    predicted = fma(broadcast(s.k[d]), decayed, predicted);
  }
  const Vec delta = broadcast(s.beta) * (load_partial(s.v + j, n) - predicted);
  for (std::int64_t d = 0; d < s.dk; ++d) {
    float* row = s.state + d * s.dv + j;
    const Vec updated = fma(broadcast(s.k[d]), delta, broadcast(s.decay[d]) * load_partial(row, n));
    store_partial(row, updated, n);
    out = fma(broadcast(s.q[d]), updated, out);
  }
  store_partial(s.out + j, out, n);
}

void kda_step(const KdaStepArgs& s) {
  std::int64_t j = 0;
  for (; j + 4 * kLanes <= s.dv; j += 4 * kLanes) kda_columns<4>(s, j);
  for (; j + kLanes <= s.dv; j += kLanes) kda_columns<1>(s, j);
  if (j < s.dv) kda_rest(s, j);
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
          key = key * get(decay + d, c);
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
