// c += a b with lanes along the columns: each element is one chain over the depth, whatever tile it
// falls into.

namespace baltoro::cpu {
namespace {

// Row k of b, from column j on.
template <LeafFormat F>
inline const std::uint8_t* outer_b(const OuterArgs& g, std::int64_t k, std::int64_t j) {
  return static_cast<const std::uint8_t*>(g.b) + kBytes<F> * (k * g.b_stride + j);
}

// R rows by C Vecs of columns.
template <LeafFormat F, int R, int C>
inline void outer_tile(const OuterArgs& g, std::int64_t i, std::int64_t j) {
  Vec acc[R][C];
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) acc[r][c] = load(g.c + (i + r) * g.c_stride + j + c * kLanes);
  }
  const std::uint8_t* row = outer_b<F>(g, 0, j);
  for (std::int64_t k = 0; k < g.depth; ++k, row += kBytes<F> * g.b_stride) {
    Vec a[R];
    for (int r = 0; r < R; ++r) a[r] = broadcast(g.a[(i + r) * g.a_row + k * g.a_depth]);
    for (int c = 0; c < C; ++c) {
      const Vec b = load_weight<F>(row, c * kLanes);
      for (int r = 0; r < R; ++r) acc[r][c] = fma(a[r], b, acc[r][c]);
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) store(g.c + (i + r) * g.c_stride + j + c * kLanes, acc[r][c]);
  }
}

template <LeafFormat F>
inline void outer_rest(const OuterArgs& g, std::int64_t i, std::int64_t j) {
  const int n = static_cast<int>(g.cols - j);
  float* c = g.c + i * g.c_stride + j;
  Vec acc = load_partial(c, n);
  for (std::int64_t k = 0; k < g.depth; ++k) {
    const Vec a = broadcast(g.a[i * g.a_row + k * g.a_depth]);
    acc = fma(a, load_weight_partial<F>(outer_b<F>(g, k, j), 0, n), acc);
  }
  store_partial(c, acc, n);
}

template <LeafFormat F, int R>
inline void outer_rows(const OuterArgs& g, std::int64_t i) {
  std::int64_t j = 0;
  for (; j + 4 * kLanes <= g.cols; j += 4 * kLanes) outer_tile<F, R, 4>(g, i, j);
  for (; j + kLanes <= g.cols; j += kLanes) outer_tile<F, R, 1>(g, i, j);
  for (int r = 0; j < g.cols && r < R; ++r) outer_rest<F>(g, i + r, j);
}

// outer_rows<F, count> for 1 <= count <= R.
template <LeafFormat F, int R>
inline void outer_rows_of(std::int64_t count, const OuterArgs& g, std::int64_t i) {
  if (count == R) return outer_rows<F, R>(g, i);
  if constexpr (R > 1) outer_rows_of<F, R - 1>(count, g, i);
}

template <LeafFormat F>
void outer_format(const OuterArgs& g) {
  std::int64_t i = 0;
  for (; i + kTileRows <= g.rows; i += kTileRows) outer_rows<F, kTileRows>(g, i);
  if (i < g.rows) outer_rows_of<F, kTileRows>(g.rows - i, g, i);
}

void outer(const OuterArgs& g) {
  if (g.b_format == LeafFormat::kBf16) return outer_format<LeafFormat::kBf16>(g);
  outer_format<LeafFormat::kF32>(g);
}

}  // namespace
}  // namespace baltoro::cpu
