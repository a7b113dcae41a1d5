// What the units for f32 multiply-adds deliver when nothing else is in the way: the roof for the
// percentages in reports. As many independent chains as a matmul tile has accumulators.

namespace baltoro::cpu {
namespace {

constexpr int kPeakChains = kTileRows * kTileOutputs;

std::int64_t peak_f32(std::int64_t iterations, float* lanes) {
  Vec acc[kPeakChains];
  for (int i = 0; i < kPeakChains; ++i) acc[i] = load(lanes + i * kLanes);
  const Vec a = broadcast(lanes[0]), b = broadcast(lanes[1]);
  for (std::int64_t n = 0; n < iterations; ++n) {
    // The chain runs through the product, so that no multiplication can be moved out of the loop.
    for (int i = 0; i < kPeakChains; ++i) acc[i] = fma(acc[i], a, b);
  }
  for (int i = 0; i < kPeakChains; ++i) store(lanes + i * kLanes, acc[i]);
  return iterations * kPeakChains * kLanes * 2;
}

}  // namespace
}  // namespace baltoro::cpu
