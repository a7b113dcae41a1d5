// A quantised copy: what was representable comes back bit for bit, what was finished stays
// finished, and what must not be mixed is refused.
#include "model/quantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>

#include "core/mxfp4.h"
#include "core/mxint8.h"
#include "io/test_files.h"
#include "model/loader.h"
#include "model/synth.h"
#include "paths.h"

namespace baltoro {
namespace {

using nlohmann::json;
using testing::HasSubstr;
namespace fs = std::filesystem;

const fs::path kFixtures = test_data_dir() / "fixtures";
constexpr QuantizeTargets kExperts{true, false};
constexpr QuantizeTargets kBoth{true, true};

struct Tensor {
  DType dtype = DType::kBf16;
  Shape shape;
  std::vector<std::byte> bytes;
};
using Tensors = std::map<std::string, Tensor>;

Tensors read_tensors(const fs::path& dir) {
  const CheckpointFiles files(dir);
  Tensors tensors;
  for (const TensorInfo& info : files.tensors()) {
    Tensor& tensor = tensors[info.name];
    tensor = {info.dtype, info.shape, std::vector<std::byte>(info.bytes)};
    files.files()[info.file].read(info.offset, tensor.bytes);
  }
  return tensors;
}

void write_tensors(const fs::path& dir, const Tensors& tensors) {
  std::vector<TensorToWrite> header;
  for (const auto& [name, tensor] : tensors) header.push_back({name, tensor.dtype, tensor.shape});
  SafetensorsWriter writer(dir / "model.safetensors", header);
  for (const auto& [name, tensor] : tensors) writer.write(tensor.bytes);
  writer.finish();
}

std::vector<float> decoded(const Tensor& codes, const Tensor& scales) {
  const auto* scale = reinterpret_cast<const std::uint8_t*>(scales.bytes.data());
  std::vector<float> values(32 * scales.bytes.size());
  const auto count = static_cast<std::int64_t>(values.size());
  if (codes.dtype == DType::kI8) {
    decode_mxint8_row(reinterpret_cast<const std::int8_t*>(codes.bytes.data()), scale, count,
                      values.data());
  } else {
    decode_mxfp4_row(reinterpret_cast<const std::uint8_t*>(codes.bytes.data()), scale, count,
                     values.data());
  }
  return values;
}

// All packed matrices of `packed` as the BF16 matrices that they stand for.
void write_bf16(const fs::path& packed, const fs::path& dir) {
  Tensors tensors = read_tensors(packed);
  Tensors plain;
  for (const auto& [name, tensor] : tensors) {
    if (name.ends_with(".weight_scale")) continue;
    if (!name.ends_with(".weight_packed")) {
      plain[name] = tensor;
      continue;
    }
    const std::string stem = name.substr(0, name.size() - std::strlen("_packed"));
    const std::vector<float> values = decoded(tensor, tensors.at(stem + "_scale"));
    Tensor& weight = plain[stem];
    weight.shape = {tensor.shape[0], static_cast<std::int64_t>(values.size()) / tensor.shape[0]};
    for (const float value : values) {
      const std::uint16_t bits = f32_to_bf16(value);
      EXPECT_EQ(bf16_to_f32(bits), value);
      weight.bytes.push_back(static_cast<std::byte>(bits));
      weight.bytes.push_back(static_cast<std::byte>(bits >> 8));
    }
  }
  fs::create_directories(dir);
  write_tensors(dir, plain);
  json config = json::parse(read_file(packed / "config.json"));
  config.erase("quantization_config");
  write_file(dir / "config.json", config.dump());
}

void expect_same_tensors(const fs::path& a, const fs::path& b) {
  const Tensors left = read_tensors(a);
  const Tensors right = read_tensors(b);
  ASSERT_EQ(left.size(), right.size());
  for (const auto& [name, tensor] : left) {
    ASSERT_TRUE(right.contains(name)) << name;
    EXPECT_EQ(tensor.bytes, right.at(name).bytes) << name;
    EXPECT_EQ(tensor.dtype, right.at(name).dtype) << name;
  }
}

// A BF16 Kimi Linear of random weights in three shards, with a tokenizer's file beside.
class Quantize : public testing::Test {
 protected:
  Quantize() {
    json config = json::parse(read_file(kFixtures / "kimi_linear" / "config.json"));
    config["moe_intermediate_size"] = 64;
    write_file(dir_ / "config.json", config.dump());
    synthesize(dir_ / "config.json", dir_ / "src", {.num_shards = 3, .write_tokenizer = false});
    write_file(dir_ / "src/tiktoken.model", "AA== 0\n");
  }
  QuantizeReport quantize(const std::string& dst, const QuantizeTargets& targets,
                          int num_threads = 1) {
    return Quantizer(dir_ / "src", dir_ / dst, targets).run(num_threads);
  }
  Error error_of(const std::string& dst, const QuantizeTargets& targets) {
    return catch_error([&] { quantize(dst, targets); });
  }
  // Runs until the second shard has begun, then dies as by a signal.
  void interrupt(const std::string& dst) {
    struct Killed {};
    Quantizer quantizer(dir_ / "src", dir_ / dst, kBoth);
    const std::uint64_t first = quantizer.plan().shards[0].bytes_in;
    EXPECT_THROW(quantizer.run(1,
                               [&](std::uint64_t done, std::uint64_t) {
                                 if (done > first) throw Killed();
                               }),
                 Killed);
  }

