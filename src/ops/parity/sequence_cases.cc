// Cases of the ops that carry state from token to token: kda_mix, mla_prefill, mla_decode.
#include <limits>

#include "core/error.h"
#include "ops/parity/cases.h"

namespace baltoro {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// A batch with its slots and pages, dealt so that no id equals its sequence's index and some stay
// unused.
struct BatchStorage {
  explicit BatchStorage(const std::vector<SequenceCase>& cases) {
    const auto count = static_cast<std::int32_t>(cases.size());
    num_slots = 2 * count + 1;
    std::int64_t row = 0, total_pages = 0;
    for (const SequenceCase& c : cases) total_pages += pages_of(c);
    num_pages = total_pages + 2;
    auto next_page = static_cast<std::int32_t>(total_pages);
    for (std::int32_t i = 0; i < count; ++i) {
      const SequenceCase& c = cases[static_cast<std::size_t>(i)];
      const std::int32_t slot = 2 * (count - 1 - i);
      std::vector<std::int32_t> page_list;
      for (std::int64_t p = 0; p < pages_of(c); ++p) page_list.push_back(next_page--);
      pages.push_back(page_list);
      SequenceRows rows;
      rows.first_row = row;
      rows.num_rows = c.rows;
      rows.start_pos = c.start_pos;
      rows.state_slot = slot + 1;
      rows.boundary_slot = c.boundary ? slot : -1;
      rows.origin = c.origin;
      sequences.push_back(rows);
      row += c.rows;
    }
    token_ids.assign(static_cast<std::size_t>(row), 0);
    for (std::size_t i = 0; i < sequences.size(); ++i) sequences[i].pages = pages[i];
  }

  static std::int64_t pages_of(const SequenceCase& c) {
    return (c.start_pos + c.rows + kBlockTokens - 1) / kBlockTokens;
  }
  BatchView view() const { return {token_ids, sequences}; }

