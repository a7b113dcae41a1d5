// Directories of shards: what index, headers and files say must agree.
#include "io/checkpoint_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "io/test_files.h"
#include "paths.h"

namespace baltoro {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kIndex = "model.safetensors.index.json";

std::string one_tensor(const std::string& name, const std::string& data) {
  return safetensors_bytes("{\"" + name + "\":{\"dtype\":\"U8\",\"shape\":[" +
                               std::to_string(data.size()) + "],\"data_offsets\":[0," +
                               std::to_string(data.size()) + "]}}",
                           data);
}

// Two shards, x with "abc" and y with "defgh".
void write_shards(const TempDir& dir) {
  write_file(dir / "1.safetensors", one_tensor("x", "abc"));
  write_file(dir / "2.safetensors", one_tensor("y", "defgh"));
  write_file(
      dir / kIndex,
      R"({"metadata":{"total_size":8},"weight_map":{"x":"1.safetensors","y":"2.safetensors"}})");
}

Error open_error(const std::filesystem::path& path) {
  return catch_error([&] { CheckpointFiles files(path); });
}

TEST(ShardedCheckpoint, FindsTensorsByName) {
  const TempDir dir;
  write_shards(dir);
  const CheckpointFiles files(dir.path());
  EXPECT_EQ(files.total_bytes(), 8u);
  EXPECT_EQ(files.find("z"), nullptr);
  const TensorInfo* y = files.find("y");
  ASSERT_NE(y, nullptr);
  EXPECT_EQ(files.file_name(*y), "2.safetensors");
  std::string data(5, ' ');
  files.files()[y->file].read(y->offset, std::as_writable_bytes(std::span(data)));
  EXPECT_EQ(data, "defgh");
}

// A reader that sizes something as zero shows here.
TEST(ShardedCheckpoint, TensorBytesEqualFileBytesLessHeaders) {
  const CheckpointFiles files(test_data_dir() / "fixtures" / "k3");
  std::uint64_t file_bytes = 0;
  for (const FileReader& file : files.files()) {
    std::uint64_t header = 0;
    file.read(0, std::as_writable_bytes(std::span(&header, 1)));
    file_bytes += file.size() - 8 - header;
  }
  for (const FileHole& hole : files.holes()) file_bytes -= hole.hole.bytes;
  EXPECT_EQ(files.total_bytes(), file_bytes);
}

TEST(SingleFileCheckpoint, ByFileOrByDirectory) {
  const TempDir dir;
  write_file(dir / "other.safetensors", one_tensor("x", "abc"));
  EXPECT_NE(CheckpointFiles(dir.path()).find("x"), nullptr);
  EXPECT_NE(CheckpointFiles(dir / "other.safetensors").find("x"), nullptr);
  write_file(dir / "another.safetensors", one_tensor("y", "abc"));
  EXPECT_THAT(open_error(dir.path()).what(), HasSubstr("2 .safetensors files"));
  write_file(dir / "model.safetensors", one_tensor("z", "abc"));
  EXPECT_NE(CheckpointFiles(dir.path()).find("z"), nullptr);
}

TEST(BrokenCheckpoint, MissingDirectoryAndShards) {
  const TempDir dir;
  const Error absent = open_error(dir / "absent");
  EXPECT_EQ(absent.code(), ErrorCode::kBadModel);
  EXPECT_THAT(absent.what(), HasSubstr("absent: no such directory; give a checkpoint's directory"));
  const Error empty = open_error(dir.path());
  EXPECT_EQ(empty.code(), ErrorCode::kBadModel);
  EXPECT_THAT(empty.what(), HasSubstr("no .safetensors file; fetch the checkpoint's weights"));
  write_shards(dir);
  std::filesystem::remove(dir / "1.safetensors");
  EXPECT_THAT(open_error(dir.path()).what(),
              HasSubstr("1 of 2 shards is missing: 1.safetensors; fetch it again"));
  std::filesystem::remove(dir / "2.safetensors");
  const Error error = open_error(dir.path());
  EXPECT_EQ(error.code(), ErrorCode::kBadModel);
  EXPECT_THAT(error.what(), HasSubstr("2 of 2 shards are missing: 1.safetensors, 2.safetensors; "
                                      "fetch them again"));
}

TEST(BrokenCheckpoint, IndexAndFilesDisagree) {
  const auto error_with_index = [](const char* index) {
    const TempDir dir;
    write_shards(dir);
    write_file(dir / kIndex, index);
    const Error error = open_error(dir.path());
    EXPECT_EQ(error.code(), ErrorCode::kBadModel) << error.what();
    return std::string(error.what());
  };
  EXPECT_THAT(error_with_index(R"({"weight_map":{"x":"2.safetensors","y":"1.safetensors"}})"),
              HasSubstr("but it stands in"));
  EXPECT_THAT(
      error_with_index(
          R"({"weight_map":{"x":"1.safetensors","y":"2.safetensors","z":"2.safetensors"}})"),
      HasSubstr("1 tensor of the index stands in none of its files: z"));
  EXPECT_THAT(error_with_index(R"({"weight_map":{"x":"1.safetensors","x":"2.safetensors"}})"),
              HasSubstr("tensor x stands twice in weight_map"));
  EXPECT_THAT(error_with_index(
                  R"({"metadata":{"total_size":9},
                      "weight_map":{"x":"1.safetensors","y":"2.safetensors"}})"),
              AllOf(HasSubstr("total_size is 9"), HasSubstr("8 bytes")));
  EXPECT_THAT(error_with_index(R"({"weight_map":{"x":"../1.safetensors"}})"),
              HasSubstr("not a plain name"));
  EXPECT_THAT(error_with_index(R"({"weight_map":{"x":""}})"), HasSubstr("not a plain name"));
  EXPECT_THAT(error_with_index(R"({"weight_map":{"x":1}})"), HasSubstr("expected a file name"));
  EXPECT_THAT(error_with_index(R"({"weight_map":[]})"), HasSubstr("weight_map"));
  EXPECT_THAT(error_with_index(R"({"metadata":{}})"), HasSubstr("weight_map is missing"));
  EXPECT_THAT(error_with_index("[1]"), HasSubstr("expected an object"));
  EXPECT_THAT(error_with_index("{\"weight_map\":{\n\"x\":"), HasSubstr("line 2"));
}