  TempDir dir_;
};

TEST_F(Quantize, WhatItWritesBindsInTheFormatsOfThePlan) {
  const QuantizeReport report = quantize("dst", kBoth);
  const LoadedModel model = load_model(dir_ / "dst");
  EXPECT_TRUE(model.report.unused.empty());
  EXPECT_TRUE(model.config.layout.mxfp4_experts);
  EXPECT_TRUE(model.config.layout.mxint8_trunk);
  const auto& kda = std::get<KdaWeights>(model.weights.layers[0].mixer);
  const auto& moe = std::get<MoeWeights>(model.weights.layers[1].ffn);
  EXPECT_EQ(moe.experts[0].w2.format, WeightFormat::kMxfp4);
  EXPECT_EQ(moe.router.format, WeightFormat::kBf16);
  EXPECT_EQ(kda.q_proj.format, WeightFormat::kMxint8);
  EXPECT_EQ(kda.f_a_proj.format, WeightFormat::kBf16);
  EXPECT_EQ(model.weights.lm_head.format, WeightFormat::kMxint8);
  EXPECT_EQ(model.weights.embed.format, WeightFormat::kBf16);
  EXPECT_EQ(model.store->files().files().size(), 3u);
  EXPECT_EQ(read_file(dir_ / "dst/tiktoken.model"), "AA== 0\n");

  const Tensors before = read_tensors(dir_ / "src");
  for (const auto& [name, tensor] : read_tensors(dir_ / "dst")) {
    if (before.contains(name)) {
      EXPECT_EQ(tensor.bytes, before.at(name).bytes) << name;
    }
  }
  const Quantizer again(dir_ / "src", dir_ / "dst", kBoth);
  EXPECT_EQ(again.plan().bytes_out, model.store->files().total_bytes());
  EXPECT_EQ(again.bytes_to_write(), 0u);
  EXPECT_EQ(report.num_resumed, 0u);
}

TEST_F(Quantize, ErrorsAreThoseOfTheWrittenBytesForAnyNumberOfThreads) {
  const QuantizeReport report = quantize("one", kBoth, 1);
  const QuantizeReport many = quantize("many", kBoth, 3);
  const Tensors before = read_tensors(dir_ / "src");
  const Tensors after = read_tensors(dir_ / "one");
  ASSERT_EQ(report.tensors.size(), many.tensors.size());
  for (std::size_t t = 0; t < report.tensors.size(); ++t) {
    const QuantizedTensor& tensor = report.tensors[t];
    EXPECT_EQ(tensor.error.error_squares, many.tensors[t].error.error_squares) << tensor.name;
    const std::string stem = tensor.name.substr(0, tensor.name.size() - std::strlen(".weight"));
    const std::vector<float> values =
        decoded(after.at(stem + ".weight_packed"), after.at(stem + ".weight_scale"));
    double squares = 0, error_squares = 0, largest = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, before.at(tensor.name).bytes.data() + 2 * i, 2);
      const double difference = static_cast<double>(values[i]) - bf16_to_f32(bits);
      squares += std::pow(bf16_to_f32(bits), 2);
      error_squares += difference * difference;
      largest = std::max(largest, std::fabs(difference));
    }
    EXPECT_NEAR(tensor.error.nmse(), error_squares / squares, 1e-9 * error_squares / squares);
    EXPECT_EQ(tensor.error.largest, largest);
    const bool is_int8 = tensor.action == QuantizeAction::kMxint8;
    EXPECT_LT(tensor.error.nmse(), is_int8 ? 1.5e-4 : 2e-2) << tensor.name;
  }
}

