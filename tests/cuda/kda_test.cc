// kda_mix of the CUDA backend, most of it in the head size of the released models, which its fast
// kernels are made for: parity with the reference over lengths, gates and heads, and what must not
// change a bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <deque>
#include <optional>
#include <vector>

#include "core/buffer.h"
#include "cuda/backend.h"
#include "cuda/gpu.h"
#include "ops/parity/cases.h"
#include "ops/parity/compare.h"
#include "ops/reference/reference_backend.h"

namespace baltoro {
namespace {

constexpr Origin kPrompt = Origin::kPrompt;
constexpr Origin kGenerated = Origin::kGenerated;

KdaShape released_shape(std::int64_t heads) { return {heads, 128, 128, 4, false}; }

KdaCase released_head(const char* name, std::vector<SequenceCase> batch) {
  KdaCase spec;
  spec.name = name;
  spec.shape = released_shape(1);
  spec.batch = std::move(batch);
  spec.gate_lower_bound = -5.0f;
  return spec;
}

void expect_parity(const KdaCase& spec, Activations activations) {
  const auto reference = make_reference_backend(activations);
  const auto cuda = make_cuda_backend({.activations = activations});
  EXPECT_EQ(check_parity(make_case(spec), *reference, *cuda), "");
}

class CudaKda : public testing::TestWithParam<Activations> {};
INSTANTIATE_TEST_SUITE_P(Kda, CudaKda, testing::Values(Activations::kF32, Activations::kBf16),
                         [](const auto& tested) {
                           return tested.param == Activations::kF32 ? "f32" : "bf16";
                         });

TEST_P(CudaKda, LengthsAroundTilesAndBlocks) {
  BALTORO_NEEDS_GPU();
  std::vector<SequenceCase> batch;
  for (const std::int64_t rows : {1, 2, 15, 16, 17, 63, 64, 65, 200}) {
    batch.push_back({rows, 0, kPrompt, rows % 2 == 1 || rows == 64});
  }
  for (const std::optional<float> bound : {std::optional<float>(-5.0f), std::optional<float>()}) {
    KdaCase spec = released_head(bound ? "bounded" : "softplus", batch);
    spec.shape.num_heads = 2;
    spec.gate_lower_bound = bound;
    expect_parity(spec, GetParam());
    spec.gate = false;
    spec.batch = {{100, 128, kPrompt, true}, {70, 50, kPrompt, true}, {3, 62, kPrompt, true}};
    expect_parity(spec, GetParam());
  }
}

TEST_P(CudaKda, PromptsAndGeneratedRowsTogether) {
  BALTORO_NEEDS_GPU();
  KdaCase spec = released_head("mixed", {{100, 0, kPrompt, true},
                                         {1, 7, kGenerated, false},
                                         {1, 0, kPrompt, false},
                                         {5, 70, kGenerated, false},
                                         {64, 64, kPrompt, true}});
  spec.shape.num_heads = 3;
  expect_parity(spec, GetParam());
}

TEST_P(CudaKda, ManySequences) {
  BALTORO_NEEDS_GPU();
  std::vector<SequenceCase> batch;
  for (int i = 0; i < 700; ++i) {
    batch.push_back({1 + i % 3, i % 5 * 64, i % 7 == 0 ? kGenerated : kPrompt, false});
  }
  expect_parity(released_head("700 sequences", batch), GetParam());
}

// Each gate at its extremes: all decays at the bound, softplus decays of -1000, none at all, and
// (through the range of the logits) both beside each other.
TEST_P(CudaKda, StrongAndWeakDecays) {
  BALTORO_NEEDS_GPU();
  const std::vector<SequenceCase> batch{{130, 0, kPrompt, true}, {1, 3, kGenerated, false}};
  for (const float logit : {100.0f, 0.0f, -100.0f}) {
    KdaCase spec = released_head("constant logits, bounded", batch);
    spec.constant_decay = logit;
    expect_parity(spec, GetParam());
  }
  for (const float logit : {1000.0f, 1.0f, -100.0f}) {
    KdaCase spec = released_head("constant logits, softplus", batch);
    spec.gate_lower_bound = std::nullopt;
    spec.constant_decay = logit;
    expect_parity(spec, GetParam());
  }
  KdaCase spec = released_head("wide range of logits", batch);
  spec.decay_scale = 100;
  expect_parity(spec, GetParam());
  spec.gate_lower_bound = std::nullopt;
  expect_parity(spec, GetParam());
}

// Few heads, which blocks share; more; enough for the kernel whose blocks stay.
TEST_P(CudaKda, Bf16States) {
  BALTORO_NEEDS_GPU();
  for (const std::int64_t heads : {2, 40, 300}) {
    KdaCase spec = released_head(
        "bf16 state",
        {{1, 7, kGenerated, false}, {1, 90, kGenerated, false}, {1, 0, kGenerated, false}});
    spec.shape.num_heads = heads;
    spec.state = DType::kBf16;
    expect_parity(spec, GetParam());
    spec.batch.assign(30, {1, 64, kGenerated, false});
    if (heads == 300) expect_parity(spec, GetParam());
  }
  KdaCase spec = released_head(
      "bf16 state, prompts",
      {{100, 0, kPrompt, true}, {5, 70, kGenerated, false}, {200, 37, kPrompt, true}});
  spec.shape.num_heads = 2;
  spec.state = DType::kBf16;
  expect_parity(spec, GetParam());
}

// Key and value channels that differ, up to 256; decays a channel and a head; other conv widths.
TEST_P(CudaKda, OtherHeads) {
  BALTORO_NEEDS_GPU();
  for (const std::optional<float> bound : {std::optional<float>(-5.0f), std::optional<float>()}) {
    for (const KdaShape& shape : {KdaShape{4, 64, 64, 4, false}, KdaShape{2, 256, 256, 4, false},
                                  KdaShape{2, 256, 64, 4, false}, KdaShape{3, 32, 256, 4, false},
                                  KdaShape{2, 96, 40, 5, false}, KdaShape{2, 128, 256, 4, true},
                                  KdaShape{1, 200, 128, 1, true}}) {
      KdaCase spec;
      spec.name = bound ? "other head, bounded" : "other head, softplus";
      spec.shape = shape;
      spec.batch = {{200, 0, kPrompt, true},
                    {37, 50, kPrompt, true},
                    {1, 63, kPrompt, true},
                    {2, 5, kGenerated, false}};
      spec.gate_lower_bound = bound;
      expect_parity(spec, GetParam());
      spec.decay_scale = 100;
      expect_parity(spec, GetParam());
    }
  }
}

TEST_P(CudaKda, LongPrompts) {
  BALTORO_NEEDS_GPU();
  expect_parity(released_head("1000", {{1000, 0, kPrompt, true}}), GetParam());
  KdaCase spec = released_head("8192, weak decay", {{8192, 0, kPrompt, true}});
  spec.decay_shift = -8;
  expect_parity(spec, GetParam());
}

// One layer's memory on the device and random content of `rows` rows.
class Layer {
 public:
  Layer(Backend& backend, std::int64_t rows, DType state = DType::kF32,
        const KdaShape& shape = released_shape(2), std::int64_t slots = 6)
      : backend_(backend), rows_(rows) {
    args_.shape = shape;
    const std::int64_t heads = shape.num_heads, width = shape.conv_width;
    const std::int64_t keys = shape.key_channels(), values = shape.value_channels();
    args_.q = input("q", keys);
    args_.k = input("k", keys);
    args_.v = input("v", values);
    args_.decay_logits = input("decay", shape.decay_channels());
    args_.beta_logits = input("beta", heads);
    args_.gate = input("gate", values);
    args_.q_conv = weight("q_conv", keys * width);
    args_.k_conv = weight("k_conv", keys * width);
    args_.v_conv = weight("v_conv", values * width);
    args_.a_log = weight("a_log", heads);
    args_.dt_bias = weight("dt_bias", shape.decay_channels());
    args_.o_norm = weight("o_norm", shape.head_dim_v);
    args_.gate_lower_bound = -5.0f;
    args_.norm_eps = 1e-5f;
    args_.pool.num_slots = slots;
    args_.pool.dtype = state;
    args_.pool.state = pool(args_.shape.state_elements());
    args_.pool.conv = pool(args_.shape.conv_elements());
    out_ = backend_.allocate(bytes(values), "out");
    args_.out = {out_.data(), backend_.activation_dtype(), {rows_, values}};
  }

