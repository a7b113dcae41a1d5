// The functions of this translation unit as a table; the unit chooses those for rows of bf16 values.

namespace baltoro::cpu {
namespace {

constexpr LeafTable make_table(const char* name, void (*bf16_rows)(const MatmulArgs&),
                               void (*pack)(const PackArgs&) = nullptr,
                               std::int64_t (*bf16_peak)(std::int64_t, float*) = peak_f32) {
  return LeafTable{
      .name = name,
      .matmul = matmul,
      .matmul_bf16 = bf16_rows,
      .pack_rows = pack,
      .outer = outer,
      .axpy_rows = axpy_rows,
      .decode_row = decode_row,
      .encode_bf16 = encode_bf16,
      .round_bf16 = round_bf16_row,
      .add = add,
      .scale = scale,
      .multiply = multiply,
      .transpose = transpose,
      .sum_squares = sum_squares,
      .squares_and_dot = squares_and_dot,
      .weighted_sum = weighted_sum,
      .norm_apply = norm_apply,
      .norm_gate = norm_gate,
      .gate_apply = gate_apply,
      .all_finite = all_finite_row,
      .sigmoid = sigmoid_row,
      .situ = situ,
      .swiglu = swiglu,
      .max = max_row,
      .exp_sum = exp_sum,
      .transpose_taps = transpose_taps,
      .conv_silu = conv_silu,
      .conv_step = conv_step,
      .l2_normalize = l2_normalize,
      .decay_bounded = decay_bounded,
      .decay_softplus = decay_softplus,
      .decay_row = decay_row,
      .kda_decay = kda_decay,
      .kda_step = kda_step,
      .kda_pairs = kda_pairs,
      .peak_f32 = peak_f32,
      .peak_bf16 = bf16_peak,
      .sum = sum_all,
  };
}

}  // namespace
}  // namespace baltoro::cpu