// BF16 that stands for codes becomes those codes again.
TEST_F(Quantize, IsLosslessOnItsOwnValues) {
  quantize("once", kBoth);
  write_bf16(dir_ / "once", dir_ / "plain");
  const QuantizeReport report = Quantizer(dir_ / "plain", dir_ / "twice", kBoth).run();
  for (const QuantizedTensor& tensor : report.tensors) EXPECT_EQ(tensor.error.error_squares, 0);
  expect_same_tensors(dir_ / "once", dir_ / "twice");
}

// The fixture's experts come from another program, with scales of its own choice: the values stay.
TEST(QuantizeFixture, IsLosslessOnTheValuesOfAReleasedPacking) {
  const TempDir dir;
  write_bf16(kFixtures / "k3", dir / "plain");
  const QuantizeReport report = Quantizer(dir / "plain", dir / "dst", kExperts).run();
  EXPECT_FALSE(report.tensors.empty());
  for (const QuantizedTensor& tensor : report.tensors) {
    EXPECT_EQ(tensor.error.error_squares, 0) << tensor.name;
  }
  EXPECT_TRUE(load_model(dir / "dst").report.unused.empty());
}

TEST(QuantizeFixture, PackedExpertsAreCopiedByteForByte) {
  const TempDir dir;
  Quantizer(kFixtures / "k3", dir / "dst", kBoth).run();
  const Tensors before = read_tensors(kFixtures / "k3");
  std::size_t packed = 0;
  for (const auto& [name, tensor] : read_tensors(dir / "dst")) {
    if (name.find(".experts.") == std::string::npos) continue;
    EXPECT_EQ(tensor.bytes, before.at(name).bytes) << name;
    ++packed;
  }
  EXPECT_GT(packed, 0u);
  EXPECT_TRUE(load_config(dir / "dst").layout.mxfp4_experts);
  const Error error = catch_error([&] { Quantizer(kFixtures / "k3", dir / "none", kExperts); });
  EXPECT_EQ(error.code(), ErrorCode::kUsage);
  EXPECT_THAT(error.what(), HasSubstr("nothing to quantise: no routed expert is BF16"));
}

TEST_F(Quantize, GoesOnFromTheLastFinishedShard) {
  quantize("whole", kBoth);
  interrupt("dst");
  EXPECT_FALSE(fs::exists(dir_ / "dst/config.json"));
  EXPECT_FALSE(fs::exists(dir_ / "dst/model-00002-of-00003.safetensors"));
  const QuantizeReport report = quantize("dst", kBoth);
  EXPECT_EQ(report.num_resumed, 1u);
  EXPECT_EQ(report.tensors.size(), quantize("whole", kBoth).tensors.size());
  for (const auto& entry : fs::directory_iterator(dir_ / "whole")) {
    if (!entry.is_regular_file()) continue;
    EXPECT_EQ(read_file(entry.path()), read_file(dir_ / "dst" / entry.path().filename().string()))
        << entry.path();
  }
}

TEST_F(Quantize, AFinishedShardThatWasDamagedIsMadeAgain) {
  quantize("whole", kBoth);
  interrupt("dst");
  const std::string shard = "model-00001-of-00003.safetensors";
  std::string bytes = read_file(dir_ / "dst" / shard);
  bytes.back() ^= 1;
  write_file(dir_ / "dst" / shard, bytes);
  EXPECT_EQ(quantize("dst", kBoth).num_resumed, 0u);
  EXPECT_EQ(read_file(dir_ / "dst" / shard), read_file(dir_ / "whole" / shard));
}

