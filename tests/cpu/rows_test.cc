// A row among many has the bits that it has alone, for every op that works row by row; and the leaf
// loops against exact values.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "core/mxfp4.h"
#include "core/mxint8.h"
#include "cpu/dispatch.h"
#include "cpu/sequence_problems.h"
#include "ops/expert_mlp.h"
#include "ops/head.h"
#include "ops/linear.h"
#include "ops/mix_norm.h"
#include "ops/route.h"

namespace baltoro {
namespace {

using namespace testing_cpu;

// A weight in any format with its memory; data start at an odd address, as in a checkpoint.
struct TestWeight {
  TestWeight(WeightFormat format, std::int64_t rows, std::int64_t cols, std::uint64_t seed) {
    const std::vector<float> values =
        random_values(seed, "weight", rows * cols, 1.0f / std::sqrt(static_cast<float>(cols)));
    bytes.push_back(0);
    if (format == WeightFormat::kMxfp4) {
      pack(values);
    } else if (format == WeightFormat::kMxint8) {
      pack_int8(values);
    } else {
      for (float value : values) append(format, value);
    }
    view = {bytes.data() + 1, scales.empty() ? nullptr : scales.data(), format, rows, cols};
  }

  std::vector<std::uint8_t> bytes, scales;
  WeightView view;

 private:
  void pack(const std::vector<float>& values) {
    for (std::size_t i = 0; i < values.size(); i += 32) {
      const Mxfp4Block block = encode_mxfp4(std::span<const float, 32>(values.data() + i, 32));
      bytes.insert(bytes.end(), block.packed, block.packed + 16);
      scales.push_back(block.scale);
    }
  }
  void pack_int8(const std::vector<float>& values) {
    for (std::size_t i = 0; i < values.size(); i += 32) {
      const Mxint8Block block = encode_mxint8(std::span<const float, 32>(values.data() + i, 32));
      for (const std::int8_t code : block.codes) bytes.push_back(static_cast<std::uint8_t>(code));
      scales.push_back(block.scale);
    }
  }
  void append(WeightFormat format, float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    std::uint32_t out = word;
    int size = 4;
    if (format == WeightFormat::kBf16) {
      out = f32_to_bf16(value);
      size = 2;
    } else if (format == WeightFormat::kF16) {
      // Truncated to half precision; the values are far from its limits but may be subnormal.
      const int exponent = static_cast<int>((word >> 23) & 255u) - 112;
      out =
          exponent > 0 ? (static_cast<std::uint32_t>(exponent) << 10) | ((word >> 13) & 1023u) : 0;
      out |= (word >> 16) & 0x8000u;
      size = 2;
    }
    for (int i = 0; i < size; ++i) bytes.push_back(static_cast<std::uint8_t>(out >> (8 * i)));
  }
};

class CpuRows : public testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Backend> backend(Activations activations) {
    return make_cpu_backend({activations, 2, GetParam()});
  }
};
INSTANTIATE_TEST_SUITE_P(Isas, CpuRows, testing::ValuesIn(supported_isas()),
                         [](const auto& isa) { return isa.param; });

std::vector<float> activations_of(Activations kind, const std::string& name, std::int64_t count) {
  std::vector<float> values = random_values(5, name, count, 1);
  round_values(values, kind);
  return values;
}

std::vector<float> run_linear(Backend& backend, const float* x, std::int64_t rows,
                              const WeightView& weight) {
  std::vector<float> out(static_cast<std::size_t>(rows * weight.rows));
  LinearArgs args;
  args.x = {x, DType::kF32, {rows, weight.cols}};
  args.add(weight, {out.data(), DType::kF32, {rows, weight.rows}});
  linear(backend, args);
  return out;
}

TEST_P(CpuRows, LinearRowsDoNotDependOnTheirNumber) {
  constexpr std::int64_t kOutputs = 37, kRows = 131;
  for (const Activations kind : {Activations::kF32, Activations::kBf16}) {
    const auto cpu = backend(kind);
    for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kBf16, WeightFormat::kF16,
                                      WeightFormat::kMxfp4, WeightFormat::kMxint8}) {
      for (std::int64_t cols : {1, 7, 8, 17, 31, 32, 96, 511, 512, 513, 544, 1031, 1056}) {
        if (format >= WeightFormat::kMxfp4 && cols % kMxGroup != 0) continue;
        const TestWeight weight(format, kOutputs, cols, 11);
        const std::vector<float> x = activations_of(kind, "x", kRows * cols);
        const std::vector<float> all = run_linear(*cpu, x.data(), kRows, weight.view);
        for (std::int64_t rows : {1, 2, 3, 4, 5, 6, 7, 13, 64, 65}) {
          const std::vector<float> some = run_linear(*cpu, x.data(), rows, weight.view);
          ASSERT_TRUE(same_bits(some, slice(all, 0, rows * kOutputs)))
              << "format " << static_cast<int>(format) << ", " << cols << " columns, " << rows;
        }
        const std::vector<float> last =
            run_linear(*cpu, x.data() + (kRows - 1) * cols, 1, weight.view);
        ASSERT_TRUE(same_bits(last, slice(all, (kRows - 1) * kOutputs, kOutputs)));
      }
    }
  }
}

