// MXFP4 weights that meet few rows in dot products of bf16 pairs: the scales are applied to the sums
// of a chunk, which is less work than to scale its weights.
//
// A scale is a power of two, so both give the same bits where nothing under- or overflows on the way
// (the unit flushes subnormals). With activations that are zero or within 2^-94 .. 2^60 (gates reach
// far down) and scales within 2^-24 .. 2^60, products and their sums, scaled or not, are multiples of
// 2^-126 and below 2^128. Other rows take the scaled weights, as many rows do.

namespace baltoro::cpu {
namespace {

constexpr int kScaleOne = 127;  // also the exponent field of 1 in bf16
constexpr int kLeastScale = kScaleOne - 24, kLargestScale = kScaleOne + 60;
constexpr int kLeastExponent = kScaleOne - 94, kLargestExponent = kScaleOne + 60;

// Whether some of the words (a multiple of 32) is outside the range above.
inline bool any_word_outside(const std::uint16_t* words, std::int64_t count) {
  __m512i least = _mm512_set1_epi16(-1), largest = _mm512_setzero_si512();
  for (std::int64_t i = 0; i < count; i += kPair) {
    const __m512i magnitude =
        _mm512_and_si512(_mm512_loadu_si512(words + i), _mm512_set1_epi16(0x7fff));
    // Zero becomes the largest.
    least = _mm512_min_epu16(least, _mm512_sub_epi16(magnitude, _mm512_set1_epi16(1)));
    largest = _mm512_max_epu16(largest, magnitude);
  }
  const __m512i low = _mm512_set1_epi16(kLeastExponent * 128 - 1);
  const __m512i high = _mm512_set1_epi16(kLargestExponent * 128);
  return (_mm512_cmplt_epu16_mask(least, low) | _mm512_cmpgt_epu16_mask(largest, high)) != 0;
}

struct Mxfp4Sums : Mxfp4Row {
  using Mxfp4Row::Mxfp4Row;

  static bool may_take(const MatmulArgs& a) {
    if (a.packed == nullptr || a.narrow == nullptr) return false;
    bool all = true;
    for (std::int64_t m = 0; m < a.num_rows; ++m) all &= a.narrow[m] != 0;
    return all;
  }
  // The codes as they are.
  Chunk unscaled(std::int64_t k, std::int64_t n) const {
    const __m512i down = _mm512_set1_epi16((252 - kScaleOne) * 128);
    return look_up_codes(codes(k, n), _mm512_subs_epu16(_mm512_loadu_si512(kCodeWords), down));
  }
  // For each lane of a chunk's sums, which adds up 8 elements, the scale of its group.
  Vec lane_scales(std::int64_t k, std::int64_t n) const {
    alignas(64) static constexpr std::int8_t kToTop[64] = {
        -1, -1, -1, 0, -1, -1, -1, 0, -1, -1, -1, 0, -1, -1, -1, 0,  //
        -1, -1, -1, 1, -1, -1, -1, 1, -1, -1, -1, 1, -1, -1, -1, 1,  //
        -1, -1, -1, 2, -1, -1, -1, 2, -1, -1, -1, 2, -1, -1, -1, 2,  //
        -1, -1, -1, 3, -1, -1, -1, 3, -1, -1, -1, 3, -1, -1, -1, 3};
    const __m512i four = _mm512_set1_epi32(static_cast<int>(group_scales(k, n)));
    const __m512i top = _mm512_shuffle_epi8(four, _mm512_loadu_si512(kToTop));
    return {_mm512_castsi512_ps(_mm512_srli_epi32(top, 1))};
  }
};

}  // namespace
}  // namespace baltoro::cpu