  std::vector<std::int32_t> token_ids;
  std::vector<SequenceRows> sequences;
  std::vector<std::vector<std::int32_t>> pages;
  std::int64_t num_slots = 0;
  std::int64_t num_pages = 0;
};

std::string batch_name(const std::vector<SequenceCase>& batch) {
  std::string name = "{";
  for (const SequenceCase& c : batch) {
    name += fmt::format("{}{}{}@{}{}", name.size() > 1 ? " " : "",
                        c.origin == Origin::kPrompt ? "p" : "g", c.rows, c.start_pos,
                        c.boundary ? "b" : "");
  }
  return name + "}";
}

// A pool of slots of `size` values: random where a sequence has a past, zero where it starts, NaN
// where no sequence is.
std::vector<float> pool_values(const BatchStorage& batch, const std::string& name,
                               std::int64_t size, std::uint64_t seed) {
  std::vector<float> pool(static_cast<std::size_t>(batch.num_slots * size), kNan);
  for (const SequenceRows& sequence : batch.sequences) {
    std::vector<float> slot(static_cast<std::size_t>(size), 0.0f);
    if (sequence.start_pos > 0) {
      slot = random_values(seed, name + std::to_string(sequence.state_slot), size, 0.5f);
    }
    std::copy(slot.begin(), slot.end(), pool.begin() + sequence.state_slot * size);
  }
  return pool;
}

// The layer's pages: random rows for the past of each sequence, NaN elsewhere.
std::vector<float> cache_values(const BatchStorage& batch, std::int64_t width, std::uint64_t seed) {
  std::vector<float> cache(static_cast<std::size_t>(batch.num_pages * kBlockTokens * width), kNan);
  for (std::size_t i = 0; i < batch.sequences.size(); ++i) {
    const SequenceRows& sequence = batch.sequences[i];
    const std::vector<float> past =
        random_values(seed, "past" + std::to_string(i), sequence.start_pos * width, 1.5f);
    for (std::int64_t t = 0; t < sequence.start_pos; ++t) {
      const std::int64_t page = batch.pages[i][static_cast<std::size_t>(t / kBlockTokens)];
      std::copy(past.begin() + t * width, past.begin() + (t + 1) * width,
                cache.begin() + (page * kBlockTokens + t % kBlockTokens) * width);
    }
  }
  return cache;
}

void fill_gates(KdaMixArgs& args, OpMemory& memory, const KdaCase& spec, std::int64_t rows) {
  const KdaShape& shape = spec.shape;
  const std::int64_t decays = shape.decay_channels();
  std::vector<float> logits =
      random_values(spec.seed, "decay_logits", rows * decays, spec.decay_scale);
  std::vector<float> bias = random_values(spec.seed, "dt_bias", decays, 1);
  std::vector<float> a_log = random_values(spec.seed, "a_log", shape.num_heads, 1);
  for (float& value : logits) value += spec.decay_shift;
  if (spec.constant_decay) {
    logits.assign(logits.size(), *spec.constant_decay);
    bias.assign(bias.size(), 0.0f);
    a_log.assign(a_log.size(), 0.0f);
  }
  args.decay_logits = memory.input("decay_logits", logits, decays);
  args.dt_bias = memory.input_f32("dt_bias", bias);
  args.a_log = memory.input_f32("a_log", a_log);
  args.gate_lower_bound = spec.gate_lower_bound;
  args.beta_logits = memory.input(
      "beta_logits", random_values(spec.seed, "beta_logits", rows * shape.num_heads, 3),
      shape.num_heads);
}

KdaMixArgs kda_args(OpMemory& memory, const KdaCase& spec, const BatchStorage& batch) {
  const KdaShape& shape = spec.shape;
  const std::int64_t rows = batch.view().num_rows();
  const std::int64_t keys = shape.key_channels();
  const std::int64_t values = shape.value_channels();
  const auto random = [&](const char* name, std::int64_t n, float scale) {
    return random_values(spec.seed, name, n, scale);
  };
  KdaMixArgs args;
  args.shape = shape;
  args.q = memory.input("q", random("q", rows * keys, 1.5f), keys);
  args.k = memory.input("k", random("k", rows * keys, 1.5f), keys);
  args.v = memory.input("v", random("v", rows * values, 1.5f), values);
  args.q_conv = memory.input_f32("q_conv", random("q_conv", keys * shape.conv_width, 1));
  args.k_conv = memory.input_f32("k_conv", random("k_conv", keys * shape.conv_width, 1));
  args.v_conv = memory.input_f32("v_conv", random("v_conv", values * shape.conv_width, 1));
  fill_gates(args, memory, spec, rows);
  if (spec.gate) args.gate = memory.input("gate", random("gate", rows * values, 2), values);
  std::vector<float> o_norm = random("o_norm", shape.head_dim_v, 0.3f);
  for (float& value : o_norm) value += 1;
  args.o_norm = memory.input_f32("o_norm", o_norm);
  args.norm_eps = 1e-5f;
  args.pool.num_slots = batch.num_slots;
  args.pool.dtype = spec.state;
  args.pool.state = memory.state(
      "state", pool_values(batch, "state", shape.state_elements(), spec.seed), spec.state);
  args.pool.conv =
      memory.state_f32("conv", pool_values(batch, "conv", shape.conv_elements(), spec.seed));
  args.out = memory.output("out", rows, values);
  return args;
}

MlaArgs mla_args(OpMemory& memory, const MlaCase& spec, const BatchStorage& batch, DType dtype) {
  const MlaShape& shape = spec.shape;
  const std::int64_t rows = batch.view().num_rows();
  const auto input = [&](const char* name, std::int64_t cols, float scale) {
    return memory.input(name, random_values(spec.seed, name, rows * cols, scale), cols);
  };
  MlaArgs args;
  args.shape = shape;
  args.q = input("q", shape.num_heads * shape.qk_dim(), spec.query_scale);
  if (shape.kind == MlaKind::kGqa) {
    args.kv = input("kv", shape.num_kv_heads * shape.nope_dim, 1.5f);
    args.v = input("v", shape.num_kv_heads * shape.v_head_dim, 1.5f);
  } else {
    args.kv = input("kv", shape.kv_rank + shape.rope_dim, 1.5f);
    std::vector<float> norm = random_values(spec.seed, "kv_norm", shape.kv_rank, 0.3f);
    for (float& value : norm) value += 1;
    args.kv_norm = memory.input_f32("kv_norm", norm);
    args.kv_norm_eps = 1e-6f;
    args.kv_b = memory.weight(spec.seed, "kv_b", spec.format, shape.kv_b_rows(), shape.kv_rank);
  }
  args.rope_theta = spec.rope_theta;
  const std::int64_t values = shape.num_heads * shape.v_head_dim;
  if (spec.gate) args.gate = input("gate", values, 2);
  const std::vector<float> cache = cache_values(batch, shape.cache_width(), spec.seed);
  args.cache.num_pages = batch.num_pages;
  args.cache.dtype = dtype;
  args.cache.data = spec.fp8_latents ? memory.latents("cache", cache, LatentPage(shape))
                                     : memory.cache("cache", cache);
  args.out = memory.output("out", rows, values);
  return args;
}

Cost kda_cost(const KdaCase& spec, DType dtype) {
  Cost cost;
  for (const SequenceCase& c : spec.batch) {
    Cost one = kda_mix_cost(spec.shape, c.rows, 1, dtype, c.origin, spec.state);
    if (cost.weight_bytes > 0) one.weight_bytes = 0;  // read once for the whole batch
    cost += one;
  }
  return cost;
}

DType cache_dtype(const MlaCase& spec, const Backend& backend) {
  return spec.fp8_latents ? DType::kE4m3 : backend.cache_dtype();
}

Cost mla_cost(const MlaCase& spec, const Backend& backend) {
  const DType dtype = backend.activation_dtype(), cache = cache_dtype(spec, backend);
  Cost cost;
  for (const SequenceCase& c : spec.batch) {
    Cost one;
    if (c.origin == Origin::kPrompt) {
      one = mla_prefill_cost(spec.shape, c.rows, c.start_pos, dtype, cache);
    } else {
      for (std::int64_t t = 0; t < c.rows; ++t) {
        one += mla_decode_cost(spec.shape, c.start_pos + t, dtype, cache);
      }
    }
    if (cost.weight_bytes > 0) one.weight_bytes = 0;
    cost += one;
  }
  return cost;
}

}  // namespace

