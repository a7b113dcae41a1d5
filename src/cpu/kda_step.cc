#include "cpu/kda_step.h"

#include <cmath>

#include "cpu/kda_head.h"

namespace baltoro::cpu {
namespace {

class KdaSteps {
 public:
  KdaSteps(const Context& context, const KdaMixArgs& args, const SequenceRows& sequence,
           std::int64_t head, std::int64_t count, const KdaStepWork& work)
      : context_(context),
        leaf_(context.leaf),
        args_(args),
        shape_(args.shape),
        slot_(sequence.state_slot),
        head_(head),
        count_(count),
        work_(work) {}

  void run(std::int64_t row) const {
    convolve(row);
    normalize();
    for (std::int64_t i = 0; i < count_; ++i) {
      const float rate = std::exp(args_.a_log[head_ + i]);
      kda_decays(context_, args_, row, head_ + i, rate, work_.decay + i * work_.dk);
    }
    leaf_.sigmoid(args_.beta_logits.f32() + row * shape_.num_heads + head_, count_, work_.beta);
    for (std::int64_t i = 0; i < count_; ++i) step(i);
    for (std::int64_t i = 0; i < count_; ++i) {
      kda_finish(context_, args_, row, head_ + i, work_.out + i * work_.dv);
    }
  }

 private:
  // `channels` a head of one of q, k, v, which begin at `offset` in a history row.
  void convolve(std::int64_t row, const ConstTensorView& rows, const float* taps,
                std::int64_t channels, std::int64_t offset, float* out) const {
    const std::int64_t first = head_ * channels;
    ConvStepArgs conv;
    conv.x = rows.f32() + row * rows.cols() + first;
    if (shape_.conv_width > 1) {
      conv.history = args_.pool.conv + slot_ * shape_.conv_elements() + offset + first;
    }
    conv.history_stride = shape_.conv_channels();
    conv.taps = taps + first * shape_.conv_width;
    conv.width = shape_.conv_width;
    conv.n = count_ * channels;
    conv.out = out;
    conv.round = context_.round;
    leaf_.conv_step(conv);
  }
  void convolve(std::int64_t row) const {
    const std::int64_t keys = shape_.key_channels();
    convolve(row, args_.q, args_.q_conv, work_.dk, 0, work_.q);
    convolve(row, args_.k, args_.k_conv, work_.dk, keys, work_.k);
    convolve(row, args_.v, args_.v_conv, work_.dv, 2 * keys, work_.v);
  }

  void normalize() const {
    const std::int64_t dk = work_.dk;
    const float q_scale = 1.0f / std::sqrt(static_cast<float>(dk));
    for (std::int64_t i = 0; i < count_; ++i) {
      leaf_.l2_normalize(work_.q + i * dk, dk, kL2NormEps, q_scale);
      leaf_.l2_normalize(work_.k + i * dk, dk, kL2NormEps, 1.0f);
    }
  }

  void step(std::int64_t i) const {
    const std::int64_t dk = work_.dk, dv = work_.dv;
    KdaStepArgs step;
    step.state = args_.pool.f32() + slot_ * shape_.state_elements() + (head_ + i) * dk * dv;
    step.dk = dk;
    step.dv = dv;
    step.decay = work_.decay + i * dk;
    step.q = work_.q + i * dk;
    step.k = work_.k + i * dk;
    step.v = work_.v + i * dv;
    step.beta = work_.beta[i];
    step.out = work_.out + i * dv;
    step.scratch = work_.decayed;
    leaf_.kda_step(step);
  }

  const Context& context_;
  const LeafTable& leaf_;
  const KdaMixArgs& args_;
  const KdaShape& shape_;
  std::int64_t slot_, head_, count_;
  const KdaStepWork& work_;
};

}  // namespace

void KdaStepWork::carve(Carver& carver) {
  q = carver.floats(heads * dk);
  k = carver.floats(heads * dk);
  v = carver.floats(heads * dv);
  decay = carver.floats(heads * dk);
  beta = carver.floats(heads);
  out = carver.floats(heads * dv);
  decayed = carver.floats(2 * dk);
}

void kda_steps(const Context& context, const KdaMixArgs& args, const SequenceRows& sequence,
               std::int64_t head, std::int64_t count, const KdaStepWork& work) {
  const KdaSteps steps(context, args, sequence, head, count, work);
  for (std::int64_t t = 0; t < sequence.num_rows; ++t) steps.run(sequence.first_row + t);
}

}  // namespace baltoro::cpu