// The ends of the scale's range, where a decoder that works on exponent fields can go wrong.
TEST_P(CpuRows, ExtremeMxfp4ScalesAreExact) {
  const auto cpu = backend(Activations::kBf16);
  for (const int scale : {0, 1, 2, 127, 251, 252, 253}) {
    for (const std::int64_t cols : {32, 128, 160}) {
      std::vector<std::uint8_t> codes(static_cast<std::size_t>(cols / 2), 0);
      std::vector<std::uint8_t> scales(static_cast<std::size_t>(cols / kMxfp4Group), 127);
      codes.back() = 0xc4;  // 2 and -2
      scales.back() = static_cast<std::uint8_t>(scale);
      std::vector<float> x(static_cast<std::size_t>(2 * cols), 0.0f);
      const float small = std::ldexp(1.0f, std::clamp(126 - scale, -126, 126));
      x[static_cast<std::size_t>(cols - 2)] = small;
      x[static_cast<std::size_t>(2 * cols - 1)] = small;
      const WeightView weight{codes.data(), scales.data(), WeightFormat::kMxfp4, 1, cols};
      const float expected = std::ldexp(2.0f, scale - 127) * small;
      EXPECT_EQ(run_linear(*cpu, x.data(), 2, weight), (std::vector<float>{expected, -expected}))
          << "scale " << scale << ", " << cols << " columns";
    }
  }
}

// Every code beside scales at the ends of what a decoder may do on exponent fields, and beyond: one
// code a row, by products of one row and of many.
TEST_P(CpuRows, Mxint8CodesAreExactAtEveryKindOfScale) {
  constexpr std::int64_t kCols = 256;
  const auto cpu = backend(Activations::kBf16);
  std::vector<std::uint8_t> codes(kCols);
  std::iota(codes.begin(), codes.end(), std::uint8_t{0});
  for (const int scale : {7, 8, 127, 132, 133, 134, 135, 250}) {
    std::vector<std::uint8_t> scales(kCols / kMxGroup, 127);
    for (std::size_t i = 1; i < scales.size(); i += 2) scales[i] = static_cast<std::uint8_t>(scale);
    const WeightView weight{codes.data(), scales.data(), WeightFormat::kMxint8, 1, kCols};
    std::vector<float> x(static_cast<std::size_t>(kCols * kCols), 0.0f), expected;
    for (std::int64_t m = 0; m < kCols; ++m) {
      const int exponent = scales[static_cast<std::size_t>(m / kMxGroup)] - 133;
      x[static_cast<std::size_t>(m * kCols + m)] = std::ldexp(1.0f, -exponent);
      expected.push_back(static_cast<float>(static_cast<std::int8_t>(m)));
    }
    EXPECT_EQ(run_linear(*cpu, x.data(), kCols, weight), expected) << "scale " << scale;
    for (std::int64_t m = 0; m < kCols; ++m) {
      const std::vector<float> alone = run_linear(*cpu, x.data() + m * kCols, 1, weight);
      ASSERT_EQ(alone, slice(expected, m, 1)) << "scale " << scale << ", code " << m;
    }
  }
}