OpCase make_case(const KdaCase& spec) {
  const auto prepare = [spec](Backend& backend) {
    auto memory = std::make_unique<OpMemory>(backend);
    const auto batch = std::make_shared<const BatchStorage>(spec.batch);
    KdaMixArgs args = kda_args(*memory, spec, *batch);
    args.batch = batch->view();
    return PreparedOp(
        std::move(memory), [&backend, batch, args] { kda_mix(backend, args); },
        kda_cost(spec, backend.activation_dtype()));
  };
  const char* op = spec.state == DType::kF32 ? "kda_mix" : "kda_mix, bf16 state";
  return {op, spec.name + " " + batch_name(spec.batch), prepare};
}

OpCase make_case(const MlaCase& spec) {
  const auto prepare = [spec](Backend& backend) {
    auto memory = std::make_unique<OpMemory>(backend);
    const auto batch = std::make_shared<const BatchStorage>(spec.batch);
    MlaArgs args = mla_args(*memory, spec, *batch, cache_dtype(spec, backend));
    args.batch = batch->view();
    return PreparedOp(
        std::move(memory),
        [&backend, batch, args] {
          mla_prefill(backend, args);
          mla_decode(backend, args);
        },
        mla_cost(spec, backend));
  };
  const char* op = spec.fp8_latents ? "mla, fp8 latents" : "mla";
  return {op, spec.name + " " + batch_name(spec.batch), prepare};
}

}  // namespace baltoro
