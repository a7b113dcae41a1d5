// A synthetic checkpoint binds whole, repeats by seed, and looks like weights.
#include "model/synth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <span>

#include "core/mxfp4.h"
#include "core/mxint8.h"
#include "io/test_files.h"
#include "io/verify.h"
#include "model/loader.h"
#include "model/model_stats.h"
#include "paths.h"

namespace baltoro {
namespace {

const std::filesystem::path kFixtures = test_data_dir() / "fixtures";

// A nested configuration with MXFP4 experts and room for a tokenizer.
nlohmann::json k3_like() {
  nlohmann::json config = nlohmann::json::parse(read_file(kFixtures / "k3" / "config.json"));
  nlohmann::json& text = config["text_config"];
  text["vocab_size"] = 512;
  text["bos_token_id"] = 480;
  text["eos_token_id"] = 482;
  text["pad_token_id"] = 511;
  config["quantization_config"] = {{"quant_method", "compressed-tensors"},
                                   {"format", "mxfp4-pack-quantized"}};
  return config;
}

// Every configuration of the fixtures, all variants: what synth writes is exactly what bind reads.
TEST(SynthRoundTrip, EveryVariantBindsWithNothingMissingOrUnused) {
  for (const auto& entry : std::filesystem::directory_iterator(kFixtures)) {
    const TempDir dir;
    const SynthReport report = synthesize(entry.path(), dir.path(), {.num_shards = 3});
    const LoadedModel model = load_model(dir.path());
    EXPECT_TRUE(model.report.unused.empty()) << entry.path();
    const ModelStats stats = compute_model_stats(model.config);
    EXPECT_EQ(report.num_tensors, stats.num_tensors) << entry.path();
    EXPECT_EQ(report.bytes, static_cast<std::uint64_t>(stats.total_bytes)) << entry.path();
    EXPECT_EQ(model.store->files().files().size(), 3u);
  }
}

// The large matrices are MXINT8, those that must not be are not, and all of it binds.
TEST(SynthRoundTrip, MixedPrecision) {
  const TempDir dir;
  nlohmann::json config = k3_like();
  config["text_config"].erase("quantization_config");
  config["quantization_config"]["format"] = "mixed-precision";
  config["quantization_config"]["config_groups"] = {
      {"group_0", {{"format", "mxfp4-pack-quantized"}}},
      {"group_1", {{"format", "mxint8-pack-quantized"}}}};
  write_file(dir / "config.json", config.dump());
  const SynthReport report = synthesize(dir / "config.json", dir / "out");
  const LoadedModel model = load_model(dir / "out");
  EXPECT_TRUE(model.report.unused.empty());
  EXPECT_EQ(report.bytes,
            static_cast<std::uint64_t>(compute_model_stats(model.config).total_bytes));
  const ModelWeights& weights = model.weights;
  const auto& kda = std::get<KdaWeights>(weights.layers[0].mixer);
  const auto& mla = std::get<MlaWeights>(weights.layers[4].mixer);
  const auto& moe = std::get<MoeWeights>(weights.layers[1].ffn);
  for (const WeightView* matrix :
       {&kda.q_proj, &kda.gate.full, &kda.o_proj, &mla.q_a_proj, &mla.o_proj, &moe.latent_down,
        &moe.shared->down, &std::get<GluWeights>(weights.layers[0].ffn).gate, &weights.lm_head}) {
    EXPECT_EQ(matrix->format, WeightFormat::kMxint8);
  }
  for (const WeightView* matrix :
       {&weights.embed, &kda.f_a_proj, &kda.f_b_proj, &kda.b_proj, &mla.kv_b_proj, &moe.router}) {
    EXPECT_EQ(matrix->format, WeightFormat::kBf16);
  }
  EXPECT_EQ(moe.experts[0].w1.format, WeightFormat::kMxfp4);

  // Standard deviation gain / sqrt(columns), as for the other formats.
  const WeightView& head = weights.lm_head;
  std::vector<float> row(static_cast<std::size_t>(head.cols));
  double squares = 0;
  for (std::int64_t r = 0; r < head.rows; ++r) {
    decode_mxint8_row(static_cast<const std::int8_t*>(head.data) + r * head.cols,
                      head.scales + r * head.scale_cols(), head.cols, row.data());
    for (const float value : row) squares += static_cast<double>(value) * value;
  }
  EXPECT_NEAR(std::sqrt(squares / static_cast<double>(head.rows)), 1.0, 0.5);
}

TEST(SynthRoundTrip, ShardingDoesNotChangeATensor) {
  const TempDir dir;
  write_file(dir / "config.json", k3_like().dump());
  synthesize(dir / "config.json", dir / "one", {.seed = 7, .num_shards = 1});
  synthesize(dir / "config.json", dir / "many", {.seed = 7, .num_shards = 7});
  const CheckpointFiles one(dir / "one");
  const CheckpointFiles many(dir / "many");
  ASSERT_EQ(one.tensors().size(), many.tensors().size());
  const std::vector<TensorCheck> sums_of_many = verify_tensors(many);
  for (const TensorCheck& check : verify_tensors(one)) {
    const TensorInfo* twin = many.find(one.tensors()[check.tensor].name);
    ASSERT_NE(twin, nullptr);
    EXPECT_EQ(check.crc32,
              sums_of_many[static_cast<std::size_t>(twin - many.tensors().data())].crc32);
    EXPECT_FALSE(check.bad());
  }
}

TEST(SynthRoundTrip, SeedDecidesTheBytes) {
  const TempDir dir;
  const auto bytes_of = [&](const char* name, std::uint64_t seed) {
    synthesize(kFixtures / "kimi_linear", dir / name, {.seed = seed});
    return read_file(dir / name / "model.safetensors");
  };
  const std::string first = bytes_of("a", 1);
  EXPECT_EQ(first, bytes_of("b", 1));
  EXPECT_NE(first, bytes_of("c", 2));
}

TEST(SynthValues, HaveTheStatedSpread) {
  const TempDir dir;
  write_file(dir / "config.json", k3_like().dump());
  synthesize(dir / "config.json", dir / "out");
  const LoadedModel model = load_model(dir / "out");
  const auto& kda = std::get<KdaWeights>(model.weights.layers[0].mixer);
  const auto& moe = std::get<MoeWeights>(model.weights.layers[1].ffn);
  const auto spread = [](std::span<const float> values, double mean, double std) {
    double sum = 0;
    double squares = 0;
    for (float v : values) {
      sum += v;
      squares += (v - mean) * (v - mean);
    }
    const auto count = static_cast<double>(values.size());
    EXPECT_NEAR(sum / count, mean, 5 * std / std::sqrt(count));
    EXPECT_NEAR(std::sqrt(squares / count), std, 0.4 * std);
  };
  spread(model.weights.final_norm, 1.0, 0.1);
  spread(kda.dt_bias, -2.0, 1.0);
  spread(kda.q_conv, 0.0, 0.5);
  EXPECT_EQ(kda.a_log.size(), 2u);

  // An expert's decoded matrix: std gain / sqrt(columns), all sixteen codes in use.
  const WeightView& w1 = moe.experts[0].w1;
  ASSERT_EQ(w1.format, WeightFormat::kMxfp4);
  std::vector<float> values(static_cast<std::size_t>(w1.rows * w1.cols));
  for (std::int64_t r = 0; r < w1.rows; ++r) {
    decode_mxfp4_row(static_cast<const std::uint8_t*>(w1.data) + r * w1.row_bytes(),
                     w1.scales + r * w1.cols / 32, w1.cols, values.data() + r * w1.cols);
  }
  spread(values, 0.0, 2.0 / std::sqrt(static_cast<double>(w1.cols)));
}

TEST(SynthTokenizer, IsWrittenWhereItFits) {
  const TempDir dir;
  write_file(dir / "config.json", k3_like().dump());
  EXPECT_TRUE(synthesize(dir / "config.json", dir / "out").has_tokenizer);
  const std::string ranks = read_file(dir / "out" / "tiktoken.model");
  EXPECT_EQ(std::count(ranks.begin(), ranks.end(), '\n'), 480);
  EXPECT_TRUE(ranks.starts_with("AA== 0\nAQ== 1\n"));
  const auto tokenizer = nlohmann::json::parse(read_file(dir / "out" / "tokenizer_config.json"));
  EXPECT_EQ(tokenizer["added_tokens_decoder"]["482"]["content"], "<|end_of_msg|>");
  EXPECT_EQ(tokenizer["added_tokens_decoder"].size(), 32u);
  EXPECT_FALSE(synthesize(kFixtures / "k3", dir / "small").has_tokenizer);
  EXPECT_FALSE(std::filesystem::exists(dir / "small" / "tiktoken.model"));
}

// The old index would name the old shards: another model than the one just written.
TEST(SynthErrors, ADirectoryThatHoldsAModel) {
  const TempDir dir;
  synthesize(kFixtures / "k3", dir / "sharded", {.seed = 3, .num_shards = 3});
  const Error error = catch_error([&] { synthesize(kFixtures / "k3", dir / "sharded"); });
  EXPECT_EQ(error.code(), ErrorCode::kUsage);
  EXPECT_EQ(std::string(error.what()),
            (dir / "sharded").string() + " holds a model already; give an empty directory");
  for (const char* name : {"old.safetensors", "model.safetensors.index.json", "config.json"}) {
    std::filesystem::create_directory(dir / "one");
    write_file(dir / "one" / name, "{}");
    EXPECT_EQ(catch_error([&] { synthesize(kFixtures / "k3", dir / "one"); }).code(),
              ErrorCode::kUsage);
    std::filesystem::remove_all(dir / "one");
  }
  std::filesystem::create_directory(dir / "one");
  write_file(dir / "one" / "notes.txt", "x");
  EXPECT_NO_THROW(synthesize(kFixtures / "k3", dir / "one"));
}

TEST(SynthErrors, ADiskWithoutRoomIsSeenBeforeTheFirstByte) {
  const TempDir dir;
  nlohmann::json config = k3_like();
  config["text_config"]["vocab_size"] = 1 << 24;
  config["text_config"]["hidden_size"] = 1 << 20;  // 32 TiB a matrix
  write_file(dir / "config.json", config.dump());
  const Error error = catch_error([&] { synthesize(dir / "config.json", dir / "out"); });
  EXPECT_EQ(error.code(), ErrorCode::kDoesNotFit);
  EXPECT_THAT(error.what(),
              testing::ContainsRegex("out: [0-9]{14} bytes are to be written, [0-9]+ are free"));
  EXPECT_TRUE(std::filesystem::is_empty(dir / "out"));
}

TEST(SynthErrors, ShardsOutOfRange) {
  const TempDir dir;
  for (int shards : {0, -1, 8}) {
    EXPECT_EQ(catch_error([&] {
                synthesize(kFixtures / "k3", dir.path(), {.num_shards = shards});
              }).code(),
              ErrorCode::kUsage);
  }
}

}  // namespace
}  // namespace baltoro
