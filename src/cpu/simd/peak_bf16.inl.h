// The same for products of bf16 pairs with VDPBF16PS.

namespace baltoro::cpu {
namespace {

std::int64_t peak_bf16(std::int64_t iterations, float* lanes) {
  PeakChains chains;
  chains.load_from(lanes);
  const __m512bh pairs = as_bh(bf16_pairs(lanes, kPair));
  for (std::int64_t n = 0; n < iterations; ++n) {
    for (int r = 0; r < kTileRows; ++r) {
      for (int j = 0; j < kTileOutputs; ++j) {
        chains.acc[r][j].v = _mm512_dpbf16_ps(chains.acc[r][j].v, pairs, pairs);
      }
    }
  }
  chains.store_to(lanes);
  return iterations * kPeakChains * kPair * 2;
}

}  // namespace
}  // namespace baltoro::cpu
