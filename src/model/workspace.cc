#include "model/workspace.h"

#include <algorithm>

#include "core/error.h"
#include "model/residual_stream.h"

namespace baltoro {

ActivationBuffer::ActivationBuffer(Backend& backend, std::int64_t max_elements, DType dtype)
    : buffer_(backend.allocate(static_cast<std::size_t>(max_elements) * dtype_bytes(dtype),
                               "activations")),
      dtype_(dtype),
      max_elements_(max_elements) {}

TensorView ActivationBuffer::view(std::int64_t rows, std::int64_t cols) {
  BALTORO_CHECK(rows * cols <= max_elements_, "scratch of {} elements cannot hold [{}, {}]",
                max_elements_, rows, cols);
  return {buffer_.data(), dtype_, {rows, cols}};
}

Workspace::Workspace(Backend& backend, const ModelConfig& config, std::int64_t rows)
    : max_rows(rows) {
  const KdaConfig& kda = config.kda;
  const MlaConfig& mla = config.mla;
  const MoeConfig& moe = config.moe;
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t expert_width = moe.latent_size > 0 ? moe.latent_size : hidden;
  const auto scratch = [&](std::int64_t width) {
    return ActivationBuffer(backend, rows * width, backend.activation_dtype());
  };

  for (int i = 0; i < ResidualStream::num_buffers(config); ++i) stream.push_back(scratch(hidden));
  bank.reserve(stream.size());
  normed = scratch(hidden);
  q = scratch(std::max(kda.key_width(), mla.num_heads * mla.qk_dim()));
  k = scratch(std::max(
      {kda.key_width(), mla.kv_lora_rank + mla.qk_rope_dim, mla.num_kv_heads * mla.qk_nope_dim}));
  v = scratch(std::max(kda.value_width(), mla.num_kv_heads * mla.v_head_dim));
  low_rank = scratch(std::max(kda.decay_rank, mla.q_lora_rank));
  low_rank_normed = scratch(mla.q_lora_rank);
  decay = scratch(kda.decay_width());
  beta = scratch(kda.num_heads);
  gate_low_rank = scratch(std::max(kda.gate_rank, mla.gate_rank));
  gate = scratch(std::max(kda.value_width(), mla.value_width()));
  mixed = scratch(std::max(kda.value_width(), mla.value_width()));
  if (moe.num_experts > 0) {
    latent = scratch(expert_width);
    expert_sum = scratch(expert_width);
    expert_sum_normed = scratch(expert_width);
    routed = scratch(hidden);
    expert_ids = ActivationBuffer(backend, rows * moe.experts_per_token, DType::kI32);
    expert_weights = ActivationBuffer(backend, rows * moe.experts_per_token, DType::kF32);
  }
  first_bad_memory = backend.allocate_shared(static_cast<std::size_t>(rows) * sizeof(std::int32_t),
                                             "tags of bad rows");
  begin_pass();
}

void Workspace::expect_arrivals(Backend& backend, const ModelConfig& config) {
  const std::int64_t values = std::ssize(stream) * max_rows * config.hidden_size;
  arriving = backend.allocate_shared(
      static_cast<std::size_t>(values) * dtype_bytes(backend.activation_dtype()),
      "the residual stream of the layers before");
}

void Workspace::begin_pass() { std::fill_n(first_bad(), max_rows, -1); }

std::size_t Workspace::bytes() const noexcept {
  std::size_t sum = first_bad_memory.bytes();
  for (const ActivationBuffer& buffer : stream) sum += buffer.bytes();
  for (const ActivationBuffer* buffer :
       {&normed, &q, &k, &v, &low_rank, &low_rank_normed, &decay, &beta, &gate_low_rank, &gate,
        &mixed, &latent, &expert_sum, &expert_sum_normed, &routed, &expert_ids, &expert_weights}) {
    sum += buffer->bytes();
  }
  return sum;
}

}  // namespace baltoro
