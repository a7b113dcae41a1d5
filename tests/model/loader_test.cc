// Binding: released names in each released shape, and files that must not bind. Shapes are
// absolute: two wrong ones that agree would pass a comparison of one with the other.
#include "model/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "io/test_files.h"
#include "paths.h"

namespace baltoro {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;

const std::filesystem::path kFixtures = test_data_dir() / "fixtures";

// A checkpoint of one file that tests may change tensor by tensor.
class EditedCheckpoint {
 public:
  struct Tensor {
    std::string dtype;
    std::vector<std::int64_t> shape;
    std::string bytes;
  };

  explicit EditedCheckpoint(const char* fixture) {
    std::filesystem::copy_file(kFixtures / fixture / "config.json", dir_ / "config.json");
    const std::string file = read_file(kFixtures / fixture / "model.safetensors");
    std::uint64_t length = 0;
    std::memcpy(&length, file.data(), 8);
    const json header = json::parse(file.substr(8, length));
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") continue;
      const std::uint64_t begin = entry["data_offsets"][0];
      const std::uint64_t end = entry["data_offsets"][1];
      tensors[name] = {entry["dtype"], entry["shape"],
                       file.substr(8 + length + begin, end - begin)};
    }
  }

  LoadedModel load(const Partition& partition = {}) {
    json header = json::object();
    std::string data;
    for (const auto& [name, tensor] : tensors) {
      header[name] = {{"dtype", tensor.dtype},
                      {"shape", tensor.shape},
                      {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
      data += tensor.bytes;
    }
    write_file(dir_ / "model.safetensors", safetensors_bytes(header.dump(), data));
    LoadOptions options;
    options.partition = partition;
    return load_model(dir_.path(), options);
  }
  void write_config(const std::string& text) { write_file(dir_ / "config.json", text); }
  Error load_error() {
    return catch_error([this] { load(); });
  }

  std::map<std::string, Tensor> tensors;

 private:
  TempDir dir_;
};

const std::string kLayer0 = "language_model.model.layers.0.";
const std::string kLayer1 = "language_model.model.layers.1.";

const KdaWeights& kda_of(const LoadedModel& model, std::size_t layer) {
  return std::get<KdaWeights>(model.weights.layers[layer].mixer);
}

std::vector<float> stored(const WeightVector& vector) {
  return {vector.values().begin(), vector.values().end()};
}

// Two models that a program could not tell apart.
void expect_same_kda(const KdaWeights& a, const KdaWeights& b) {
  EXPECT_EQ(stored(a.a_log), stored(b.a_log));
  EXPECT_EQ(stored(a.q_conv), stored(b.q_conv));
  EXPECT_EQ(stored(a.v_conv), stored(b.v_conv));
  EXPECT_EQ(stored(a.dt_bias), stored(b.dt_bias));
  EXPECT_EQ(stored(a.o_norm), stored(b.o_norm));
}

TEST(BindFixtures, EveryOneBindsWhole) {
  for (const auto& entry : std::filesystem::directory_iterator(kFixtures)) {
    for (LoadMode mode : {LoadMode::kCopy, LoadMode::kMap}) {
      LoadOptions options;
      options.mode = mode;
      const LoadedModel model = load_model(entry.path(), options);
      EXPECT_TRUE(model.report.unused.empty())
          << entry.path() << " " << testing::PrintToString(model.report.unused);
      EXPECT_EQ(model.weights.layers.size(), static_cast<std::size_t>(model.config.num_layers));
    }
  }
}

TEST(BindFixtures, ShapesOfK3) {
  const LoadedModel model = load_model(kFixtures / "k3");
  const KdaWeights& kda = kda_of(model, 0);
  EXPECT_EQ(kda.q_proj.rows, 64);
  EXPECT_EQ(kda.q_proj.cols, 64);
  EXPECT_EQ(kda.f_a_proj.rows, 32);
  EXPECT_EQ(kda.f_b_proj.rows, 64);
  EXPECT_EQ(kda.f_b_proj.cols, 32);
  EXPECT_EQ(kda.a_log.size(), 2u);
  EXPECT_EQ(kda.q_conv.size(), 64u * 4);
  EXPECT_EQ(kda.gate.full.rows, 64);
  EXPECT_FALSE(kda.gate.a);
  const auto& mla = std::get<MlaWeights>(model.weights.layers[4].mixer);
  EXPECT_EQ(mla.kv_a_proj.rows, 40 + 16);
  EXPECT_EQ(mla.kv_b_proj.rows, 2 * (24 + 16));
  const auto& moe = std::get<MoeWeights>(model.weights.layers[1].ffn);
  EXPECT_EQ(moe.experts.size(), 8u);
  EXPECT_EQ(moe.experts[7].w2.rows, 32);
  EXPECT_EQ(moe.experts[7].w2.format, WeightFormat::kMxfp4);
  EXPECT_EQ(moe.shared->gate.rows, 64);
  EXPECT_EQ(model.weights.layers[1].attn_res_ffn->proj.size(), 64u);
}

TEST(BindNames, WithAndWithoutTheTextPrefix) {
  EditedCheckpoint checkpoint("k3");
  const LoadedModel with_prefix = checkpoint.load();
  std::map<std::string, EditedCheckpoint::Tensor> renamed;
  for (const auto& [name, tensor] : checkpoint.tensors) {
    renamed[name.substr(std::strlen("language_model."))] = tensor;
  }
  checkpoint.tensors = renamed;
  const LoadedModel without = checkpoint.load();
  expect_same_kda(kda_of(with_prefix, 0), kda_of(without, 0));
  EXPECT_EQ(stored(with_prefix.weights.final_norm), stored(without.weights.final_norm));
}

TEST(BindConv, TwoAndThreeDimensions) {
  EditedCheckpoint checkpoint("k3");
  const LoadedModel three = checkpoint.load();
  for (const char* name : {"q_conv1d", "k_conv1d", "v_conv1d"}) {
    checkpoint.tensors[kLayer0 + "self_attn." + name + ".weight"].shape = {64, 4};
  }
  expect_same_kda(kda_of(checkpoint.load(), 0), kda_of(three, 0));
  checkpoint.tensors[kLayer0 + "self_attn.q_conv1d.weight"].shape = {4, 64};
  EXPECT_THAT(checkpoint.load_error().what(),
              HasSubstr("q_conv1d.weight: expected F32 or BF16 [64, 1, 4] or [64, 4], found F32 "
                        "[4, 64]"));
}

// A_log is per head; what pads it to the head width is never read, whatever it holds.
TEST(BindALog, EachReleasedShapeAndPaddingOfNan) {
  EditedCheckpoint checkpoint("k3");
  const std::string name = kLayer0 + "self_attn.A_log";
  EditedCheckpoint::Tensor& a_log = checkpoint.tensors[name];
  ASSERT_THAT(a_log.shape, ElementsAre(32));
  const LoadedModel padded = checkpoint.load();

  const std::uint32_t nan = 0x7fc00000u;
  for (std::size_t i = 2; i < 32; ++i) std::memcpy(a_log.bytes.data() + 4 * i, &nan, 4);
  const LoadedModel with_nan = checkpoint.load();
  expect_same_kda(kda_of(with_nan, 0), kda_of(padded, 0));
  for (float value : kda_of(with_nan, 0).a_log.values()) EXPECT_TRUE(std::isfinite(value));

  a_log.bytes.resize(8);
  a_log.shape = {2};
  expect_same_kda(kda_of(checkpoint.load(), 0), kda_of(padded, 0));
  a_log.shape = {1, 1, 2, 1};
  expect_same_kda(kda_of(checkpoint.load(), 0), kda_of(padded, 0));
  a_log.shape = {2, 1};
  EXPECT_THAT(checkpoint.load_error().what(),
              AllOf(HasSubstr("A_log"), HasSubstr("found F32 [2, 1]")));
}

TEST(BindDtypes, SmallTensorsWidenExactly) {
  EditedCheckpoint checkpoint("k3");
  const LoadedModel before = checkpoint.load();
  // F32 to BF16 is exact where the low half is zero: truncate first, then compare both forms.
  EditedCheckpoint::Tensor& bias = checkpoint.tensors[kLayer0 + "self_attn.dt_bias"];
  ASSERT_EQ(bias.dtype, "F32");
  std::string narrow;
  for (std::size_t i = 0; i < bias.bytes.size(); i += 4) {
    bias.bytes[i] = bias.bytes[i + 1] = 0;
    narrow += bias.bytes.substr(i + 2, 2);
  }
  const std::vector<float> wide = stored(kda_of(checkpoint.load(), 0).dt_bias);
  bias.bytes = narrow;
  bias.dtype = "BF16";
  EXPECT_EQ(stored(kda_of(checkpoint.load(), 0).dt_bias), wide);
}

TEST(BindErrors, MissingTensorsAreListedTwentyAndCounted) {
  EditedCheckpoint checkpoint("k3");
  std::erase_if(checkpoint.tensors, [](const auto& item) {
    return item.first.find("layers.2.block_sparse_moe.experts.") != std::string::npos;
  });
  checkpoint.tensors.erase(kLayer0 + "self_attn.dt_bias");
  const Error error = checkpoint.load_error();
  EXPECT_EQ(error.code(), ErrorCode::kBadModel);
  EXPECT_THAT(error.what(),
              AllOf(HasSubstr("25 tensors are missing"), HasSubstr("layers.0.self_attn.dt_bias"),
                    HasSubstr("experts.0.w1.weight"), HasSubstr("and 5 more")));
}

TEST(BindErrors, OtherShapesAreRefused) {
  const auto message_of = [](const std::string& name, std::vector<std::int64_t> shape) {
    EditedCheckpoint checkpoint("k3");
    EXPECT_TRUE(checkpoint.tensors.contains(name)) << name;
    checkpoint.tensors[name].shape = std::move(shape);
    const Error error = checkpoint.load_error();
    EXPECT_EQ(error.code(), ErrorCode::kBadModel);
    return std::string(error.what());
  };
  // A gate bottleneck of the wrong width, transposed; a score vector taken for a matrix of
  // block_size outputs; an expert transposed.
  EXPECT_THAT(message_of(kLayer1 + "self_attn.f_b_proj.weight", {32, 64}),
              HasSubstr("layers.1.self_attn.f_b_proj.weight: expected BF16 [64, 32], found BF16 "
                        "[32, 64]"));
  EXPECT_THAT(message_of(kLayer1 + "mlp_res_proj.weight", {2, 32}),
              HasSubstr("mlp_res_proj.weight: expected F32 or BF16 [1, 64] or [64], found BF16 "
                        "[2, 32]"));
  EXPECT_THAT(message_of(kLayer1 + "block_sparse_moe.experts.3.w1.weight_packed", {16, 32}),
              HasSubstr("experts.3.w1.weight_packed: expected U8 [32, 16], found U8 [16, 32]"));
  EXPECT_THAT(message_of(kLayer1 + "self_attn.o_norm.weight", {1, 32}),
              HasSubstr("o_norm.weight: expected F32 or BF16 [32], found F32 [1, 32]"));
}

TEST(BindErrors, OtherDtypesAreRefused) {
  EditedCheckpoint checkpoint("k3");
  EditedCheckpoint::Tensor& q = checkpoint.tensors[kLayer0 + "self_attn.q_proj.weight"];
  q.dtype = "U8";
  q.shape = {64, 64};
  q.bytes.resize(64 * 64);
  EXPECT_THAT(checkpoint.load_error().what(),
              HasSubstr("q_proj.weight: expected BF16 [64, 64], found U8 [64, 64]"));
}

// Quantised or not is decided by the tensors present, and they must be unambiguous.
TEST(BindErrors, HalfOfAPackedMatrixAndBothForms) {
  EditedCheckpoint checkpoint("k3");
  const std::string expert = kLayer1 + "block_sparse_moe.experts.3.w2";
  const EditedCheckpoint::Tensor scales = checkpoint.tensors[expert + ".weight_scale"];
  checkpoint.tensors.erase(expert + ".weight_scale");
  EXPECT_THAT(checkpoint.load_error().what(),
              HasSubstr("1 tensor is missing: language_model.model.layers.1.block_sparse_moe."
                        "experts.3.w2.weight_scale"));
  checkpoint.tensors[expert + ".weight_scale"] = scales;
  checkpoint.tensors[expert + ".weight"] = {"BF16", {32, 32}, std::string(32 * 32 * 2, '\0')};
  EXPECT_THAT(checkpoint.load_error().what(),
              HasSubstr("both weight and weight_packed are present"));
}

// The dtype of the codes says which format they are of; a shape of the other one is refused.
TEST(BindPacked, SignedCodesAreMxint8) {
  EditedCheckpoint checkpoint("k3");
  const std::string name = kLayer0 + "self_attn.q_proj";
  checkpoint.tensors.erase(name + ".weight");
  checkpoint.tensors[name + ".weight_packed"] = {"I8", {64, 64}, std::string(64 * 64, '\x40')};
  checkpoint.tensors[name + ".weight_scale"] = {"U8", {64, 2}, std::string(64 * 2, '\x7f')};
  const LoadedModel model = checkpoint.load();
  const WeightView& q = kda_of(model, 0).q_proj;
  EXPECT_EQ(q.format, WeightFormat::kMxint8);
  EXPECT_EQ(q.cols, 64);
  EXPECT_EQ(q.row_bytes(), 64);
  EXPECT_EQ(q.scales[127], 0x7f);
  EXPECT_EQ(kda_of(checkpoint.load({1, 2}), 0).q_proj.rows, 32);

  checkpoint.tensors[name + ".weight_packed"].dtype = "U8";
  EXPECT_THAT(checkpoint.load_error().what(),
              HasSubstr("q_proj.weight_packed: expected U8 [64, 32], found U8 [64, 64]"));
  checkpoint.tensors[name + ".weight_packed"] = {"I8", {64, 32}, std::string(64 * 32, '\x40')};
  EXPECT_THAT(checkpoint.load_error().what(),
              HasSubstr("q_proj.weight_packed: expected I8 [64, 64], found I8 [64, 32]"));
}

TEST(BindErrors, AFusedMatrixUnderItsHalfsNameIsRefused) {
  // Value heads of another width than the configuration says: a load error, not a reshape.
  EditedCheckpoint checkpoint("k3");
  EditedCheckpoint::Tensor& v = checkpoint.tensors[kLayer0 + "self_attn.v_proj.weight"];
  v.shape = {128, 64};
  v.bytes += v.bytes;
  EXPECT_THAT(checkpoint.load_error().what(),
              HasSubstr("v_proj.weight: expected BF16 [64, 64], found BF16 [128, 64]"));
}

// A key that is absent selects another form; the weights then say that it should not be.
TEST(BindErrors, WeightsThatTheConfigurationIgnores) {
  const auto message_without = [](const char* key, const char* section) {
    EditedCheckpoint checkpoint("k3");
    json config = json::parse(read_file(kFixtures / "k3" / "config.json"));
    json& text = config["text_config"];
    EXPECT_EQ((section == nullptr ? text : text[section]).erase(key), 1u);
    checkpoint.write_config(config.dump());
    const Error error = checkpoint.load_error();
    EXPECT_EQ(error.code(), ErrorCode::kBadModel);
    return std::string(error.what());
  };
  EXPECT_THAT(message_without("mla_use_output_gate", nullptr),
              AllOf(HasSubstr("no use for 2 tensors"), HasSubstr("layers.3.self_attn.g_proj")));
  EXPECT_THAT(message_without("attn_res_block_size", nullptr),
              AllOf(HasSubstr("no use for 22 tensors"), HasSubstr("self_attention_res_norm"),
                    HasSubstr(" and 19 more; it does not describe"), HasSubstr("baltoro-")));
  EXPECT_THAT(message_without("q_lora_rank", nullptr), HasSubstr("layers.3.self_attn.q_proj"));
  EXPECT_THAT(message_without("use_full_rank_gate", "linear_attn_config"),
              HasSubstr("layers.0.self_attn.g_a_proj"));

  EditedCheckpoint checkpoint("k3");
  checkpoint.tensors[kLayer0 + "self_attn.g_proj.bias"] = {"F32", {1}, "1234"};
  EXPECT_THAT(checkpoint.load_error().what(), HasSubstr("layers.0.self_attn.g_proj.bias"));
}

TEST(BindReportOf, UnusedAndVisionTensors) {
  EditedCheckpoint checkpoint("k3");
  checkpoint.tensors["language_model.model.layers.5.self_attn.q_proj.weight"] = {
      "F32", {1}, "1234"};
  checkpoint.tensors["vision_tower.encoder.blocks.0.norm0.weight"] = {"BF16", {2}, "1234"};
  checkpoint.tensors["mm_projector.proj.0.weight"] = {"BF16", {2}, "1234"};
  const LoadedModel model = checkpoint.load();
  EXPECT_THAT(model.report.unused,
              ElementsAre("language_model.model.layers.5.self_attn.q_proj.weight"));
  EXPECT_EQ(model.report.num_vision, 2);
}

// Rank r of 4 has heads 24 r .. 24 r + 23 of 96, also of a vector padded to 128; here 2 of 2 heads.
TEST(BindPartition, RanksTogetherAreTheModel) {
  EditedCheckpoint checkpoint("k3");
  const LoadedModel whole = checkpoint.load();
  const LoadedModel parts[] = {checkpoint.load({0, 2}), checkpoint.load({1, 2})};
  const KdaWeights& all = kda_of(whole, 0);
  const auto bytes = [](const WeightView& view) {
    return std::string(static_cast<const char*>(view.data),
                       static_cast<std::size_t>(view.rows * view.row_bytes()));
  };
  std::string rows;
  for (int rank = 0; rank < 2; ++rank) {
    const KdaWeights& part = kda_of(parts[rank], 0);
    EXPECT_THAT(stored(part.a_log),
                ElementsAre(all.a_log.values()[static_cast<std::size_t>(rank)]));
    EXPECT_THAT(stored(part.q_conv), ElementsAreArray(all.q_conv.values().subspan(
                                         static_cast<std::size_t>(rank) * 128, 128)));
    EXPECT_EQ(bytes(part.f_a_proj), bytes(all.f_a_proj));
    rows += bytes(part.q_proj);
    // Columns [32 rank, 32 rank + 32) of each row.
    ASSERT_EQ(part.o_proj.rows, 64);
    ASSERT_EQ(part.o_proj.cols, 32);
    for (std::int64_t r = 0; r < 64; ++r) {
      EXPECT_EQ(std::memcmp(static_cast<const char*>(part.o_proj.data) + r * 64,
                            static_cast<const char*>(all.o_proj.data) + r * 128 + rank * 64, 64),
                0);
    }
    const auto& moe = std::get<MoeWeights>(parts[rank].weights.layers[1].ffn);
    EXPECT_EQ(moe.first_expert, 4 * rank);
    EXPECT_EQ(moe.experts.size(), 4u);
    EXPECT_EQ(moe.router.rows, 8);
    EXPECT_TRUE(parts[rank].report.unused.empty());
  }
  EXPECT_EQ(rows, bytes(all.q_proj));
  EXPECT_EQ(parts[1].weights.lm_head.rows, 48);
  EXPECT_EQ(parts[1].weights.embed.rows, 96);
}

TEST(BindPartition, MustDivideTheModel) {
  for (const Partition& partition : {Partition{0, 3}, Partition{2, 2}, Partition{0, 0}}) {
    EXPECT_EQ(catch_error([&] { EditedCheckpoint("k3").load(partition); }).code(),
              ErrorCode::kUsage);
  }
}

TEST(BindTied, LmHeadIsTheEmbedding) {
  EditedCheckpoint checkpoint("k3");
  checkpoint.tensors.erase("language_model.lm_head.weight");
  EXPECT_THAT(checkpoint.load_error().what(), HasSubstr("lm_head.weight"));
  json config = json::parse(read_file(kFixtures / "k3" / "config.json"));
  config["text_config"]["tie_word_embeddings"] = true;
  checkpoint.write_config(config.dump());
  const LoadedModel model = checkpoint.load();
  EXPECT_EQ(model.weights.lm_head.data, model.weights.embed.data);
  EXPECT_EQ(model.weights.lm_head.rows, 96);
}

// A head of its own beside tied embeddings would be ignored: fluent, and wrong.
TEST(BindTied, AHeadBesideItMustBeTheSame) {
  EditedCheckpoint checkpoint("k3");
  json config = json::parse(read_file(kFixtures / "k3" / "config.json"));
  config["text_config"]["tie_word_embeddings"] = true;
  checkpoint.write_config(config.dump());
  const std::string head = "language_model.lm_head.weight";
  checkpoint.tensors[head] = checkpoint.tensors["language_model.model.embed_tokens.weight"];
  EXPECT_TRUE(checkpoint.load().report.unused.empty());
  checkpoint.tensors[head].bytes.back() ^= 1;
  const Error error = checkpoint.load_error();
  EXPECT_EQ(error.code(), ErrorCode::kBadModel);
  EXPECT_THAT(error.what(), AllOf(HasSubstr(head + ": differs from language_model.model.embed"),
                                  HasSubstr("tie_word_embeddings is true")));
}

// The absorbed form and the lookup read rows as numbers.
TEST(BindErrors, MatricesThatCannotBePacked) {
  for (const std::string& name : {std::string("language_model.model.layers.4.self_attn.kv_b_proj"),
                                  std::string("language_model.model.embed_tokens")}) {
    EditedCheckpoint checkpoint("k3");
    const EditedCheckpoint::Tensor plain = checkpoint.tensors.at(name + ".weight");
    checkpoint.tensors.erase(name + ".weight");
    const std::int64_t rows = plain.shape[0];
    checkpoint.tensors[name + ".weight_packed"] = {
        "U8", {rows, 32}, std::string(static_cast<std::size_t>(rows) * 32, '\0')};
    checkpoint.tensors[name + ".weight_scale"] = {
        "U8", {rows, 2}, std::string(static_cast<std::size_t>(rows) * 2, '\x7f')};
    const Error error = checkpoint.load_error();
    EXPECT_EQ(error.code(), ErrorCode::kBadModel);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr(name + ".weight_packed: packed weights are not supported"),
                      testing::Not(HasSubstr("missing"))));
  }
}

TEST(LoadModel, AFileIsNoDirectory) {
  const std::filesystem::path file = kFixtures / "k3" / "config.json";
  const Error error = catch_error([&] { load_model(file); });
  EXPECT_EQ(error.code(), ErrorCode::kBadModel);
  EXPECT_THAT(error.what(), HasSubstr("config.json is a file; give the model's directory"));
}

// An expert that no prompt chooses can hold NaN for a long time.
TEST(LoadModel, AScaleOf255IsFoundWhereItIsCopied) {
  EditedCheckpoint checkpoint("k3");
  const std::string name = kLayer1 + "block_sparse_moe.experts.3.w2.weight_scale";
  checkpoint.tensors.at(name).bytes[5] = '\xff';
  const Error error = checkpoint.load_error();
  EXPECT_EQ(error.code(), ErrorCode::kBadModel);
  EXPECT_THAT(error.what(), HasSubstr("tensor " + name + ": the scale at offset 5 is 255"));
}

}  // namespace
}  // namespace baltoro
