// The KDA mixer on the CPU: one task a head of a sequence, which walks its rows in time order.
#include "ops/kda.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "cpu/kda_chunk.h"

namespace baltoro::cpu {
namespace {

void copy(float* to, const float* from, std::int64_t count) {
  if (count > 0) std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
}

struct KdaWork {
  KdaShape shape;
  KdaChunkWork chunk;
  KdaRows rows;
  float* out = nullptr;            // [block, Dv]
  float* step = nullptr;           // [2 Dk]
  float* q_taps = nullptr;         // [W, Dk], so that the conv runs along the channels
  float* k_taps = nullptr;         // [W, Dk]
  float* v_taps = nullptr;         // [W, Dv]
  const float** window = nullptr;  // [W]

  void carve(Carver& carver) {
    const std::int64_t dk = shape.head_dim_k, dv = shape.head_dim_v, width = shape.conv_width;
    chunk.dk = rows.dk = dk;
    chunk.dv = rows.dv = dv;
    chunk.carve(carver);
    rows.q = carver.floats(kBlockTokens * dk);
    rows.k = carver.floats(kBlockTokens * dk);
    rows.v = carver.floats(kBlockTokens * dv);
    rows.decay = carver.floats(kBlockTokens * dk);
    rows.beta = carver.floats(kBlockTokens);
    out = carver.floats(kBlockTokens * dv);
    step = carver.floats(2 * dk);
    q_taps = carver.floats(width * dk);
    k_taps = carver.floats(width * dk);
    v_taps = carver.floats(width * dv);
    window = carver.take<const float*>(width);
  }
};

// One of q, k, v for one head: `channels` columns from `offset` of the input rows, which stand from
// `history_offset` on in a history row.
struct ConvPart {
  const float* rows;  // the sequence's first row, at the head's first column
  std::int64_t stride;
  std::int64_t channels;
  std::int64_t history_offset;
  const float* taps;  // [W, channels]
};

class KdaHead {
 public:
  KdaHead(const Context& context, const KdaMixArgs& args, const SequenceRows& sequence,
          std::int64_t head, const float* state_ahead, const KdaWork& work)
      : context_(context),
        leaf_(context.leaf),
        args_(args),
        shape_(args.shape),
        sequence_(sequence),
        head_(head),
        state_ahead_(state_ahead),
        work_(work),
        prompt_(sequence.origin == Origin::kPrompt),
        rate_(std::exp(args.a_log[head])) {
    const std::int64_t dk = shape_.head_dim_k, dv = shape_.head_dim_v, width = shape_.conv_width;
    const std::int64_t keys = shape_.key_channels();
    leaf_.transpose_taps(args.q_conv + head * dk * width, dk, width, work.q_taps);
    leaf_.transpose_taps(args.k_conv + head * dk * width, dk, width, work.k_taps);
    leaf_.transpose_taps(args.v_conv + head * dv * width, dv, width, work.v_taps);
    q_ = part(args.q, dk, 0, work.q_taps);
    k_ = part(args.k, dk, keys, work.k_taps);
    v_ = part(args.v, dv, 2 * keys, work.v_taps);
  }

  void run() {
    float* live = state(sequence_.state_slot);
    const std::int64_t start = sequence_.start_pos;
    const std::int64_t last_boundary =
        (start + sequence_.num_rows) / kBlockTokens * kBlockTokens - start;
    for (std::int64_t begin = 0; begin < sequence_.num_rows;) {
      // Absolute blocks, so that a row meets the same block however the prompt was cut.
      const std::int64_t block_end = ((start + begin) / kBlockTokens + 1) * kBlockTokens - start;
      const std::int64_t end = std::min(sequence_.num_rows, block_end);
      mix_block(begin, end - begin, live);
      if (prompt_ && end == last_boundary && sequence_.boundary_slot >= 0) {
        copy(state(sequence_.boundary_slot), live, shape_.head_dim_k * shape_.head_dim_v);
        store_history(end, sequence_.boundary_slot);
      }
      begin = end;
    }
    store_history(sequence_.num_rows, sequence_.state_slot);
  }