  // Rows [begin, begin + count) of the content as the rows of one call, together with `other` rows
  // of another sequence before them.
  void run(std::int64_t begin, std::int64_t count, std::int64_t other, std::int32_t slot,
           Origin origin) {
    std::vector<SequenceRows> sequences;
    const std::int64_t first = begin - other;
    if (other > 0) sequences.push_back({0, other, 0, 5, -1, kPrompt, {}});
    sequences.push_back({other, count, begin, slot, slot + 1, origin, {}});
    if (origin == kGenerated) sequences.back().boundary_slot = -1;
    run(sequences, first, count + other);
  }
  // Rows [begin, begin + count), each the next of the sequence in the slot of its number.
  void decode(std::int64_t begin, std::int64_t count) {
    std::vector<SequenceRows> sequences;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto slot = static_cast<std::int32_t>(begin + i);
      sequences.push_back({i, 1, 7, slot, -1, kGenerated, {}});
    }
    run(sequences, begin, count);
  }

  std::vector<std::byte> out(std::int64_t begin, std::int64_t count) {
    const ConstTensorView view = rows_of(args_.out, begin, count);
    return download(view.data, view.bytes());
  }
  std::vector<std::byte> state(std::int32_t slot) {
    const auto size = static_cast<std::size_t>(args_.shape.state_elements());
    const std::size_t item = size * dtype_bytes(args_.pool.dtype);
    return download(
        static_cast<std::byte*>(args_.pool.state) + static_cast<std::size_t>(slot) * item, item);
  }
  std::vector<std::byte> history(std::int32_t slot) {
    const auto size = static_cast<std::size_t>(args_.shape.conv_elements());
    return download(args_.pool.conv + static_cast<std::size_t>(slot) * size, size * sizeof(float));
  }

