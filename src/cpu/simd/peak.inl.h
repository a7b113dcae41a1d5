// What the units for f32 multiply-adds deliver when nothing else is in the way: the roof for the
// percentages in reports. As many independent chains as a matmul tile has accumulators.

namespace baltoro::cpu {
namespace {

constexpr int kPeakChains = kTileRows * kTileOutputs;

// Two short loops, as the tiles have them: the compiler keeps one long loop over the chains, and
// the chains in memory.
struct PeakChains {
  Vec acc[kTileRows][kTileOutputs];

  void load_from(const float* lanes) {
    for (int r = 0; r < kTileRows; ++r) {
      for (int j = 0; j < kTileOutputs; ++j) {
        acc[r][j] = load(lanes + (r * kTileOutputs + j) * kLanes);
      }
    }
  }
  void store_to(float* lanes) const {
    for (int r = 0; r < kTileRows; ++r) {
      for (int j = 0; j < kTileOutputs; ++j) {
        store(lanes + (r * kTileOutputs + j) * kLanes, acc[r][j]);
      }
    }
  }
};

std::int64_t peak_f32(std::int64_t iterations, float* lanes) {
  PeakChains chains;
  chains.load_from(lanes);
  const Vec a = broadcast(lanes[0]), b = broadcast(lanes[1]);
  for (std::int64_t n = 0; n < iterations; ++n) {
    // The chain runs through the product, so that no multiplication can be moved out of the loop.
    for (int r = 0; r < kTileRows; ++r) {
      for (int j = 0; j < kTileOutputs; ++j) chains.acc[r][j] = fma(chains.acc[r][j], a, b);
    }
  }
  chains.store_to(lanes);
  return iterations * kPeakChains * kLanes * 2;
}

float sum_all(const float* x, std::int64_t n) {
  Vec chains[8];
  for (Vec& chain : chains) chain = zero();
  for (std::int64_t i = 0; i < n; i += 8 * kLanes) {
    for (int j = 0; j < 8; ++j) chains[j] = chains[j] + load(x + i + j * kLanes);
  }
  for (int j = 1; j < 8; ++j) chains[0] = chains[0] + chains[j];
  return sum(chains[0]);
}

}  // namespace
}  // namespace baltoro::cpu