// Few rows may scale sums where many scale weights; at the ends of the exponents these would differ.
TEST_P(CpuRows, Mxfp4RowsDoNotDependOnTheirNumberAtTheEndsOfTheRange) {
  constexpr std::int64_t kOutputs = 5, kRows = 7, kCols = 288;
  const auto cpu = backend(Activations::kBf16);
  const TestWeight weight(WeightFormat::kMxfp4, kOutputs, kCols, 12);
  const std::vector<float> values = activations_of(Activations::kBf16, "x", kRows * kCols);
  for (const int scale : {1, 20, 80, 102, 103, 104, 127, 186, 187, 188, 240, 252}) {
    const std::vector<std::uint8_t> scales(kOutputs * kCols / kMxGroup,
                                           static_cast<std::uint8_t>(scale));
    WeightView view = weight.view;
    view.scales = scales.data();
    for (const int exponent : {-126, -110, -100, -94, -84, 0, 58, 60, 64, 110, 120}) {
      std::vector<float> x = values;
      for (float& v : x) v = std::ldexp(v, exponent);
      const std::vector<float> all = run_linear(*cpu, x.data(), kRows, view);
      for (std::int64_t m = 0; m < kRows; ++m) {
        ASSERT_TRUE(same_bits(run_linear(*cpu, x.data() + m * kCols, 1, view),
                              slice(all, m * kOutputs, kOutputs)))
            << "scale " << scale << ", activations of 2^" << exponent;
      }
    }
  }
}

TEST_P(CpuRows, HeadRowsAreTheChosenOnes) {
  const auto cpu = backend(Activations::kF32);
  const TestWeight weight(WeightFormat::kBf16, 70, 40, 3);
  const std::vector<float> x = activations_of(Activations::kF32, "x", 9 * 40);
  const std::vector<float> all = run_linear(*cpu, x.data(), 9, weight.view);
  const std::vector<std::int32_t> rows = {8, 0, 3};
  std::vector<float> logits(3 * 70);
  head(*cpu, {{x.data(), DType::kF32, {9, 40}}, rows, weight.view, logits.data()});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_TRUE(same_bits(slice(logits, static_cast<std::int64_t>(i) * 70, 70),
                          slice(all, rows[i] * 70, 70)));
  }
}

struct ExpertTable {
  ExpertTable(int count, std::int64_t width, std::int64_t inner) {
    for (int e = 0; e < count; ++e) {
      const auto seed = static_cast<std::uint64_t>(10 * e);
      weights.emplace_back(WeightFormat::kMxfp4, inner, width, seed + 1);
      weights.emplace_back(WeightFormat::kMxfp4, inner, width, seed + 2);
      weights.emplace_back(WeightFormat::kMxfp4, width, inner, seed + 3);
    }
    for (std::size_t e = 0; e < weights.size(); e += 3) {
      table.push_back({weights[e].view, weights[e + 1].view, weights[e + 2].view});
    }
  }
  std::vector<TestWeight> weights;
  std::vector<ExpertWeights> table;
};

TEST_P(CpuRows, ExpertRowsDoNotDependOnTheirNeighbours) {
  constexpr std::int64_t kRows = 90, kWidth = 64;
  constexpr int kTopK = 3, kExperts = 5;
  for (const Activations kind : {Activations::kF32, Activations::kBf16}) {
    const auto cpu = backend(kind);
    const ExpertTable experts(kExperts, kWidth, 96);
    const std::vector<float> z = activations_of(kind, "z", kRows * kWidth);
    const std::vector<float> weights = random_values(2, "weights", kRows * kTopK, 1);
    std::vector<std::int32_t> ids;
    for (int i = 0; i < kRows * kTopK; ++i) ids.push_back((i * i + i / kTopK) % kExperts);
    const auto run = [&](std::int64_t first, std::int64_t rows) {
      std::vector<float> out(static_cast<std::size_t>(rows * kWidth));
      ExpertMlpArgs args;
      args.z = {z.data() + first * kWidth, DType::kF32, {rows, kWidth}};
      args.ids = ids.data() + first * kTopK;
      args.weights = weights.data() + first * kTopK;
      args.top_k = kTopK;
      args.experts = experts.table;
      args.activation = {ActivationKind::kSitu, 4, 25};
      args.out = {out.data(), DType::kF32, {rows, kWidth}};
      expert_mlp(*cpu, args);
      return out;
    };
    const std::vector<float> all = run(0, kRows);
    for (std::int64_t row = 0; row < kRows; row += 7) {
      EXPECT_TRUE(same_bits(run(row, 1), slice(all, row * kWidth, kWidth))) << row;
    }
  }
}