 private:
  void run(const std::vector<SequenceRows>& sequences, std::int64_t begin, std::int64_t count) {
    const std::vector<std::int32_t> ids(static_cast<std::size_t>(count), 0);
    KdaMixArgs call = args_;
    for (ConstTensorView* view :
         {&call.q, &call.k, &call.v, &call.decay_logits, &call.beta_logits, &call.gate}) {
      *view = rows_of(*view, begin, count);
    }
    const ConstTensorView out = rows_of(args_.out, begin, count);
    call.out = {const_cast<void*>(out.data), out.dtype, out.shape};
    call.batch = {ids, sequences};
    kda_mix(backend_, call);
  }

  std::size_t element() const { return dtype_bytes(backend_.activation_dtype()); }
  std::size_t bytes(std::int64_t cols) const {
    return static_cast<std::size_t>(rows_ * cols) * element();
  }
  ConstTensorView rows_of(const ConstTensorView& view, std::int64_t begin,
                          std::int64_t count) const {
    const std::int64_t cols = view.cols();
    return {static_cast<const std::byte*>(view.data) +
                static_cast<std::size_t>(begin * cols) * element(),
            view.dtype,
            {count, cols}};
  }
  std::vector<std::byte> download(const void* from, std::size_t size) {
    std::vector<std::byte> to(size);
    backend_.copy(to.data(), from, size);
    return to;
  }
  ConstTensorView input(const char* name, std::int64_t cols) {
    const std::vector<float> values = random_values(3, name, rows_ * cols, 2);
    buffers_.push_back(backend_.allocate(bytes(cols), name));
    void* data = buffers_.back().data();
    if (backend_.activation_dtype() == DType::kF32) {
      backend_.copy(data, values.data(), bytes(cols));
    } else {
      std::vector<std::uint16_t> halves;
      for (const float value : values) {
        halves.push_back(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16));
      }
      backend_.copy(data, halves.data(), bytes(cols));
    }
    return {data, backend_.activation_dtype(), {rows_, cols}};
  }
  const float* weight(const char* name, std::int64_t count) {
    const std::vector<float> values = random_values(3, name, count, 1);
    buffers_.push_back(backend_.allocate(values.size() * sizeof(float), name));
    backend_.copy(buffers_.back().data(), values.data(), values.size() * sizeof(float));
    return buffers_.back().f32();
  }
  float* pool(std::int64_t elements) {
    const std::size_t size =
        static_cast<std::size_t>(args_.pool.num_slots * elements) * sizeof(float);
    buffers_.push_back(backend_.allocate(size, "pool"));
    backend_.clear(buffers_.back().data(), size);
    return buffers_.back().f32();
  }

