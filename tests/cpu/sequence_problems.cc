#include "cpu/sequence_problems.h"

#include <algorithm>
#include <cmath>

#include "core/dtype.h"

namespace baltoro::testing_cpu {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// The batch's rows of a [tokens, cols] array.
std::vector<float> gather(const std::vector<float>& all, std::int64_t cols,
                          const std::vector<Piece>& pieces) {
  std::vector<float> rows;
  for (const Piece& p : pieces) {
    const auto begin = all.begin() + p.token * cols;
    rows.insert(rows.end(), begin, begin + p.rows * cols);
  }
  return rows;
}

ConstTensorView view(const std::vector<float>& rows, std::int64_t cols) {
  if (cols == 0 || rows.empty()) return {};
  return {rows.data(), DType::kF32, {static_cast<std::int64_t>(rows.size()) / cols, cols}};
}

struct Batch {
  explicit Batch(const std::vector<Piece>& pieces) {
    std::int64_t row = 0;
    for (const Piece& p : pieces) {
      SequenceRows s;
      s.first_row = row;
      s.num_rows = p.rows;
      s.start_pos = p.start_pos;
      s.state_slot = p.slot;
      s.boundary_slot = p.boundary_slot;
      s.origin = p.origin;
      s.pages = p.pages;
      sequences.push_back(s);
      row += p.rows;
    }
    ids.assign(static_cast<std::size_t>(row), 0);
  }
  BatchView view() const { return {ids, sequences}; }
  std::int64_t rows() const { return static_cast<std::int64_t>(ids.size()); }

  std::vector<std::int32_t> ids;
  std::vector<SequenceRows> sequences;
};

std::vector<float> output_rows(const Batch& batch, std::int64_t cols) {
  return std::vector<float>(static_cast<std::size_t>(batch.rows() * cols), kNan);
}

}  // namespace

double relative_error(const std::vector<float>& expected, const std::vector<float>& actual) {
  if (expected.size() != actual.size()) return std::numeric_limits<double>::infinity();
  double largest = 1e-30, error = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!std::isfinite(actual[i])) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, std::fabs(static_cast<double>(expected[i])));
    error = std::max(error, std::fabs(static_cast<double>(expected[i]) - actual[i]));
  }
  return error / largest;
}

void round_values(std::vector<float>& values, Activations activations) {
  if (activations == Activations::kF32) return;
  for (float& value : values) value = round_bf16(value);
}

KdaPool::KdaPool(const KdaShape& shape, std::int64_t slots, float fill)
    : state(static_cast<std::size_t>(slots * shape.state_elements()), fill),
      conv(static_cast<std::size_t>(slots * shape.conv_elements()), fill),
      num_slots(slots) {}

std::vector<float> KdaPool::slot_state(const KdaShape& shape, std::int64_t slot) const {
  return slice(state, slot * shape.state_elements(), shape.state_elements());
}
std::vector<float> KdaPool::slot_conv(const KdaShape& shape, std::int64_t slot) const {
  return slice(conv, slot * shape.conv_elements(), shape.conv_elements());
}
void KdaPool::clear(const KdaShape& shape, std::int64_t slot) {
  std::fill_n(state.begin() + slot * shape.state_elements(), shape.state_elements(), 0.0f);
  std::fill_n(conv.begin() + slot * shape.conv_elements(), shape.conv_elements(), 0.0f);
}
void KdaPool::copy_slot(const KdaShape& shape, std::int64_t from, std::int64_t to) {
  std::copy_n(state.begin() + from * shape.state_elements(), shape.state_elements(),
              state.begin() + to * shape.state_elements());
  std::copy_n(conv.begin() + from * shape.conv_elements(), shape.conv_elements(),
              conv.begin() + to * shape.conv_elements());
}

KdaProblem::KdaProblem(const KdaShape& s, std::optional<float> bound, std::int64_t count,
                       Activations activations)
    : shape(s), lower_bound(bound), tokens(count) {
  const std::int64_t keys = s.key_channels(), values = s.value_channels();
  const auto activation = [&](const char* name, std::int64_t cols, float scale) {
    std::vector<float> x = random_values(7, name, count * cols, scale);
    round_values(x, activations);
    return x;
  };
  q = activation("q", keys, 1);
  k = activation("k", keys, 1);
  v = activation("v", values, 1);
  decay = activation("decay", s.decay_channels(), 3);
  beta = activation("beta", s.num_heads, 2);
  gate = activation("gate", values, 2);
  q_conv = random_values(7, "q_conv", keys * s.conv_width, 1);
  k_conv = random_values(7, "k_conv", keys * s.conv_width, 1);
  v_conv = random_values(7, "v_conv", values * s.conv_width, 1);
  a_log = random_values(7, "a_log", s.num_heads, 0.7f);
  dt_bias = random_values(7, "dt_bias", s.decay_channels(), 1);
  o_norm = random_values(7, "o_norm", s.head_dim_v, 1);
}