 private:
  ConvPart part(const ConstTensorView& view, std::int64_t channels, std::int64_t offset,
                const float* taps) const {
    const std::int64_t first = head_ * channels;
    return {view.f32() + sequence_.first_row * view.cols() + first, view.cols(), channels,
            offset + first, taps};
  }
  float* state(std::int64_t slot) const {
    return args_.pool.f32() + slot * shape_.state_elements() +
           head_ * shape_.head_dim_k * shape_.head_dim_v;
  }
  float* history(std::int64_t slot, std::int64_t age_row, const ConvPart& p) const {
    return args_.pool.conv + slot * shape_.conv_elements() + age_row * shape_.conv_channels() +
           p.history_offset;
  }

  // The conv input of row t of the sequence; rows before it come from the slot's history.
  const float* input(const ConvPart& p, std::int64_t t) const {
    if (t >= 0) return p.rows + t * p.stride;
    return history(sequence_.state_slot, t + shape_.conv_width - 1, p);
  }

  void convolve(const ConvPart& p, std::int64_t t, float* out) const {
    for (std::int64_t j = 0; j < shape_.conv_width; ++j) {
      work_.window[j] = input(p, t - (shape_.conv_width - 1) + j);
    }
    leaf_.conv_silu(work_.window, p.taps, shape_.conv_width, p.channels, out, context_.round);
  }

  // L2 norm over the head; the prompt form rounds it.
  void normalize(float* x) const {
    const std::int64_t dk = shape_.head_dim_k;
    leaf_.scale(x, 1.0f / std::sqrt(leaf_.sum_squares(x, dk) + kL2NormEps), dk);
    if (prompt_ && context_.round) leaf_.round_bf16(x, dk);
  }

  void decays(std::int64_t t, float* out) const {
    const std::int64_t dk = shape_.head_dim_k;
    const std::int64_t count = shape_.decay_per_head ? 1 : dk;
    const float* logits = args_.decay_logits.f32() +
                          (sequence_.first_row + t) * shape_.decay_channels() + head_ * count;
    const float* bias = args_.dt_bias + head_ * count;
    if (args_.gate_lower_bound) {
      leaf_.decay_bounded(logits, bias, count, rate_, *args_.gate_lower_bound, out);
    } else {
      leaf_.decay_softplus(logits, bias, count, rate_, out);
    }
    if (shape_.decay_per_head) std::fill_n(out, dk, out[0]);
  }

  void prepare(std::int64_t begin, std::int64_t count) const {
    const std::int64_t dk = shape_.head_dim_k, dv = shape_.head_dim_v;
    const KdaRows& rows = work_.rows;
    const float q_scale = 1.0f / std::sqrt(static_cast<float>(dk));
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t t = begin + i;
      convolve(q_, t, rows.q + i * dk);
      convolve(k_, t, rows.k + i * dk);
      convolve(v_, t, rows.v + i * dv);
      normalize(rows.q + i * dk);
      normalize(rows.k + i * dk);
      leaf_.scale(rows.q + i * dk, q_scale, dk);
      decays(t, rows.decay + i * dk);
      rows.beta[i] = args_.beta_logits.f32()[(sequence_.first_row + t) * shape_.num_heads + head_];
    }
    leaf_.sigmoid(rows.beta, count, rows.beta);
  }

  void step(std::int64_t i, float* live) const {
    const std::int64_t dk = shape_.head_dim_k, dv = shape_.head_dim_v;
    KdaStepArgs args;
    args.state = live;
    args.dk = dk;
    args.dv = dv;
    args.decay = work_.rows.decay + i * dk;
    args.q = work_.rows.q + i * dk;
    args.k = work_.rows.k + i * dk;
    args.v = work_.rows.v + i * dv;
    args.beta = work_.rows.beta[i];
    args.out = work_.out + i * dv;
    args.scratch = work_.step;
    args.ahead = state_ahead_;
    leaf_.kda_step(args);
  }