TEST_P(CpuRows, EqualScoresGoToTheLowestExperts) {
  const auto cpu = backend(Activations::kF32);
  const std::vector<float> x(3 * 17, 0.5f), weight(100 * 17, 0.25f), bias(100, 0.0f);
  std::vector<std::int32_t> ids(3 * 6);
  std::vector<float> weights(3 * 6);
  RouteArgs args;
  args.x = {x.data(), DType::kF32, {3, 17}};
  args.weight = {weight.data(), nullptr, WeightFormat::kF32, 100, 17};
  args.bias = bias.data();
  args.top_k = 6;
  args.ids = ids.data();
  args.weights = weights.data();
  route(*cpu, args);
  for (int i = 0; i < 18; ++i) {
    EXPECT_EQ(ids[static_cast<std::size_t>(i)], i % 6);
    EXPECT_EQ(weights[static_cast<std::size_t>(i)], weights[0]);
  }
}

TEST_P(CpuRows, MixOfOneSourceKeepsItsBits) {
  const auto cpu = backend(Activations::kF32);
  constexpr std::int64_t kHidden = 45, kRows = 5;
  const std::vector<float> bank = activations_of(Activations::kF32, "bank", kRows * kHidden);
  const std::vector<float> w = random_values(1, "w", kHidden, 1);
  const auto run = [&](std::int64_t first, std::int64_t rows) {
    std::vector<float> prefix = slice(activations_of(Activations::kF32, "prefix", kRows * kHidden),
                                      first * kHidden, rows * kHidden);
    std::vector<float> out(prefix.size());
    const ConstTensorView source{bank.data() + first * kHidden, DType::kF32, {rows, kHidden}};
    MixNormArgs args;
    args.bank = {&source, 1};
    args.prefix = {prefix.data(), DType::kF32, {rows, kHidden}};
    args.res_norm = args.res_proj = args.norm = w.data();
    args.mix_eps = args.norm_eps = 1e-5f;
    args.out = {out.data(), DType::kF32, {rows, kHidden}};
    mix_norm(*cpu, args);
    return out;
  };
  const std::vector<float> all = run(0, kRows);
  for (std::int64_t row = 0; row < kRows; ++row) {
    EXPECT_TRUE(same_bits(run(row, 1), slice(all, row * kHidden, kHidden)));
  }
}

const cpu::LeafTable& table(const std::string& isa) { return cpu::pick_table(isa); }

// Error in units in the last place of the exact value, subnormal results excepted.
double ulps(double exact, float actual) {
  const double unit = std::ldexp(1.0, std::max(std::ilogb(exact), -126) - 23);
  return std::fabs(exact - static_cast<double>(actual)) / unit;
}

TEST_P(CpuRows, ElementaryFunctionsAreAccurate) {
  const cpu::LeafTable& leaf = table(GetParam());
  std::vector<float> x;
  for (double v = -100; v <= 88; v += 0.0137) x.push_back(static_cast<float>(v));
  for (double v = 1e-8; v < 1; v *= 1.3) {
    x.push_back(static_cast<float>(v));
    x.push_back(static_cast<float>(-v));
  }
  const auto n = static_cast<std::int64_t>(x.size());
  std::vector<float> e = x, s(x.size()), tanh_gate = x, soft(x.size());
  leaf.exp_sum(e.data(), n, 0.0f);
  leaf.sigmoid(x.data(), n, s.data());
  // A huge linear beta makes the linear factor its argument 1; the sigmoid is divided off below.
  const std::vector<float> ones(x.size(), 1.0f), zeros(x.size(), 0.0f);
  leaf.situ(tanh_gate.data(), ones.data(), n, 1.0f, 1e6f, false);
  leaf.decay_softplus(x.data(), zeros.data(), n, 1.0f, soft.data());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double v = x[i];
    if (v > -87) {
      EXPECT_LE(ulps(std::exp(v), e[i]), 2.5) << "exp " << v;
      EXPECT_LE(ulps(1 / (1 + std::exp(-v)), s[i]), 4) << "sigmoid " << v;
      EXPECT_LE(ulps(std::tanh(v) / (1 + std::exp(-v)), tanh_gate[i]), 10) << "situ " << v;
    }
    // exp(-softplus(x)) = sigmoid(-x); an error of the exponent grows with its size.
    if (v < 80) {
      EXPECT_LE(ulps(1 / (1 + std::exp(v)), soft[i]), 4 + std::fabs(v)) << "softplus " << v;
    }
  }
}

