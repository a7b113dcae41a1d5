// Stored weights as Vecs: f32, bf16, f16 at any alignment, MXFP4 and MXINT8 by groups.

namespace baltoro::cpu {
namespace {

constexpr int kLanes = Vec::kLanes;
constexpr std::int64_t kGroup = 32;  // columns that share a scale

template <LeafFormat F>
inline constexpr int kBytes = F == LeafFormat::kF32 ? 4 : 2;

// Values k .. k + kLanes of a row that starts at `row`.
template <LeafFormat F>
inline Vec load_weight(const std::uint8_t* row, std::int64_t k) {
  if constexpr (F == LeafFormat::kF32) return load_f32(row + 4 * k);
  if constexpr (F == LeafFormat::kBf16) return load_bf16(row + 2 * k);
  if constexpr (F == LeafFormat::kF16) return load_f16(row + 2 * k);
}

// The first n of them, zero beyond; reads no byte past the row.
template <LeafFormat F>
inline Vec load_weight_partial(const std::uint8_t* row, std::int64_t k, int n) {
  alignas(64) std::uint8_t bytes[4 * kLanes] = {};
  __builtin_memcpy(bytes, row + kBytes<F> * k, static_cast<std::size_t>(kBytes<F> * n));
  return load_weight<F>(bytes, 0);
}

// 2^(byte - 127); 0 is the subnormal 2^-127, 255 is NaN. A table: one load a group, where the
// special cases would cost as much as the decoding.
struct GroupScales {
  float value[256];
};
constexpr GroupScales make_group_scales() {
  GroupScales scales{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    const std::uint32_t bits = byte == 0 || byte == 255 ? (byte << 23) | 0x00400000u : byte << 23;
    scales.value[byte] = __builtin_bit_cast(float, bits);
  }
  return scales;
}
constexpr GroupScales kGroupScales = make_group_scales();
inline float group_scale(std::uint8_t byte) { return kGroupScales.value[byte]; }

// One MXINT8 group: 32 int8 codes to 32 values.
struct Int8Decoder {
  static constexpr bool kPermuted = false;
  Vec out[kGroup / kLanes];
  static void permute(const float* in, float* to) { __builtin_memcpy(to, in, 32 * sizeof(float)); }
  void decode(const std::uint8_t* codes, float scale) {
    const Vec factor = broadcast(scale * 0x1p-6f);
    for (int i = 0; i < kGroup / kLanes; ++i) out[i] = load_i8(codes + i * kLanes) * factor;
  }
};

// The formats whose scales are shared by groups, and how a group of each lies and decodes.
template <LeafFormat F>
inline constexpr bool kGrouped = F == LeafFormat::kMxfp4 || F == LeafFormat::kMxint8;
template <LeafFormat F>
inline constexpr std::int64_t kGroupBytes = F == LeafFormat::kMxfp4 ? kGroup / 2 : kGroup;
template <LeafFormat F>
struct DecoderOf {
  using Type = GroupDecoder;
};
template <>
struct DecoderOf<LeafFormat::kMxint8> {
  using Type = Int8Decoder;
};
template <LeafFormat F>
using Decoder = typename DecoderOf<F>::Type;

// Calls fn(k, Vec) over the row's values in order. The last Vec may be partial.
template <LeafFormat F, typename Fn>
inline void for_each_weight(const std::uint8_t* row, const std::uint8_t* scales, std::int64_t depth,
                            Fn&& fn) {
  if constexpr (kGrouped<F>) {
    Decoder<F> group;
    for (std::int64_t k = 0; k < depth; k += kGroup) {
      group.decode(row + k / kGroup * kGroupBytes<F>, group_scale(scales[k / kGroup]));
      for (int i = 0; i < kGroup / kLanes; ++i) fn(k + i * kLanes, group.out[i], kLanes);
    }
  } else {
    std::int64_t k = 0;
    for (; k + kLanes <= depth; k += kLanes) fn(k, load_weight<F>(row, k), kLanes);
    const int rest = static_cast<int>(depth - k);
    if (rest > 0) fn(k, load_weight_partial<F>(row, k, rest), rest);
  }
}

template <LeafFormat F>
void decode_row_format(const std::uint8_t* data, const std::uint8_t* scales, std::int64_t n,
                       float* out) {
  for_each_weight<F>(data, scales, n,
                     [out](std::int64_t k, Vec v, int count) { store_partial(out + k, v, count); });
  if constexpr (kGrouped<F> && Decoder<F>::kPermuted) {
    // The permutation is its own inverse.
    float group[kGroup];
    for (std::int64_t k = 0; k < n; k += kGroup) {
      Decoder<F>::permute(out + k, group);
      __builtin_memcpy(out + k, group, sizeof(group));
    }
  }
}

void decode_row(const std::uint8_t* data, const std::uint8_t* scales, LeafFormat format,
                std::int64_t n, float* out) {
  switch (format) {
    case LeafFormat::kF32:
      return decode_row_format<LeafFormat::kF32>(data, scales, n, out);
    case LeafFormat::kBf16:
      return decode_row_format<LeafFormat::kBf16>(data, scales, n, out);
    case LeafFormat::kF16:
      return decode_row_format<LeafFormat::kF16>(data, scales, n, out);
    case LeafFormat::kMxfp4:
      return decode_row_format<LeafFormat::kMxfp4>(data, scales, n, out);
    case LeafFormat::kMxint8:
      return decode_row_format<LeafFormat::kMxint8>(data, scales, n, out);
  }
}

// C Vecs of columns from c on: independent chains over the rows, and a long piece of each row.
template <LeafFormat F, int C>
void axpy_columns(const MatmulArgs& w, std::int64_t c, const float* coef, float* out) {
  Vec acc[C];
  for (int i = 0; i < C; ++i) acc[i] = load(out + c + i * kLanes);
  const std::uint8_t* row = w.weight;
  for (std::int64_t r = 0; r < w.num_outputs; ++r, row += w.weight_stride) {
    const Vec factor = broadcast(coef[r]);
    for (int i = 0; i < C; ++i) acc[i] = fma(factor, load_weight<F>(row, c + i * kLanes), acc[i]);
  }
  for (int i = 0; i < C; ++i) store(out + c + i * kLanes, acc[i]);
}

template <LeafFormat F>
void axpy_rows_format(const MatmulArgs& w, const float* coef, float* out) {
  constexpr int kWide = kLanes;  // half of the registers
  std::int64_t c = 0;
  for (; c + kWide * kLanes <= w.depth; c += kWide * kLanes)
    axpy_columns<F, kWide>(w, c, coef, out);
  for (; c + 4 * kLanes <= w.depth; c += 4 * kLanes) axpy_columns<F, 4>(w, c, coef, out);
  for (; c + kLanes <= w.depth; c += kLanes) axpy_columns<F, 1>(w, c, coef, out);
  const int rest = static_cast<int>(w.depth - c);
  if (rest == 0) return;
  Vec acc = load_partial(out + c, rest);
  for (std::int64_t r = 0; r < w.num_outputs; ++r) {
    const Vec v = load_weight_partial<F>(w.weight + r * w.weight_stride, c, rest);
    acc = fma(broadcast(coef[r]), v, acc);
  }
  store_partial(out + c, acc, rest);
}

void axpy_rows(const MatmulArgs& w, const float* coef, float* out) {
  if (w.format == LeafFormat::kF32) return axpy_rows_format<LeafFormat::kF32>(w, coef, out);
  if (w.format == LeafFormat::kBf16) return axpy_rows_format<LeafFormat::kBf16>(w, coef, out);
  axpy_rows_format<LeafFormat::kF16>(w, coef, out);
}

}  // namespace
}  // namespace baltoro::cpu
