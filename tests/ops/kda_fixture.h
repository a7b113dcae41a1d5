// One KDA layer's weights and a token stream, to be fed to kda_mix in any slices.
#pragma once

#include <optional>
#include <vector>

#include "op_test_util.h"
#include "ops/kda.h"

namespace baltoro::test {

struct KdaPool {
  KdaPool(const KdaShape& shape, std::int64_t slots, float fill)
      : state(static_cast<std::size_t>(slots * shape.state_elements()), fill),
        conv(static_cast<std::size_t>(slots * shape.conv_elements()), fill),
        num_slots(slots),
        state_size(shape.state_elements()),
        conv_size(shape.conv_elements()) {}

  void clear(std::int64_t slot) {
    std::fill_n(state.begin() + slot * state_size, state_size, 0.0f);
    std::fill_n(conv.begin() + slot * conv_size, conv_size, 0.0f);
  }
  Floats state_of(std::int64_t slot) const { return rows_of(state, state_size, slot, slot + 1); }
  Floats conv_of(std::int64_t slot) const { return rows_of(conv, conv_size, slot, slot + 1); }

  Floats state, conv;
  std::int64_t num_slots, state_size, conv_size;
};

// Tokens [begin, end) of the stream as one sequence of a batch.
struct KdaSlice {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  Origin origin = Origin::kPrompt;
  std::int32_t slot = 0;
  std::int32_t boundary_slot = -1;
};

struct KdaStream {
  KdaShape shape;
  std::int64_t tokens = 0;
  std::optional<float> bound = -5.0f;
  float norm_eps = 1e-5f;
  Floats q, k, v, decay, beta, gate;
  Floats q_conv, k_conv, v_conv, a_log, dt_bias, o_norm;

  KdaStream(const KdaShape& s, std::int64_t n) : shape(s), tokens(n) {
    const std::int64_t keys = s.key_channels(), values = s.value_channels();
    q = random_floats("q", n * keys, 2);
    k = random_floats("k", n * keys, 2);
    v = random_floats("v", n * values, 2);
    decay = random_floats("decay", n * s.decay_channels(), 3);
    beta = random_floats("beta", n * s.num_heads, 2);
    gate = random_floats("gate", n * values, 2);
    q_conv = random_floats("q_conv", keys * s.conv_width);
    k_conv = random_floats("k_conv", keys * s.conv_width);
    v_conv = random_floats("v_conv", values * s.conv_width);
    a_log = random_floats("a_log", s.num_heads);
    dt_bias = random_floats("dt_bias", s.decay_channels());
    o_norm = random_floats("o_norm", s.head_dim_v);
  }

  // One call; returns the rows of all slices one after the other.
  Floats run(Backend& backend, KdaPool& pool, const std::vector<KdaSlice>& slices) const {
    const auto pick = [&](const Floats& from, std::int64_t cols) {
      Floats rows;
      for (const KdaSlice& s : slices) {
        const Floats part = rows_of(from, cols, s.begin, s.end);
        rows.insert(rows.end(), part.begin(), part.end());
      }
      return rows;
    };
    const std::int64_t keys = shape.key_channels(), values = shape.value_channels();
    const Floats rq = pick(q, keys), rk = pick(k, keys), rv = pick(v, values);
    const Floats rd = pick(decay, shape.decay_channels()), rb = pick(beta, shape.num_heads);
    const Floats rg = pick(gate, values);
    std::vector<SequenceRows> sequences;
    std::int64_t row = 0;
    for (const KdaSlice& s : slices) {
      sequences.push_back({row, s.end - s.begin, s.begin, s.slot, s.boundary_slot, s.origin, {}});
      row += s.end - s.begin;
    }
    const std::vector<std::int32_t> ids(static_cast<std::size_t>(row), 0);
    Floats out(static_cast<std::size_t>(row * values), kNan);
    KdaMixArgs args;
    args.shape = shape;
    args.batch = {ids, sequences};
    args.q = view(rq, keys);
    args.k = view(rk, keys);
    args.v = view(rv, values);
    args.decay_logits = view(rd, shape.decay_channels());
    args.beta_logits = view(rb, shape.num_heads);
    if (!gate.empty()) args.gate = view(rg, values);
    args.q_conv = q_conv.data();
    args.k_conv = k_conv.data();
    args.v_conv = v_conv.data();
    args.a_log = a_log.data();
    args.dt_bias = dt_bias.data();
    args.o_norm = o_norm.data();
    args.gate_lower_bound = bound;
    args.norm_eps = norm_eps;
    args.pool = {pool.state.data(), pool.conv.data(), pool.num_slots};
    args.out = mutable_view(out, values);
    kda_mix(backend, args);
    return out;
  }

  // A fresh sequence in slot 0, slice by slice.
  Floats run_alone(Backend& backend, KdaPool& pool, const std::vector<KdaSlice>& slices) const {
    Floats all;
    for (const KdaSlice& slice : slices) {
      const Floats part = run(backend, pool, {slice});
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }
};

}  // namespace baltoro::test
