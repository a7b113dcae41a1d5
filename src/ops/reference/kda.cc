#include "ops/reference/kda.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/dtype.h"
#include "ops/reference/kda_rule.h"
#include "ops/reference/mix_norm.h"

namespace baltoro::reference {
namespace {

// One of q, k, v as its conv sees it: the rows of a sequence, and before them the history of its
// slot.
struct ConvStream {
  const float* rows;      // first row of the sequence
  const float* taps;      // [channels, width]
  std::int64_t channels;  // columns of `rows`
  const float* history;   // [width - 1, history_stride], oldest first
  std::int64_t history_stride;
  std::int64_t width;

  double input(std::int64_t t, std::int64_t c) const {
    return t >= 0 ? rows[t * channels + c] : history[(t + width - 1) * history_stride + c];
  }
  // round(silu(conv)) of token t, channels [begin, begin + count).
  std::vector<double> activated(std::int64_t t, std::int64_t begin, std::int64_t count,
                                Rounding round) const {
    std::vector<double> out;
    std::vector<double> window(static_cast<std::size_t>(width));
    for (std::int64_t c = begin; c < begin + count; ++c) {
      for (std::int64_t j = 0; j < width; ++j) {
        window[static_cast<std::size_t>(j)] = input(t - (width - 1) + j, c);
      }
      out.push_back(round(silu(short_conv(taps + c * width, window))));
    }
    return out;
  }
};

class SequenceMixer {
 public:
  SequenceMixer(const KdaMixArgs& args, const SequenceRows& sequence, Rounding round)
      : args_(args), shape_(args.shape), sequence_(sequence), round_(round) {
    const float* conv = conv_slot(sequence.state_slot);
    history_.assign(conv, conv + shape_.conv_elements());
    const std::int64_t keys = shape_.key_channels();
    q_ = stream(args.q, args.q_conv, 0);
    k_ = stream(args.k, args.k_conv, keys);
    v_ = stream(args.v, args.v_conv, 2 * keys);
  }

  void run() {
    const std::int64_t rows = sequence_.num_rows;
    const std::int64_t last_boundary =
        (sequence_.start_pos + rows) / kBlockTokens * kBlockTokens - sequence_.start_pos;
    for (std::int64_t begin = 0; begin < rows;) {
      const std::int64_t end = segment_end(begin);
      for (std::int64_t head = 0; head < shape_.num_heads; ++head) mix_head(head, begin, end);
      if (end == last_boundary && sequence_.boundary_slot >= 0) take_snapshot(end);
      begin = end;
    }
    store_history(rows, sequence_.state_slot);
  }

 private:
  float* conv_slot(std::int64_t slot) const {
    return args_.pool.conv + slot * shape_.conv_elements();
  }
  std::byte* state_slot(std::int64_t slot) const {
    return static_cast<std::byte*>(args_.pool.state) +
           static_cast<std::size_t>(slot * shape_.state_elements()) * dtype_bytes(args_.pool.dtype);
  }
  // Of one head of the live slot.
  std::vector<double> load_state(std::int64_t head) const {
    const std::int64_t size = shape_.head_dim_k * shape_.head_dim_v;
    const std::byte* slot = state_slot(sequence_.state_slot);
    std::vector<double> state;
    for (std::int64_t i = head * size; i < (head + 1) * size; ++i) {
      state.push_back(args_.pool.dtype == DType::kF32
                          ? reinterpret_cast<const float*>(slot)[i]
                          : bf16_to_f32(reinterpret_cast<const std::uint16_t*>(slot)[i]));
    }
    return state;
  }
  void store_state(std::int64_t head, const std::vector<double>& state) const {
    std::byte* slot = state_slot(sequence_.state_slot);
    auto at = static_cast<std::size_t>(head) * state.size();
    for (const double value : state) {
      const auto rounded = static_cast<float>(value);
      if (args_.pool.dtype == DType::kF32) {
        reinterpret_cast<float*>(slot)[at++] = rounded;
      } else {
        reinterpret_cast<std::uint16_t*>(slot)[at++] = f32_to_bf16(rounded);
      }
    }
  }
  ConvStream stream(const ConstTensorView& view, const float* taps, std::int64_t offset) const {
    return {view.f32() + sequence_.first_row * view.cols(),
            taps,
            view.cols(),
            history_.empty() ? nullptr : history_.data() + offset,  // empty: a width of 1
            shape_.conv_channels(),
            shape_.conv_width};
  }

  // A prompt advances by absolute blocks, generated tokens one by one.
  std::int64_t segment_end(std::int64_t begin) const {
    if (sequence_.origin == Origin::kGenerated) return begin + 1;
    const std::int64_t pos = sequence_.start_pos + begin;
    const std::int64_t next_block = (pos / kBlockTokens + 1) * kBlockTokens;
    return std::min(sequence_.num_rows, next_block - sequence_.start_pos);
  }

