#include "measure/op_points_sequence.h"

#include <fmt/format.h>

#include "ops/kda.h"
#include "ops/mla.h"

namespace baltoro {
namespace {

// Sequences of equal length at equal depth.
struct Batch {
  std::int64_t count = 1;
  std::int64_t rows = 1;   // new tokens of each
  std::int64_t depth = 0;  // tokens before them
  Origin origin = Origin::kGenerated;

  std::int64_t total_rows() const { return count * rows; }
  std::int64_t pages() const { return (depth + rows + kBlockTokens - 1) / kBlockTokens; }
};

// A batch with ids of slots and pages from 0 on.
struct BatchMemory {
  explicit BatchMemory(const Batch& batch)
      : token_ids(static_cast<std::size_t>(batch.total_rows()), 0) {
    for (std::int64_t i = 0; i < batch.count * batch.pages(); ++i) {
      page_ids.push_back(static_cast<std::int32_t>(i));
    }
    for (std::int64_t i = 0; i < batch.count; ++i) {
      sequences.push_back(
          {.first_row = i * batch.rows,
           .num_rows = batch.rows,
           .start_pos = batch.depth,
           .state_slot = static_cast<std::int32_t>(i),
           .origin = batch.origin,
           .pages = std::span(page_ids).subspan(static_cast<std::size_t>(i * batch.pages()),
                                                static_cast<std::size_t>(batch.pages()))});
    }
  }
  BatchView view() const { return {token_ids, sequences}; }

