// The same for products of bf16 tiles with TDPBF16PS: two weight tiles by two blocks of rows, as in
// run_tiles.

namespace baltoro::cpu {
namespace {

std::int64_t peak_amx(std::int64_t iterations, float* lanes) {
  alignas(64) std::uint16_t words[kTileWords];
  for (std::int64_t i = 0; i < kTileWords; i += kPair) {
    _mm512_store_si512(words + i, bf16_pairs(lanes, kPair));
  }
  const TileConfig config(kPackedRows);
  asm volatile("ldtilecfg %0" ::"m"(config));
  asm volatile("" ::: "memory");
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(4, words, 64);
  _tile_loadd(5, words, 64);
  _tile_loadd(6, words, 64);
  _tile_loadd(7, words, 64);
  for (std::int64_t n = 0; n < iterations; ++n) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  alignas(64) float sums[kTileSums];
  _tile_stored(0, sums, 64);
  asm volatile("" ::: "memory");
  _tile_release();
  for (std::int64_t i = 0; i < kTileSums; ++i) lanes[i] = sums[i];
  return iterations * 4 * kTileSums * kPair * 2;
}

}  // namespace
}  // namespace baltoro::cpu
