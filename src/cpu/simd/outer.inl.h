// c += a b with lanes along the columns: each element is one chain over the depth, whatever tile it
// falls into.

namespace baltoro::cpu {
namespace {

// R rows by C Vecs of columns.
template <int R, int C>
inline void outer_tile(const OuterArgs& g, std::int64_t i, std::int64_t j) {
  Vec acc[R][C];
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) acc[r][c] = load(g.c + (i + r) * g.c_stride + j + c * kLanes);
  }
  for (std::int64_t k = 0; k < g.depth; ++k) {
    Vec a[R];
    for (int r = 0; r < R; ++r) a[r] = broadcast(g.a[(i + r) * g.a_row + k * g.a_depth]);
    for (int c = 0; c < C; ++c) {
      const Vec b = load(g.b + k * g.b_stride + j + c * kLanes);
      for (int r = 0; r < R; ++r) acc[r][c] = fma(a[r], b, acc[r][c]);
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) store(g.c + (i + r) * g.c_stride + j + c * kLanes, acc[r][c]);
  }
}

inline void outer_rest(const OuterArgs& g, std::int64_t i, std::int64_t j) {
  const int n = static_cast<int>(g.cols - j);
  float* c = g.c + i * g.c_stride + j;
  Vec acc = load_partial(c, n);
  for (std::int64_t k = 0; k < g.depth; ++k) {
    const Vec a = broadcast(g.a[i * g.a_row + k * g.a_depth]);
    acc = fma(a, load_partial(g.b + k * g.b_stride + j, n), acc);
  }
  store_partial(c, acc, n);
}

template <int R>
inline void outer_rows(const OuterArgs& g, std::int64_t i) {
  std::int64_t j = 0;
  for (; j + 4 * kLanes <= g.cols; j += 4 * kLanes) outer_tile<R, 4>(g, i, j);
  for (; j + kLanes <= g.cols; j += kLanes) outer_tile<R, 1>(g, i, j);
  for (int r = 0; j < g.cols && r < R; ++r) outer_rest(g, i + r, j);
}

// outer_rows<count> for 1 <= count <= R.
template <int R>
inline void outer_rows_of(std::int64_t count, const OuterArgs& g, std::int64_t i) {
  if (count == R) return outer_rows<R>(g, i);
  if constexpr (R > 1) outer_rows_of<R - 1>(count, g, i);
}

void outer(const OuterArgs& g) {
  std::int64_t i = 0;
  for (; i + kTileRows <= g.rows; i += kTileRows) outer_rows<kTileRows>(g, i);
  if (i < g.rows) outer_rows_of<kTileRows>(g.rows - i, g, i);
}

}  // namespace
}  // namespace baltoro::cpu