  // round(o), output norm and gate.
  void finish(std::int64_t t, float* o) const {
    const std::int64_t dv = shape_.head_dim_v;
    const std::int64_t at = (sequence_.first_row + t) * shape_.value_channels() + head_ * dv;
    if (context_.round) leaf_.round_bf16(o, dv);
    const float mean = leaf_.sum_squares(o, dv) / static_cast<float>(dv);
    const float* gate = args_.gate ? args_.gate.f32() + at : nullptr;
    leaf_.norm_gate(o, 1.0f / std::sqrt(mean + args_.norm_eps), args_.o_norm, gate, dv,
                    args_.out.f32() + at, context_.round);
  }

  void mix_block(std::int64_t begin, std::int64_t count, float* live) const {
    prepare(begin, count);
    if (prompt_) {
      KdaRows rows = work_.rows;
      rows.count = count;
      kda_chunk(context_, rows, live, work_.out, work_.chunk);
    } else {
      for (std::int64_t i = 0; i < count; ++i) step(i, live);
    }
    for (std::int64_t i = 0; i < count; ++i) finish(begin + i, work_.out + i * shape_.head_dim_v);
  }

  // The conv inputs of the W - 1 rows before row `end`, oldest first. In place, a source is never
  // older than its destination, so ascending order is safe.
  void store_history(std::int64_t end, std::int64_t slot) const {
    for (const ConvPart* p : {&q_, &k_, &v_}) {
      for (std::int64_t j = 0; j < shape_.conv_width - 1; ++j) {
        const float* from = input(*p, end - (shape_.conv_width - 1) + j);
        float* to = history(slot, j, *p);
        if (to != from) copy(to, from, p->channels);
      }
    }
  }

  const Context& context_;
  const LeafTable& leaf_;
  const KdaMixArgs& args_;
  const KdaShape& shape_;
  const SequenceRows& sequence_;
  std::int64_t head_;
  const float* state_ahead_;  // that the next task will need
  const KdaWork& work_;
  bool prompt_;
  float rate_;
  ConvPart q_{}, k_{}, v_{};
};

// The state of a task: of a head of a sequence.
const float* task_state(const KdaMixArgs& args, std::int64_t task) {
  const KdaShape& shape = args.shape;
  const auto sequence = static_cast<std::size_t>(task / shape.num_heads);
  return args.pool.f32() + args.batch.sequences[sequence].state_slot * shape.state_elements() +
         task % shape.num_heads * shape.head_dim_k * shape.head_dim_v;
}

}  // namespace

void kda_mix(Context& context, const KdaMixArgs& args) {
  if (args.pool.dtype != DType::kF32) {
    fail(ErrorCode::kUnsupported, "kda_mix: the CPU keeps KDA states in f32; use --kda-state f32");
  }
  KdaWork shape;
  shape.shape = args.shape;
  context.scratch.reserve_workers(shape);
  const std::int64_t heads = args.shape.num_heads;
  const auto sequences = static_cast<std::int64_t>(args.batch.sequences.size());
  const std::int64_t tasks = sequences * heads;
  const auto body = [&](std::int64_t begin, std::int64_t end, int worker) {
    const KdaWork work = context.scratch.worker(shape, worker);
    for (std::int64_t task = begin; task < end; ++task) {
      const auto sequence = static_cast<std::size_t>(task / heads);
      const float* ahead = task + 1 < end ? task_state(args, task + 1) : nullptr;
      KdaHead(context, args, args.batch.sequences[sequence], task % heads, ahead, work).run();
    }
  };
  // Generated rows: half of a worker's heads at a time, so that the state of a head stays in the caches
  // of one core unless that core is far behind, and nobody asks for a state that another is updating.
  // Prompts differ in length and are taken head by head.
  const bool steps = args.batch.num_rows() == sequences;
  const std::int64_t halves = 2 * std::int64_t{context.pool.size()};
  context.pool.parallel_for(tasks, steps ? (tasks + halves - 1) / halves : 1, body);
}

}  // namespace baltoro::cpu
