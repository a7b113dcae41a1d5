// Dot products of weight rows with activation rows. Every output has one accumulator of Vec::kLanes
// partial sums that walks the depth in order: the same bits from the one-row loop, which decodes in
// registers, and from the tiles, which read a decoded panel.

namespace baltoro::cpu {
namespace {

constexpr int kLanes = Vec::kLanes;
constexpr int kPanel = 8;             // weight rows decoded together
constexpr int kTileOutputs = 4;       // of a panel, in registers together
constexpr std::int64_t kDepth = 512;  // columns of a panel: 16 KiB, half of a small L1
constexpr std::int64_t kGroup = 32;   // MXFP4

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

// 2^(byte - 127); 0 is the subnormal 2^-127, 255 is NaN.
inline float group_scale(std::uint8_t byte) {
  std::uint32_t bits = static_cast<std::uint32_t>(byte) << 23;
  if (byte == 0) bits = 0x00400000u;
  if (byte == 255) bits = 0x7fc00000u;
  return __builtin_bit_cast(float, bits);
}

// Calls fn(k, Vec) over the row's values in order. The last Vec may be partial.
template <LeafFormat F, typename Fn>
inline void for_each_weight(const std::uint8_t* row, const std::uint8_t* scales, std::int64_t depth,
                            Fn&& fn) {
  if constexpr (F == LeafFormat::kMxfp4) {
    GroupDecoder group;
    for (std::int64_t k = 0; k < depth; k += kGroup) {
      group.decode(row + k / 2, group_scale(scales[k / kGroup]));
      for (int i = 0; i < kGroup / kLanes; ++i) fn(k + i * kLanes, group.out[i], kLanes);
    }
  } else {
    std::int64_t k = 0;
    for (; k + kLanes <= depth; k += kLanes) fn(k, load_weight<F>(row, k), kLanes);
    const int rest = static_cast<int>(depth - k);
    if (rest > 0) fn(k, load_weight_partial<F>(row, k, rest), rest);
  }
}

inline const float* x_row(const MatmulArgs& a, std::int64_t m) {
  return a.x + (a.x_rows != nullptr ? a.x_rows[m] : m) * a.x_stride;
}

// One activation row against N weight rows, MXFP4.
template <int N>
inline void dot_mxfp4(const MatmulArgs& a, std::int64_t first, const float* x, Vec* acc) {
  const std::uint8_t* row = a.weight + first * a.weight_stride;
  const std::uint8_t* scales = a.scales + first * a.scale_stride;
  for (std::int64_t k = 0; k < a.depth; k += kGroup) {
    for (int n = 0; n < N; ++n) {
      GroupDecoder group;
      group.decode(row + n * a.weight_stride + k / 2,
                   group_scale(scales[n * a.scale_stride + k / kGroup]));
      for (int i = 0; i < kGroup / kLanes; ++i) {
        acc[n] = fma(group.out[i], load(x + k + i * kLanes), acc[n]);
      }
    }
  }
}

template <LeafFormat F, int N>
inline void dot_plain(const MatmulArgs& a, std::int64_t first, const float* x, Vec* acc) {
  const std::uint8_t* row = a.weight + first * a.weight_stride;
  std::int64_t k = 0;
  for (; k + kLanes <= a.depth; k += kLanes) {
    const Vec xv = load(x + k);
    for (int n = 0; n < N; ++n) {
      acc[n] = fma(load_weight<F>(row + n * a.weight_stride, k), xv, acc[n]);
    }
  }
  const int rest = static_cast<int>(a.depth - k);
  if (rest == 0) return;
  const Vec xv = load_partial(x + k, rest);
  for (int n = 0; n < N; ++n) {
    acc[n] = fma(load_weight_partial<F>(row + n * a.weight_stride, k, rest), xv, acc[n]);
  }
}

template <LeafFormat F, int N>
inline void one_row_group(const MatmulArgs& a, std::int64_t first, const float* x) {
  Vec acc[kTileOutputs];
  for (int n = 0; n < kTileOutputs; ++n) acc[n] = zero();
  if constexpr (F == LeafFormat::kMxfp4) {
    dot_mxfp4<N>(a, first, x, acc);
  } else {
    dot_plain<F, N>(a, first, x, acc);
  }
  float sums[kTileOutputs];
  sum4(acc[0], acc[1], acc[2], acc[3], sums);
  for (int n = 0; n < N; ++n) a.out[first + n] = sums[n];
}

template <LeafFormat F>
void one_row(const MatmulArgs& a) {
  const float* x = x_row(a, 0);
  std::int64_t n = 0;
  for (; n + kTileOutputs <= a.num_outputs; n += kTileOutputs) {
    one_row_group<F, kTileOutputs>(a, n, x);
  }
  for (; n < a.num_outputs; ++n) one_row_group<F, 1>(a, n, x);
}

// A block of columns [begin, begin + count) of the depth, and whether it is the first or last.
struct DepthBlock {
  std::int64_t begin, count;
  bool first, last;
};

// Decodes up to kPanel rows of one depth block, zero-padded to whole Vecs and whole panels.
template <LeafFormat F>
void decode_panel(const MatmulArgs& a, std::int64_t first, const DepthBlock& block, float* panel) {
  for (int n = 0; n < kPanel; ++n) {
    float* to = panel + n * kDepth;
    if (first + n >= a.num_outputs) {
      for (std::int64_t k = 0; k < block.count; k += kLanes) store(to + k, zero());
      continue;
    }
    const std::uint8_t* row = a.weight + (first + n) * a.weight_stride;
    const std::uint8_t* scales = nullptr;
    if constexpr (F == LeafFormat::kMxfp4) {
      row += block.begin / 2;
      scales = a.scales + (first + n) * a.scale_stride + block.begin / kGroup;
    } else {
      row += kBytes<F> * block.begin;
    }
    for_each_weight<F>(row, scales, block.count,
                       [to](std::int64_t k, Vec v, int) { store(to + k, v); });
  }
}

// R activation rows against kTileOutputs panel rows.
template <int R>
inline void tile(const MatmulArgs& a, std::int64_t m, std::int64_t n, const DepthBlock& block,
                 const float* panel, float* partial) {
  Vec acc[R][kTileOutputs];
  const float* x[R];
  for (int r = 0; r < R; ++r) {
    x[r] = x_row(a, m + r) + block.begin;
    for (int j = 0; j < kTileOutputs; ++j) {
      acc[r][j] = block.first ? zero() : load(partial + (r * kTileOutputs + j) * kLanes);
    }
  }
  std::int64_t k = 0;
  for (; k + kLanes <= block.count; k += kLanes) {
    Vec xv[R];
    for (int r = 0; r < R; ++r) xv[r] = load(x[r] + k);
    for (int j = 0; j < kTileOutputs; ++j) {
      const Vec w = load(panel + j * kDepth + k);
      for (int r = 0; r < R; ++r) acc[r][j] = fma(w, xv[r], acc[r][j]);
    }
  }
  const int rest = static_cast<int>(block.count - k);
  for (int r = 0; rest > 0 && r < R; ++r) {
    const Vec xv = load_partial(x[r] + k, rest);
    for (int j = 0; j < kTileOutputs; ++j) {
      acc[r][j] = fma(load(panel + j * kDepth + k), xv, acc[r][j]);
    }
  }
  for (int r = 0; r < R; ++r) {
    if (!block.last) {
      for (int j = 0; j < kTileOutputs; ++j) {
        store(partial + (r * kTileOutputs + j) * kLanes, acc[r][j]);
      }
      continue;
    }
    float sums[kTileOutputs];
    sum4(acc[r][0], acc[r][1], acc[r][2], acc[r][3], sums);
    float* out = a.out + (m + r) * a.out_stride + n;
    for (int j = 0; j < kTileOutputs && n + j < a.num_outputs; ++j) out[j] = sums[j];
  }
}

// All activation rows against one panel.
void multiply_panel(const MatmulArgs& a, std::int64_t first, const DepthBlock& block,
                    const float* panel, float* partial) {
  constexpr std::int64_t kRowPartial = kTileOutputs * kLanes;
  for (int j = 0; j < kPanel && first + j < a.num_outputs; j += kTileOutputs) {
    const float* rows = panel + j * kDepth;
    float* sums = partial + j * kMatmulRows * kLanes;
    std::int64_t m = 0;
    for (; m + kTileRows <= a.num_rows; m += kTileRows) {
      tile<kTileRows>(a, m, first + j, block, rows, sums + m * kRowPartial);
    }
    for (; m < a.num_rows; ++m) tile<1>(a, m, first + j, block, rows, sums + m * kRowPartial);
  }
}

template <LeafFormat F>
void many_rows(const MatmulArgs& a) {
  float* panel = a.scratch;
  float* partial = a.scratch + kPanel * kDepth;
  for (std::int64_t k = 0; k < a.depth; k += kDepth) {
    const std::int64_t count = a.depth - k < kDepth ? a.depth - k : kDepth;
    const DepthBlock block{k, count, k == 0, k + count == a.depth};
    for (std::int64_t n = 0; n < a.num_outputs; n += kPanel) {
      decode_panel<F>(a, n, block, panel);
      multiply_panel(a, n, block, panel, partial + n * kMatmulRows * kLanes);
    }
  }
}

template <LeafFormat F>
void matmul_format(const MatmulArgs& a) {
  if (a.num_rows == 1) {
    one_row<F>(a);
  } else {
    many_rows<F>(a);
  }
}

void matmul(const MatmulArgs& a) {
  switch (a.format) {
    case LeafFormat::kF32:
      return matmul_format<LeafFormat::kF32>(a);
    case LeafFormat::kBf16:
      return matmul_format<LeafFormat::kBf16>(a);
    case LeafFormat::kF16:
      return matmul_format<LeafFormat::kF16>(a);
    case LeafFormat::kMxfp4:
      return matmul_format<LeafFormat::kMxfp4>(a);
  }
}

template <LeafFormat F>
void decode_row_format(const std::uint8_t* data, const std::uint8_t* scales, std::int64_t n,
                       float* out) {
  for_each_weight<F>(data, scales, n,
                     [out](std::int64_t k, Vec v, int count) { store_partial(out + k, v, count); });
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
  }
}

template <LeafFormat F>
void axpy_rows_format(const MatmulArgs& w, const float* coef, float* out) {
  for (std::int64_t c = 0; c < w.depth; c += 4 * kLanes) {
    // Four Vecs of columns together: independent chains over the rows.
    Vec acc[4];
    int count[4];
    for (int i = 0; i < 4; ++i) {
      const std::int64_t left = w.depth - c - i * kLanes;
      count[i] = left >= kLanes ? kLanes : left > 0 ? static_cast<int>(left) : 0;
      acc[i] = count[i] > 0 ? load_partial(out + c + i * kLanes, count[i]) : zero();
    }
    const bool whole = count[3] == kLanes;
    for (std::int64_t r = 0; r < w.num_outputs; ++r) {
      const std::uint8_t* row = w.weight + r * w.weight_stride;
      const Vec factor = broadcast(coef[r]);
      for (int i = 0; i < 4 && count[i] > 0; ++i) {
        const std::int64_t at = c + i * kLanes;
        const Vec v = whole || count[i] == kLanes ? load_weight<F>(row, at)
                                                  : load_weight_partial<F>(row, at, count[i]);
        acc[i] = fma(factor, v, acc[i]);
      }
    }
    for (int i = 0; i < 4 && count[i] > 0; ++i)
      store_partial(out + c + i * kLanes, acc[i], count[i]);
  }
}

void axpy_rows(const MatmulArgs& w, const float* coef, float* out) {
  if (w.format == LeafFormat::kF32) return axpy_rows_format<LeafFormat::kF32>(w, coef, out);
  if (w.format == LeafFormat::kBf16) return axpy_rows_format<LeafFormat::kBf16>(w, coef, out);
  axpy_rows_format<LeafFormat::kF16>(w, coef, out);
}

}  // namespace
}  // namespace baltoro::cpu
