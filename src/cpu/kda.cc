// The KDA mixer on the CPU: a task is a head of a sequence. Prompts walk their rows in time order, head
// by head; generated rows take a few heads at a time (kda_step.h).
#include "ops/kda.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "cpu/kda_chunk.h"
#include "cpu/kda_head.h"
#include "cpu/kda_step.h"

namespace baltoro::cpu {
namespace {

void copy(float* to, const float* from, std::int64_t count) {
  if (count > 0) std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
}

struct KdaPromptWork {
  KdaShape shape;
  KdaChunkWork chunk;
  KdaRows rows;
  float* out = nullptr;            // [block, Dv]
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

// A head of a prompt.
class KdaHead {
 public:
  KdaHead(const Context& context, const KdaMixArgs& args, const SequenceRows& sequence,
          std::int64_t head, const KdaPromptWork& work)
      : context_(context),
        leaf_(context.leaf),
        args_(args),
        shape_(args.shape),
        sequence_(sequence),
        head_(head),
        work_(work),
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
      if (end == last_boundary && sequence_.boundary_slot >= 0) {
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

  // L2 norm over the head, which this form rounds.
  void normalize(float* x) const {
    const std::int64_t dk = shape_.head_dim_k;
    leaf_.l2_normalize(x, dk, kL2NormEps, 1.0f);
    if (context_.round) leaf_.round_bf16(x, dk);
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
      kda_decays(context_, args_, sequence_.first_row + t, head_, rate_, rows.decay + i * dk);
      rows.beta[i] = args_.beta_logits.f32()[(sequence_.first_row + t) * shape_.num_heads + head_];
    }
    leaf_.sigmoid(rows.beta, count, rows.beta);
  }

  void mix_block(std::int64_t begin, std::int64_t count, float* live) const {
    prepare(begin, count);
    KdaRows rows = work_.rows;
    rows.count = count;
    kda_chunk(context_, rows, live, work_.out, work_.chunk);
    for (std::int64_t i = 0; i < count; ++i) {
      kda_finish(context_, args_, sequence_.first_row + begin + i, head_,
                 work_.out + i * shape_.head_dim_v);
    }
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
  const KdaPromptWork& work_;
  float rate_;
  ConvPart q_{}, k_{}, v_{};
};

}  // namespace

void kda_mix(Context& context, const KdaMixArgs& args) {
  if (args.pool.dtype != DType::kF32) {
    fail(ErrorCode::kUnsupported, "kda_mix: the CPU keeps KDA states in f32; use --kda-state f32");
  }
  KdaPromptWork prompt;
  prompt.shape = args.shape;
  const KdaStepWork steps(args.shape);
  context.scratch.reserve_workers(prompt);
  context.scratch.reserve_workers(steps);
  const std::int64_t heads = args.shape.num_heads;
  const auto sequences = static_cast<std::int64_t>(args.batch.sequences.size());
  const std::int64_t tasks = sequences * heads;
  const auto body = [&](std::int64_t begin, std::int64_t end, int worker) {
    for (std::int64_t task = begin; task < end;) {
      const SequenceRows& sequence = args.batch.sequences[static_cast<std::size_t>(task / heads)];
      const std::int64_t head = task % heads;
      if (sequence.origin == Origin::kPrompt) {
        KdaHead(context, args, sequence, head, context.scratch.worker(prompt, worker)).run();
        ++task;
      } else {
        const std::int64_t count = std::min({end - task, heads - head, kStepHeads});
        kda_steps(context, args, sequence, head, count, context.scratch.worker(steps, worker));
        task += count;
      }
    }
  };
  // Generated rows: half of a worker's heads at a time, so that the state of a head stays in the caches
  // of one core unless that core is far behind. Prompts differ in length and are taken head by head.
  const bool generated = args.batch.num_rows() == sequences;
  const std::int64_t halves = 2 * std::int64_t{context.pool.size()};
  context.pool.parallel_for(tasks, generated ? (tasks + halves - 1) / halves : 1, body);
}

}  // namespace baltoro::cpu