TEST_P(CpuRows, ExtremesOfExpAreExact) {
  const cpu::LeafTable& leaf = table(GetParam());
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> x = {
      0.0f, -inf, inf, -1000.0f, 1000.0f, std::numeric_limits<float>::quiet_NaN(), 88.7f};
  leaf.exp_sum(x.data(), static_cast<std::int64_t>(x.size()), 0.0f);
  EXPECT_EQ(x[0], 1.0f);
  EXPECT_EQ(x[1], 0.0f);
  EXPECT_EQ(x[2], inf);
  EXPECT_EQ(x[3], 0.0f);
  EXPECT_EQ(x[4], inf);
  EXPECT_TRUE(std::isnan(x[5]));
  EXPECT_TRUE(std::isfinite(x[6]));
}

TEST_P(CpuRows, Bf16RoundingIsNearestEven) {
  const cpu::LeafTable& leaf = table(GetParam());
  std::vector<float> x;
  for (std::uint32_t bits = 0; bits < 0xffff'0000u; bits += 0x4001u) {
    x.push_back(std::bit_cast<float>(bits));
  }
  x.push_back(std::bit_cast<float>(0x7f80'0001u));  // a NaN whose top half is infinity's
  x.push_back(std::bit_cast<float>(0x3f80'8000u));  // ties
  x.push_back(std::bit_cast<float>(0x3f81'8000u));
  std::vector<float> rounded = x;
  std::vector<std::uint16_t> words(x.size());
  leaf.round_bf16(rounded.data(), static_cast<std::int64_t>(x.size()));
  leaf.encode_bf16(x.data(), static_cast<std::int64_t>(x.size()), words.data());
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(rounded[i]),
              std::bit_cast<std::uint32_t>(round_bf16(x[i])));
    ASSERT_EQ(words[i], f32_to_bf16(x[i]));
  }
}

void expect_same_values(const std::vector<float>& expected, const std::vector<float>& actual) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(expected[i])) {
      ASSERT_TRUE(std::isnan(actual[i])) << i;
    } else {
      ASSERT_EQ(expected[i], actual[i]) << i;  // a table may give +0 for the code of -0
    }
  }
}

// Nibble order and scale bytes, as decoded by the scalar reference in core.
TEST_P(CpuRows, Mxfp4DecodesEveryCodeAndScale) {
  const cpu::LeafTable& leaf = table(GetParam());
  std::vector<std::uint8_t> packed, scales;
  for (int scale = 0; scale < 256; ++scale) {
    for (int j = 0; j < 16; ++j) packed.push_back(static_cast<std::uint8_t>(17 * j + scale));
    scales.push_back(static_cast<std::uint8_t>(scale));
  }
  std::vector<float> expected(256 * 32), actual(256 * 32);
  decode_mxfp4_row(packed.data(), scales.data(), 256 * 32, expected.data());
  leaf.decode_row(packed.data(), scales.data(), cpu::LeafFormat::kMxfp4, 256 * 32, actual.data());
  expect_same_values(expected, actual);
}

TEST_P(CpuRows, Mxint8DecodesEveryCodeAndScale) {
  const cpu::LeafTable& leaf = table(GetParam());
  std::vector<std::int8_t> codes;
  std::vector<std::uint8_t> scales;
  for (int scale = 0; scale < 256; ++scale) {
    for (int i = 0; i < 32; ++i) codes.push_back(static_cast<std::int8_t>(8 * i + scale));
    scales.push_back(static_cast<std::uint8_t>(scale));
  }
  std::vector<float> expected(256 * 32), actual(256 * 32);
  decode_mxint8_row(codes.data(), scales.data(), 256 * 32, expected.data());
  leaf.decode_row(reinterpret_cast<const std::uint8_t*>(codes.data()), scales.data(),
                  cpu::LeafFormat::kMxint8, 256 * 32, actual.data());
  expect_same_values(expected, actual);
}

}  // namespace
}  // namespace baltoro