  Backend& backend_;
  std::int64_t rows_;
  KdaMixArgs args_;
  std::deque<Buffer> buffers_;
  Buffer out_;
};

// Heads of one and of several passes over 64 key channels, with bf16 states as well; other widths of
// the conv.
TEST_P(CudaKda, SplitSlotAndNeighbourDoNotChangeABit) {
  BALTORO_NEEDS_GPU();
  const auto cuda = make_cuda_backend({.activations = GetParam(), .deterministic = true});
  constexpr std::int64_t kRows = 300;
  for (const KdaShape& shape : {released_shape(2), KdaShape{4, 64, 64, 4, false},
                                KdaShape{2, 192, 256, 3, true}, KdaShape{3, 40, 24, 2, false}}) {
    for (const DType state : {DType::kF32, DType::kBf16}) {
      Layer whole(*cuda, kRows, state, shape), split(*cuda, kRows, state, shape);
      whole.run(0, kRows, 0, 0, kPrompt);
      split.run(0, 64, 0, 2, kPrompt);
      split.run(64, 64, 0, 2, kPrompt);
      split.run(128, kRows - 128, 40, 2, kPrompt);
      // The neighbour of the last call wrote over rows [88, 128).
      EXPECT_EQ(whole.out(0, 88), split.out(0, 88)) << shape.head_dim_k;
      EXPECT_EQ(whole.out(128, kRows - 128), split.out(128, kRows - 128)) << shape.head_dim_k;
      for (const std::int32_t slot : {0, 1}) {
        EXPECT_EQ(whole.state(slot), split.state(slot + 2)) << shape.head_dim_k << ", " << slot;
        EXPECT_EQ(whole.history(slot), split.history(slot + 2)) << shape.head_dim_k << ", " << slot;
      }
    }
  }
}

// As a sequence whose open block is read again: rows that follow change no row before them, and the
// number of neighbours, which decides how many columns a block of threads walks with, changes none.
TEST_P(CudaKda, RowsOfAnOpenBlockKeepTheirBits) {
  BALTORO_NEEDS_GPU();
  const auto cuda = make_cuda_backend({.activations = GetParam(), .deterministic = true});
  constexpr std::int64_t kRows = 64;
  const KdaShape few{2, 64, 96, 4, false};
  for (const std::int64_t rows : {1, 7, 16, 33, 63}) {
    Layer whole(*cuda, kRows, DType::kF32, few), open(*cuda, kRows, DType::kF32, few);
    whole.run(0, kRows, 0, 0, kPrompt);
    open.run(0, rows, 0, 2, kPrompt);
    EXPECT_EQ(whole.out(0, rows), open.out(0, rows)) << rows;
  }
  for (const std::int64_t heads : {16, 30, 60}) {
    const KdaShape shape{heads, 64, 96, 4, false};
    Layer alone(*cuda, kRows, DType::kF32, shape), beside(*cuda, kRows, DType::kF32, shape);
    alone.run(10, 54, 0, 0, kPrompt);
    beside.run(10, 54, 10, 2, kPrompt);
    EXPECT_EQ(alone.out(10, 54), beside.out(10, 54)) << heads;
    EXPECT_EQ(alone.state(0), beside.state(2)) << heads;
  }
}