  void append_decay(std::int64_t head, std::int64_t t, std::vector<double>& g) const {
    const std::int64_t per_head = shape_.decay_channels() / shape_.num_heads;
    const float* logits =
        args_.decay_logits.f32() + (sequence_.first_row + t) * shape_.decay_channels();
    for (std::int64_t d = 0; d < shape_.head_dim_k; ++d) {
      const std::int64_t c = head * per_head + (shape_.decay_per_head ? 0 : d);
      const double z = static_cast<double>(logits[c]) + static_cast<double>(args_.dt_bias[c]);
      g.push_back(log_decay(z, args_.a_log[head], args_.gate_lower_bound));
    }
  }

  RuleInputs inputs_of(std::int64_t head, std::int64_t begin, std::int64_t end) const {
    const std::int64_t dk = shape_.head_dim_k;
    const std::int64_t dv = shape_.head_dim_v;
    const bool prompt = sequence_.origin == Origin::kPrompt;
    RuleInputs in{end - begin, dk, dv, {}, {}, {}, {}, {}};
    for (std::int64_t t = begin; t < end; ++t) {
      std::vector<double> q = q_.activated(t, head * dk, dk, round_);
      std::vector<double> k = k_.activated(t, head * dk, dk, round_);
      const std::vector<double> v = v_.activated(t, head * dv, dv, round_);
      l2_norm(q);
      l2_norm(k);
      const double scale = 1.0 / std::sqrt(static_cast<double>(dk));
      for (double& value : q) value = (prompt ? round_(value) : value) * scale;
      for (double& value : k) value = prompt ? round_(value) : value;
      in.q.insert(in.q.end(), q.begin(), q.end());
      in.k.insert(in.k.end(), k.begin(), k.end());
      in.v.insert(in.v.end(), v.begin(), v.end());
      append_decay(head, t, in.g);
      in.beta.push_back(
          sigmoid(args_.beta_logits.f32()[(sequence_.first_row + t) * shape_.num_heads + head]));
    }
    return in;
  }

  void mix_head(std::int64_t head, std::int64_t begin, std::int64_t end) const {
    const RuleInputs in = inputs_of(head, begin, end);
    std::vector<double> state = load_state(head);
    std::vector<double> o(static_cast<std::size_t>(in.n * in.dv));
    if (sequence_.origin == Origin::kPrompt) {
      kda_chunk(in, state.data(), o.data());
    } else {
      kda_recurrent_step(in, 0, state.data(), o.data());
    }
    store_state(head, state);
    for (double& value : o) value = round_(value);
    for (std::int64_t i = 0; i < in.n; ++i) {
      const std::int64_t at =
          (sequence_.first_row + begin + i) * shape_.value_channels() + head * in.dv;
      const OutputNorm norm{args_.o_norm, args_.gate ? args_.gate.f32() + at : nullptr,
                            args_.norm_eps};
      gated_rms_norm({o.data() + i * in.dv, static_cast<std::size_t>(in.dv)}, norm, round_,
                     args_.out.f32() + at);
    }
  }

  // The conv inputs of the width - 1 tokens before row `end`.
  void store_history(std::int64_t end, std::int64_t slot) const {
    float* out = conv_slot(slot);
    for (std::int64_t t = end - (shape_.conv_width - 1); t < end; ++t) {
      for (const ConvStream* s : {&q_, &k_, &v_}) {
        for (std::int64_t c = 0; c < s->channels; ++c) *out++ = static_cast<float>(s->input(t, c));
      }
    }
  }

  void take_snapshot(std::int64_t end) const {
    std::copy(state_slot(sequence_.state_slot), state_slot(sequence_.state_slot + 1),
              state_slot(sequence_.boundary_slot));
    store_history(end, sequence_.boundary_slot);
  }

  const KdaMixArgs& args_;
  const KdaShape& shape_;
  const SequenceRows& sequence_;
  Rounding round_;
  std::vector<float> history_;  // the slot's, as it was before this call
  ConvStream q_{}, k_{}, v_{};
};

}  // namespace

double short_conv(const float* taps, std::span<const double> window) {
  double sum = 0;
  for (std::size_t j = 0; j < window.size(); ++j) sum += static_cast<double>(taps[j]) * window[j];
  return sum;
}

void l2_norm(std::span<double> x) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  const double scale = 1.0 / std::sqrt(sum + static_cast<double>(kL2NormEps));
  for (double& value : x) value *= scale;
}

double log_decay(double z, double a_log, std::optional<float> lower_bound) {
  const double rate = std::exp(a_log);
  return lower_bound ? static_cast<double>(*lower_bound) * sigmoid(rate * z) : -rate * softplus(z);
}

void gated_rms_norm(std::span<const double> o, const OutputNorm& norm, Rounding round, float* out) {
  const double scale = inverse_rms(o, norm.eps);
  for (std::size_t d = 0; d < o.size(); ++d) {
    const double gate = norm.gate == nullptr ? 1.0 : sigmoid(norm.gate[d]);
    out[d] = static_cast<float>(round(o[d] * scale * static_cast<double>(norm.weight[d]) * gate));
  }
}

void kda_mix(const KdaMixArgs& args, Rounding round) {
  for (const SequenceRows& sequence : args.batch.sequences) {
    SequenceMixer(args, sequence, round).run();
  }
}

}  // namespace baltoro::reference