TEST(BrokenCheckpoint, OneTensorInTwoFiles) {
  const TempDir dir;
  write_shards(dir);
  write_file(dir / "2.safetensors", one_tensor("x", "defgh"));
  const Error error = open_error(dir.path());
  EXPECT_EQ(error.code(), ErrorCode::kBadModel);
  EXPECT_THAT(error.what(), HasSubstr("tensor x stands in two files"));
}

TEST(BrokenCheckpoint, TensorsThatTheIndexDoesNotList) {
  const TempDir dir;
  write_shards(dir);
  write_file(dir / "2.safetensors",
             safetensors_bytes(R"({"y":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},
                                   "w":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
                               "abcd"));
  EXPECT_THAT(open_error(dir.path()).what(),
              HasSubstr("1 tensor of the files is not in the index: w"));
}

// K3's index has half a million entries: a quadratic step would take hours, here minutes.
TEST(LargeIndex, IsReadInLinearTime) {
  std::string text = R"({"metadata":{"total_size":1},"weight_map":{)";
  constexpr int kEntries = 100'000;
  for (int i = 0; i < kEntries; ++i) {
    text += (i == 0 ? "\"" : ",\"") + std::string("language_model.model.layers.") +
            std::to_string(i / 5376) + ".block_sparse_moe.experts." + std::to_string(i) +
            ".w1.weight_packed\":\"model-000" + std::to_string(10 + i % 90) +
            "-of-000096.safetensors\"";
  }
  text += "}}";
  const auto start = std::chrono::steady_clock::now();
  const SafetensorsIndex index = parse_safetensors_index(text, "index");
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(index.file_of_tensor.size(), static_cast<std::size_t>(kEntries));
  EXPECT_EQ(index.files.size(), 90u);
  // Generous: sanitizers and a busy machine.
  EXPECT_LT(seconds.count(), 30.0);
}

}  // namespace
}  // namespace baltoro