// A prompt of so many heads and rows goes through the chunkwise kernels in several windows.
TEST_P(CudaKda, LongPromptOfManyHeadsGivesTheBitsOfShortCalls) {
  BALTORO_NEEDS_GPU();
  const auto cuda = make_cuda_backend({.activations = GetParam(), .deterministic = true});
  for (const std::int64_t heads : {48, 96}) {
    constexpr std::int64_t kRows = 1100, kCall = 128;
    const KdaShape shape = released_shape(heads);
    Layer whole(*cuda, kRows, DType::kF32, shape, 4), split(*cuda, kRows, DType::kF32, shape, 4);
    whole.run(0, kRows, 0, 0, kPrompt);
    for (std::int64_t row = 0; row < kRows; row += kCall) {
      split.run(row, std::min(kCall, kRows - row), 0, 2, kPrompt);
    }
    EXPECT_EQ(whole.out(0, kRows), split.out(0, kRows)) << heads;
    for (const std::int32_t slot : {0, 1}) {
      EXPECT_EQ(whole.state(slot), split.state(slot + 2)) << heads << " heads, slot " << slot;
      EXPECT_EQ(whole.history(slot), split.history(slot + 2)) << heads << " heads, slot " << slot;
    }
  }
}

TEST_P(CudaKda, GeneratedRowsOneByOneOrTogether) {
  BALTORO_NEEDS_GPU();
  const auto cuda = make_cuda_backend({.activations = GetParam(), .deterministic = true});
  for (const DType state : {DType::kF32, DType::kBf16}) {
    Layer together(*cuda, 12, state), single(*cuda, 12, state);
    together.run(0, 12, 0, 0, kGenerated);
    for (std::int64_t row = 0; row < 12; ++row) single.run(row, 1, 0, 2, kGenerated);
    EXPECT_EQ(together.out(0, 12), single.out(0, 12));
    EXPECT_EQ(together.state(0), single.state(2));
    EXPECT_EQ(together.history(0), single.history(2));
  }
}

// 32 heads of a sequence go to the kernel that shares a head, of four to one with a block a head, of
// sixty to the one whose blocks stay.
TEST_P(CudaKda, ManyGeneratedRowsGiveTheBitsOfFew) {
  BALTORO_NEEDS_GPU();
  const auto cuda = make_cuda_backend({.activations = GetParam(), .deterministic = true});
  constexpr std::int64_t kRows = 60, kHeads = 32;
  for (const DType state : {DType::kF32, DType::kBf16}) {
    Layer together(*cuda, kRows, state, released_shape(kHeads), kRows);
    for (int step = 0; step < 2; ++step) together.decode(0, kRows);
    for (const std::int64_t count : {1, 4}) {
      Layer apart(*cuda, kRows, state, released_shape(kHeads), kRows);
      for (int step = 0; step < 2; ++step) {
        for (std::int64_t row = 0; row < kRows; row += count) apart.decode(row, count);
      }
      EXPECT_EQ(together.out(0, kRows), apart.out(0, kRows)) << count;
      for (std::int32_t slot = 0; slot < kRows; ++slot) {
        EXPECT_EQ(together.state(slot), apart.state(slot)) << count << ", slot " << slot;
        EXPECT_EQ(together.history(slot), apart.history(slot)) << count << ", slot " << slot;
      }
    }
  }
}

}  // namespace
}  // namespace baltoro