  std::vector<std::int32_t> token_ids;
  std::vector<std::int32_t> page_ids;
  std::vector<SequenceRows> sequences;
};

std::string describe(const Batch& batch, std::int64_t heads, std::int64_t head_dim) {
  return fmt::format("B={} T={} S={} H={}x{}", batch.count, batch.rows, batch.depth, heads,
                     head_dim);
}

KdaMixArgs kda_args(RotatingMemory& memory, const KdaShape& shape, std::int64_t rows) {
  KdaMixArgs args;
  args.shape = shape;
  args.q = memory.activations(rows, shape.key_channels());
  args.k = memory.activations(rows, shape.key_channels());
  args.v = memory.activations(rows, shape.value_channels());
  args.decay_logits = memory.activations(rows, shape.decay_channels());
  args.beta_logits = memory.activations(rows, shape.num_heads);
  args.gate = memory.activations(rows, shape.value_channels());
  args.q_conv = memory.vector(shape.key_channels() * shape.conv_width);
  args.k_conv = memory.vector(shape.key_channels() * shape.conv_width);
  args.v_conv = memory.vector(shape.value_channels() * shape.conv_width);
  args.a_log = memory.vector(shape.num_heads);
  args.dt_bias = memory.vector(shape.decay_channels());
  args.o_norm = memory.vector(shape.head_dim_v);
  args.gate_lower_bound = -5.0f;
  args.norm_eps = 1e-5f;
  args.out = memory.activations(rows, shape.value_channels());
  return args;
}

OpPoint kda_point(const KdaShape& shape, const Batch& batch, std::int64_t set) {
  const auto prepare = [=](RotatingMemory& memory) -> PointCall {
    KdaMixArgs args = kda_args(memory, shape, batch.total_rows());
    const auto storage = std::make_shared<const BatchMemory>(batch);
    args.batch = storage->view();
    memory.set_batch(args.batch);
    args.pool.num_slots = batch.count;
    return [=, keep = storage, &memory]() mutable {
      const auto floats = [&](std::int64_t elements) {
        return reinterpret_cast<float*>(
            memory.items(batch.count * elements * static_cast<std::int64_t>(sizeof(float))));
      };
      args.pool.state = floats(shape.state_elements());
      args.pool.conv = floats(shape.conv_elements());
      kda_mix(memory.backend(), args);
      return plan::kernel_call(memory.backend(), args);
    };
  };
  return {"kda_mix",
          fmt::format("{}, {} MiB", describe(batch, shape.num_heads, shape.head_dim_k), set / kMiB),
          set, prepare};
}

MlaArgs mla_args(RotatingMemory& memory, const MlaShape& shape, std::int64_t rows) {
  MlaArgs args;
  args.shape = shape;
  args.q = memory.activations(rows, shape.num_heads * shape.qk_dim());
  args.kv = memory.activations(rows, shape.cache_width());
  args.kv_norm = memory.vector(shape.kv_rank);
  args.kv_norm_eps = 1e-6f;
  args.gate = memory.activations(rows, shape.num_heads * shape.v_head_dim);
  args.cache.dtype = memory.backend().cache_dtype();
  args.out = memory.activations(rows, shape.num_heads * shape.v_head_dim);
  return args;
}

OpPoint mla_point(const MlaShape& shape, const Batch& batch, std::int64_t set) {
  const bool prompt = batch.origin == Origin::kPrompt;
  const auto prepare = [=](RotatingMemory& memory) -> PointCall {
    MlaArgs args = mla_args(memory, shape, batch.total_rows());
    const auto storage = std::make_shared<const BatchMemory>(batch);
    args.batch = storage->view();
    memory.set_batch(args.batch);
    args.cache.num_pages = batch.count * batch.pages();
    return [=, keep = storage, &memory]() mutable {
      args.kv_b = memory.weight(WeightFormat::kBf16, shape.kv_b_rows(), shape.kv_rank);
      args.cache.data =
          memory.items(args.cache.num_pages * cache_page_bytes(shape, args.cache.dtype));
      if (prompt) {
        mla_prefill(memory.backend(), args);
        return plan::mla_prefill_call(memory.backend(), args);
      }
      mla_decode(memory.backend(), args);
      return plan::mla_decode_call(memory.backend(), args);
    };
  };
  return {prompt ? "mla_prefill" : "mla_decode",
          fmt::format("{}, {} MiB", describe(batch, shape.num_heads, shape.nope_dim), set / kMiB),
          set, prepare};
}

}  // namespace

void add_sequence_points(std::vector<OpPoint>& list, bool on_device) {
  const auto kda = [&](std::int64_t heads, std::int64_t dim, const Batch& batch, std::int64_t set) {
    list.push_back(kda_point({heads, dim, dim, 4, false}, batch, set));
  };
  for (const std::int64_t set : {kCachedBytes, kMemoryBytes}) {
    for (const std::int64_t count : {1, 4, 8}) kda(12, 128, {count, 1, 64}, set);
    kda(4, 64, {1, 1, 64}, set);
  }
  kda(32, 128, {1, 1, 64}, kMemoryBytes);
  kda(12, 128, {32, 1, 64}, kMemoryBytes);
  for (const std::int64_t count : {2, 4, 16}) kda(4, 64, {count, 1, 64}, kCachedBytes);
  for (const std::int64_t rows : {16, 32, 64, 128, 512}) {
    kda(12, 128, {1, rows, 0, Origin::kPrompt}, kMemoryBytes);
  }
  for (const std::int64_t rows : {16, 64, 512})
    kda(4, 64, {1, rows, 0, Origin::kPrompt}, kCachedBytes);
  for (const std::int64_t rows : {32, 64})
    kda(12, 128, {4, rows, 64, Origin::kPrompt}, kMemoryBytes);
  if (on_device) {
    for (const std::int64_t count : {2, 8}) kda(32, 128, {count, 1, 64}, kMemoryBytes);
    for (const std::int64_t rows : {64, 256, 2048}) {
      kda(32, 128, {1, rows, 0, Origin::kPrompt}, kMemoryBytes);
    }
  }

  const auto mla = [&](const MlaShape& shape, const Batch& batch, std::int64_t set) {
    list.push_back(mla_point(shape, batch, set));
  };
  const MlaShape large{MlaKind::kLatent, 12, 12, 128, 64, 128, 256};
  const MlaShape little{MlaKind::kLatent, 4, 4, 64, 32, 64, 128};
  const MlaShape wide{MlaKind::kLatent, 32, 32, 128, 64, 128, 512};
  for (const std::int64_t depth : {0, 500, 2000}) mla(large, {1, 1, depth}, kMemoryBytes);
  for (const std::int64_t depth : {0, 1000}) mla(little, {1, 1, depth}, kCachedBytes);
  mla(large, {4, 1, 500}, kMemoryBytes);
  for (const std::int64_t count : {2, 8}) mla(little, {count, 1, 500}, kCachedBytes);
  mla(wide, {1, 1, 1000}, kMemoryBytes);
  for (const std::int64_t rows : {16, 64, 256, 512}) {
    mla(large, {1, rows, 0, Origin::kPrompt}, kMemoryBytes);
  }
  mla(large, {1, 64, 1024, Origin::kPrompt}, kMemoryBytes);
  mla(large, {1, 256, 1024, Origin::kPrompt}, kMemoryBytes);
  for (const std::int64_t rows : {16, 64, 512}) {
    mla(little, {1, rows, 0, Origin::kPrompt}, kCachedBytes);
  }
  mla(little, {1, 256, 1024, Origin::kPrompt}, kCachedBytes);
  mla(large, {4, 32, 64, Origin::kPrompt}, kMemoryBytes);
  mla(little, {4, 32, 64, Origin::kPrompt}, kCachedBytes);
  mla(wide, {1, 64, 256, Origin::kPrompt}, kMemoryBytes);
  if (!on_device) return;
  for (const std::int64_t depth : {100, 8000, 60000}) mla(wide, {1, 1, depth}, kMemoryBytes);
  for (const std::int64_t count : {4, 16}) mla(wide, {count, 1, 1000}, kMemoryBytes);
  for (const std::int64_t rows : {512, 2048})
    mla(wide, {1, rows, 0, Origin::kPrompt}, kMemoryBytes);
}

}  // namespace baltoro
