#include "model/residual_stream.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "core/error.h"
#include "core/narrow.h"
#include "ops/mix_norm.h"

namespace baltoro {

int ResidualStream::num_buffers(const ModelConfig& config) {
  std::int64_t banked = 0;
  if (config.has_attn_res()) {
    const std::int64_t sublayers = 2 * config.num_layers;
    banked = (sublayers + config.attn_res_sublayers - 1) / config.attn_res_sublayers;
  }
  return static_cast<int>(banked) + 2;
}

ResidualStream::ResidualStream(Backend& backend, const ModelConfig& config, Workspace& workspace,
                               std::int64_t rows, std::int64_t first_layer)
    : backend_(backend), config_(config), workspace_(workspace), rows_(rows) {
  workspace.bank.clear();
  if (first_layer == 0) {
    prefix_ = take_buffer();
  } else {
    arrive(first_layer);
  }
}

void ResidualStream::arrive(std::int64_t first_layer) {
  sublayer_ = 2 * first_layer;
  const std::int64_t block = config_.attn_res_sublayers;
  const std::int64_t banked = config_.has_attn_res() ? (sublayer_ + block - 1) / block : 0;
  for (std::int64_t i = 0; i < banked; ++i) workspace_.bank.push_back(take_buffer());
  prefix_is_none_ = config_.has_attn_res() && (sublayer_ - 1) % block == 0;
  if (!prefix_is_none_) prefix_ = take_buffer();
  output_ = take_buffer();

  // In the order of sources(), which is that of the buffers.
  const auto* from = static_cast<const std::byte*>(workspace_.arriving.data());
  for (std::size_t i = 0; i < next_buffer_; ++i) {
    const TensorView to = workspace_.stream[i].view(rows_, config_.hidden_size);
    backend_.copy_in_order(to.data, from, to.bytes());
    from += to.bytes();
  }
}

std::vector<ConstTensorView> ResidualStream::sources() const {
  std::vector<ConstTensorView> all = workspace_.bank;
  if (!prefix_is_none_) all.push_back(prefix_);
  all.push_back(output_);
  return all;
}

void ResidualStream::hand_over(Workspace& next, DType dtype) const {
  BALTORO_CHECK(backend_.uses_host_memory(), "{} hands over rows of device memory",
                backend_.name());
  auto* to = static_cast<std::byte*>(next.arriving.data());
  for (const ConstTensorView& source : sources()) {
    const std::int64_t count = source.shape.count();
    narrow(source.f32(), dtype, to, count);
    to += static_cast<std::size_t>(count) * dtype_bytes(dtype);
  }
  std::copy_n(workspace_.first_bad(), rows_, next.first_bad());
}

TensorView ResidualStream::take_buffer() {
  if (spare_) return std::exchange(spare_, TensorView());
  return workspace_.stream.at(next_buffer_++).view(rows_, config_.hidden_size);
}

TensorView ResidualStream::embedding() { return prefix_; }

TensorView ResidualStream::output() { return output_; }

ConstTensorView ResidualStream::mix_and_norm(const AttnResWeights* mix,
                                             std::span<const float> norm) {
  MixNormArgs args;
  args.layer = static_cast<int>(std::min(sublayer_ / 2, config_.num_layers - 1));
  if (output_ && prefix_is_none_) {
    prefix_ = output_;
  } else if (output_) {
    args.delta = output_;
    spare_ = output_;
  }
  prefix_is_none_ = false;
  args.bank = workspace_.bank;
  args.prefix = prefix_;
  if (!workspace_.bank.empty()) {
    BALTORO_CHECK(mix != nullptr, "sub-layer {} has banked sources but no mix weights", sublayer_);
    args.res_norm = mix->norm.data();
    args.res_proj = mix->proj.data();
  }
  args.norm = norm.data();
  args.mix_eps = config_.rms_norm_eps;
  args.norm_eps = config_.rms_norm_eps;
  args.out = workspace_.normed.view(rows_, config_.hidden_size);
  args.first_bad = workspace_.first_bad();
  args.bad_tag = static_cast<std::int32_t>(sublayer_);
  mix_norm(backend_, args);
  return args.out;
}

ConstTensorView ResidualStream::enter(const AttnResWeights* mix, std::span<const float> norm) {
  const ConstTensorView x = mix_and_norm(mix, norm);
  if (config_.has_attn_res() && sublayer_ % config_.attn_res_sublayers == 0) {
    workspace_.bank.push_back(prefix_);
    prefix_is_none_ = true;
  }
  output_ = take_buffer();
  ++sublayer_;
  return x;
}

ConstTensorView ResidualStream::finish(const AttnResWeights* mix, std::span<const float> norm) {
  return mix_and_norm(mix, norm);
}

}  // namespace baltoro