std::vector<float> KdaProblem::run(Backend& backend, const std::vector<Piece>& pieces,
                                   KdaPool& pool) const {
  const Batch batch(pieces);
  const std::int64_t keys = shape.key_channels(), values = shape.value_channels();
  const std::vector<float> bq = gather(q, keys, pieces), bk = gather(k, keys, pieces),
                           bv = gather(v, values, pieces),
                           bd = gather(decay, shape.decay_channels(), pieces),
                           bb = gather(beta, shape.num_heads, pieces),
                           bg = gather(gate, values, pieces);
  std::vector<float> out = output_rows(batch, values);
  KdaMixArgs args;
  args.shape = shape;
  args.batch = batch.view();
  args.q = view(bq, keys);
  args.k = view(bk, keys);
  args.v = view(bv, values);
  args.decay_logits = view(bd, shape.decay_channels());
  args.beta_logits = view(bb, shape.num_heads);
  args.gate = view(bg, values);
  args.q_conv = q_conv.data();
  args.k_conv = k_conv.data();
  args.v_conv = v_conv.data();
  args.a_log = a_log.data();
  args.dt_bias = dt_bias.data();
  args.o_norm = o_norm.data();
  args.gate_lower_bound = lower_bound;
  args.norm_eps = 1e-5f;
  args.pool = {pool.state.data(), pool.conv.data(), pool.num_slots};
  args.out = {out.data(), DType::kF32, {batch.rows(), values}};
  kda_mix(backend, args);
  return out;
}

MlaProblem::MlaProblem(const MlaShape& s, std::int64_t count, Activations activations)
    : shape(s), tokens(count) {
  const bool grouped = s.kind == MlaKind::kGqa;
  const auto activation = [&](const char* name, std::int64_t cols) {
    std::vector<float> x = random_values(9, name, count * cols, 1);
    round_values(x, activations);
    return x;
  };
  q = activation("q", s.num_heads * s.qk_dim());
  kv = activation("kv", grouped ? s.num_kv_heads * s.nope_dim : s.cache_width());
  if (grouped) v = activation("v", s.num_kv_heads * s.v_head_dim);
  gate = activation("gate", s.num_heads * s.v_head_dim);
  if (grouped) return;
  kv_norm = random_values(9, "kv_norm", s.kv_rank, 1);
  for (float w : random_values(9, "kv_b", s.kv_b_rows() * s.kv_rank, 0.3f)) {
    kv_b.push_back(f32_to_bf16(w));
  }
}

std::vector<std::byte> MlaProblem::empty_cache(const Backend& backend,
                                               std::int64_t num_pages) const {
  const std::size_t bytes = static_cast<std::size_t>(num_pages * kBlockTokens) *
                            static_cast<std::size_t>(shape.cache_width()) *
                            dtype_bytes(backend.cache_dtype());
  return std::vector<std::byte>(bytes, std::byte{0xff});
}

std::vector<float> MlaProblem::run(Backend& backend, const std::vector<Piece>& pieces,
                                   std::vector<std::byte>& cache) const {
  const Batch batch(pieces);
  const std::int64_t q_cols = shape.num_heads * shape.qk_dim();
  const std::int64_t out_cols = shape.num_heads * shape.v_head_dim;
  const std::int64_t kv_cols = static_cast<std::int64_t>(kv.size()) / tokens;
  const std::int64_t v_cols = static_cast<std::int64_t>(v.size()) / tokens;
  const std::vector<float> bq = gather(q, q_cols, pieces), bkv = gather(kv, kv_cols, pieces),
                           bv = gather(v, v_cols, pieces), bg = gather(gate, out_cols, pieces);
  std::vector<float> out = output_rows(batch, out_cols);
  const std::size_t page_bytes = static_cast<std::size_t>(kBlockTokens * shape.cache_width()) *
                                 dtype_bytes(backend.cache_dtype());
  MlaArgs args;
  args.shape = shape;
  args.batch = batch.view();
  args.q = view(bq, q_cols);
  args.kv = view(bkv, kv_cols);
  args.v = view(bv, v_cols);
  args.kv_norm = kv_norm.empty() ? nullptr : kv_norm.data();
  args.kv_norm_eps = 1e-6f;
  if (!kv_b.empty()) {
    args.kv_b = {kv_b.data(), nullptr, WeightFormat::kBf16, shape.kv_b_rows(), shape.kv_rank};
  }
  args.rope_theta = rope_theta;
  args.gate = view(bg, out_cols);
  args.cache = {cache.data(), backend.cache_dtype(),
                static_cast<std::int64_t>(cache.size() / page_bytes)};
  args.out = {out.data(), DType::kF32, {batch.rows(), out_cols}};
  mla_prefill(backend, args);
  mla_decode(backend, args);
  return out;
}

}  // namespace baltoro::testing_cpu
