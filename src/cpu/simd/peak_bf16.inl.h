// The same for products of bf16 pairs with VDPBF16PS.

namespace baltoro::cpu {
namespace {

std::int64_t peak_bf16(std::int64_t iterations, float* lanes) {
  Vec acc[kPeakChains];
  for (int i = 0; i < kPeakChains; ++i) acc[i] = load(lanes + i * kLanes);
  const __m512bh pairs = as_bh(bf16_pairs(lanes, kPair));
  for (std::int64_t n = 0; n < iterations; ++n) {
    for (int i = 0; i < kPeakChains; ++i) acc[i].v = _mm512_dpbf16_ps(acc[i].v, pairs, pairs);
  }
  for (int i = 0; i < kPeakChains; ++i) store(lanes + i * kLanes, acc[i]);
  return iterations * kPeakChains * kPair * 2;
}

}  // namespace
}  // namespace baltoro::cpu