TEST_F(Quantize, ARunOfOtherArgumentsOrAnotherSourceIsRefused) {
  interrupt("dst");
  EXPECT_EQ(error_of("dst", kExperts).code(), ErrorCode::kUsage);
  EXPECT_THAT(error_of("dst", kExperts).what(),
              HasSubstr("was begun with another trunk; repeat the first call"));
  const fs::path shard = dir_ / "src/model-00003-of-00003.safetensors";
  fs::last_write_time(shard, fs::last_write_time(shard) + std::chrono::seconds(1));
  EXPECT_THAT(error_of("dst", kBoth).what(), HasSubstr("another state of the source's files"));
}

TEST_F(Quantize, DirectoriesThatItMustNotWriteTo) {
  EXPECT_THAT(error_of("src", kBoth).what(), HasSubstr("is the source itself"));
  EXPECT_THAT(error_of("src/../src", kBoth).what(), HasSubstr("is the source itself"));
  synthesize(kFixtures / "dense_only", dir_ / "other");
  EXPECT_THAT(error_of("other", kBoth).what(), HasSubstr("holds a model already"));
  QuantizeRecord record(dir_ / "dst", nlohmann::ordered_json::object());
  record.begin();
  QuantizeRecord second(dir_ / "dst", nlohmann::ordered_json::object());
  EXPECT_THAT(catch_error([&] { second.begin(); }).what(),
              HasSubstr("another baltoro quantize writes there"));
}

TEST_F(Quantize, NanIsNamedWithTensorAndRow) {
  const std::string name = "model.layers.1.block_sparse_moe.experts.0.w2.weight";
  Tensors tensors = read_tensors(dir_ / "src");
  Tensor& tensor = tensors.at(name);
  const std::size_t at = static_cast<std::size_t>(tensor.shape[1]) * 2 * 5 + 6;
  tensor.bytes[at + 1] = std::byte{0x7f};
  tensor.bytes[at] = std::byte{0xc0};
  fs::create_directory(dir_ / "nan");
  fs::copy_file(dir_ / "src/config.json", dir_ / "nan/config.json");
  write_tensors(dir_ / "nan", tensors);
  const Error error = catch_error([&] { Quantizer(dir_ / "nan", dir_ / "dst", kExperts).run(); });
  EXPECT_EQ(error.code(), ErrorCode::kBadModel);
  EXPECT_THAT(error.what(), HasSubstr("tensor " + name + ": row 5 holds NaN or infinity"));
}

TEST(QuantizePlan, AnExpertWithoutWholeGroupsIsRefused) {
  const TempDir dir;
  synthesize(kFixtures / "kimi_linear", dir / "src");
  const Error error = catch_error([&] { Quantizer(dir / "src", dir / "dst", kExperts); });
  EXPECT_EQ(error.code(), ErrorCode::kBadModel);
  EXPECT_THAT(error.what(), HasSubstr("w2.weight cannot become MXFP4: 16 columns are no multiple"));
}

TEST(QuantizeConfig, KeepsTheOtherKeysInTheirOrder) {
  const std::string text =
      R"({"b": 1, "text_config": {"quantization_config": {}, "z": [2]}, "a": {}})";
  const std::string both = with_quantization(text, {true, true});
  EXPECT_LT(both.find("\"b\""), both.find("\"text_config\""));
  const json result = json::parse(both);
  EXPECT_EQ(result["text_config"], json({{"z", {2}}}));
  EXPECT_EQ(result["quantization_config"]["format"], "mixed-precision");
  EXPECT_EQ(result["quantization_config"]["config_groups"].size(), 2u);
  const json one = json::parse(with_quantization(text, {false, true}));
  EXPECT_EQ(one["quantization_config"]["format"], "mxint8-pack-quantized");
  EXPECT_EQ(one["quantization_config"]["config_groups"]["group_0"]["weights"]["num_bits"], 8);
}

}  // namespace
}  // namespace baltoro
