// Where weights lie: every mode gives the same bytes, slices are the right ones, offsets beyond 32
// bits hold.
#include "io/weight_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>

#include "io/safetensors_writer.h"
#include "io/test_files.h"

namespace baltoro {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Bytes whose row and column can be told from each other.
std::string matrix_bytes(std::int64_t rows, std::int64_t cols) {
  std::string bytes(static_cast<std::size_t>(rows * cols), ' ');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 31 + i / 251);
  return bytes;
}

// A U8 matrix [rows, cols] behind another tensor.
void write_matrix(const std::filesystem::path& path, std::int64_t rows, std::int64_t cols) {
  SafetensorsWriter writer(path, {{"other", DType::kU8, {3}}, {"m", DType::kU8, {rows, cols}}});
  const std::string bytes = "xyz" + matrix_bytes(rows, cols);
  writer.write(std::as_bytes(std::span(bytes)));
  writer.finish();
}

WeightStoreOptions mapped(bool is_mapped) { return {.maps = is_mapped ? map_all : nullptr}; }

// Copied or mapped.
class EachPlace : public testing::TestWithParam<bool> {};

TEST_P(EachPlace, SlicesHoldTheirBytes) {
  const TempDir dir;
  constexpr std::int64_t kRows = 2100;
  constexpr std::int64_t kCols = 4099;  // odd, and more than one job of 8 MiB in all
  write_matrix(dir / "model.safetensors", kRows, kCols);
  const std::string expected = matrix_bytes(kRows, kCols);
  WeightStore store(dir.path(), mapped(GetParam()));
  const TensorInfo& m = *store.find("m");
  EXPECT_EQ(WeightStore::row_bytes(m), kCols);

  const TensorSlice slices[] = {{0, kRows, 0, kCols}, {17, 2000, 0, kCols}, {0, kRows, 5, 64},
                                {1, 2098, 4098, 1},   {2099, 1, 0, kCols},  {0, 0, 0, kCols}};
  std::vector<const std::byte*> placed;
  for (const TensorSlice& slice : slices) placed.push_back(store.place(m, slice));
  std::uint64_t last_done = 0;
  std::uint64_t total = 0;
  store.load([&](std::uint64_t done, std::uint64_t all) {
    EXPECT_GT(done, last_done);
    last_done = done;
    total = all;
  });
  EXPECT_EQ(last_done, total);
  for (std::size_t i = 0; i < placed.size(); ++i) {
    const TensorSlice& slice = slices[i];
    std::int64_t wrong = 0;
    for (std::int64_t r = 0; r < slice.num_rows; ++r) {
      const std::int64_t at = (slice.first_row + r) * kCols + slice.first_byte;
      wrong += std::memcmp(placed[i] + r * slice.num_bytes, expected.data() + at,
                           static_cast<std::size_t>(slice.num_bytes)) != 0;
    }
    EXPECT_EQ(wrong, 0) << "slice " << i;
  }
  if (!GetParam()) {
    EXPECT_EQ(store.mapped_bytes(), 0u);
    for (const std::byte* address : placed) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(address) % 64, 0u);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Mapped, EachPlace, testing::Bool());

// One of two tensors stays in the file, and only it can be found there.
TEST(WeightStorePlace, IsDecidedByTensor) {
  const TempDir dir;
  write_matrix(dir / "model.safetensors", 4, 4);
  for (bool spare : {false, true}) {
    WeightStore store(dir.path(), {.maps = [](const TensorInfo& t) { return t.name == "m"; },
                                   .spare_page_cache = spare});
    const std::byte* const other = store.place(*store.find("other"));
    const std::byte* const m = store.place(*store.find("m"));
    store.load();
    EXPECT_EQ(store.copied_bytes(), 3u);
    EXPECT_EQ(store.mapped_bytes(), 16u);
    EXPECT_EQ(std::memcmp(other, "xyz", 3), 0);
    EXPECT_EQ(std::memcmp(m, matrix_bytes(4, 4).data(), 16), 0);
    EXPECT_FALSE(store.locate(other, 3));
    const auto range = store.locate(m + 4, 8);
    ASSERT_TRUE(range);
    EXPECT_EQ(range->file, store.files().files().data());
    EXPECT_EQ(range->offset, store.find("m")->offset + 4);
    EXPECT_EQ(range->bytes, 8u);
  }
}

// A scale of 255 is NaN: found while loading, whole or as a slice, and only among scales.
TEST(ScalesOf255, AreRefusedWhenCopied) {
  const TempDir dir;
  constexpr std::int64_t kRows = 3000;
  constexpr std::int64_t kCols = 4096;  // more than one job of 8 MiB
  std::string bytes(static_cast<std::size_t>(kRows * kCols), '\x7f');
  const auto load = [&](const char* name, const TensorSlice& slice, bool is_mapped) {
    SafetensorsWriter writer(dir / "model.safetensors",
                             {{"other", DType::kU8, {3}}, {name, DType::kU8, {kRows, kCols}}});
    writer.write(std::as_bytes(std::span("\xff\xff\xff", 3)));
    writer.write(std::as_bytes(std::span(bytes)));
    writer.finish();
    WeightStore store(dir.path(), mapped(is_mapped));
    store.place(*store.find("other"));
    store.place(*store.find(name), slice);
    store.load();
  };
  const TensorSlice whole = {0, kRows, 0, kCols};
  EXPECT_NO_THROW(load("e.w1.weight_scale", whole, false));
  bytes[2500 * kCols + 17] = '\xff';
  EXPECT_NO_THROW(load("e.w1.weight_packed", whole, false));
  EXPECT_NO_THROW(load("e.w1.weight_scale", {0, 2500, 0, kCols}, false));
  EXPECT_NO_THROW(load("e.w1.weight_scale", whole, true));
  for (const TensorSlice& slice : {whole, TensorSlice{2000, 1000, 0, 64}}) {
    const Error error = catch_error([&] { load("e.w1.weight_scale", slice, false); });
    EXPECT_EQ(error.code(), ErrorCode::kBadModel);
    EXPECT_THAT(error.what(), HasSubstr("tensor e.w1.weight_scale: the scale at offset 10240017 is "
                                        "255"));
  }
}

TEST(WeightStoreSlice, OutsideOfTheTensorIsInternal) {
  const TempDir dir;
  write_matrix(dir / "model.safetensors", 4, 8);
  WeightStore store(dir.path());
  const TensorInfo& m = *store.find("m");
  const TensorSlice slices[] = {{0, 5, 0, 8}, {4, 1, 0, 8},  {-1, 1, 0, 8},
                                {0, 4, 1, 8}, {0, 4, -1, 4}, {0, -1, 0, 8}};
  for (const TensorSlice& slice : slices) {
    EXPECT_EQ(catch_error([&] { store.place(m, slice); }).code(), ErrorCode::kInternal);
  }
  EXPECT_EQ(catch_error([&] { store.read_f32(*store.find("other"), 2, 2); }).code(),
            ErrorCode::kInternal);
}

TEST(WidenedVectors, AreExact) {
  const TempDir dir;
  SafetensorsWriter writer(dir / "model.safetensors", {{"f32", DType::kF32, {2}},
                                                       {"bf16", DType::kBf16, {3}},
                                                       {"f16", DType::kF16, {4}},
                                                       {"u8", DType::kU8, {1}}});
  const float f32[] = {1.1f, -2.5e-39f};
  const std::uint16_t bf16[] = {0x3f80, 0xc049, 0x0001};
  const std::uint16_t f16[] = {0x3c00, 0x0001, 0xfbff, 0x7c00};
  writer.write(std::as_bytes(std::span(f32)));
  writer.write(std::as_bytes(std::span(bf16)));
  writer.write(std::as_bytes(std::span(f16)));
  writer.write(std::as_bytes(std::span("x", 1)));
  writer.finish();
  const WeightStore store(dir.path());
  EXPECT_THAT(store.read_f32(*store.find("f32"), 0, 2), ElementsAre(1.1f, -2.5e-39f));
  EXPECT_THAT(store.read_f32(*store.find("bf16"), 1, 2), ElementsAre(-3.140625f, 0x1p-133f));
  EXPECT_THAT(store.read_f32(*store.find("f16"), 0, 4),
              ElementsAre(1.0f, 0x1p-24f, -65504.0f, INFINITY));
  EXPECT_EQ(catch_error([&] { store.read_f32(*store.find("u8"), 0, 1); }).code(),
            ErrorCode::kInternal);
}

// 32-bit byte offsets break at expert 123 of K3 (17,547,264 bytes each); here the file is sparse.
class SparseExperts : public testing::Test {
 protected:
  static constexpr std::int64_t kExpertBytes = 17'547'264;

  void SetUp() override {
    const std::string header =
        "{\"experts\":{\"dtype\":\"U8\",\"shape\":[250,17547264],\"data_offsets\":[0,4386816000]}}";
    const std::string bytes = safetensors_bytes(header, "");
    write_file(path_, bytes);
    std::filesystem::resize_file(path_, bytes.size() + 4386816000u);
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    for (std::int64_t expert : {122, 123, 244, 245, 249}) {
      file.seekp(static_cast<std::streamoff>(bytes.size()) + expert * kExpertBytes);
      file.put(static_cast<char>(expert));
    }
  }

  TempDir dir_;
  std::filesystem::path path_ = dir_ / "model.safetensors";
};

TEST_F(SparseExperts, OffsetsAreOf64Bits) {
  for (bool is_mapped : {true, false}) {
    WeightStore store(path_, mapped(is_mapped));
    const TensorInfo& experts = *store.find("experts");
    std::vector<const std::byte*> heads;
    for (std::int64_t expert : {122, 123, 244, 245, 249}) {
      // Rows of the map are whole; the copies take a row's first bytes alone.
      const std::int64_t bytes = is_mapped ? kExpertBytes : 16;
      heads.push_back(store.place(experts, {expert, 1, 0, bytes}));
    }
    store.load();
    EXPECT_EQ(static_cast<int>(*heads[0]), 122);
    EXPECT_EQ(static_cast<int>(*heads[1]), 123);
    EXPECT_EQ(static_cast<int>(*heads[2]), 244);
    EXPECT_EQ(static_cast<int>(*heads[3]), 245);
    EXPECT_EQ(static_cast<int>(*heads[4]), 249);
  }
}

TEST(IndexWidth, RowSlicesBeyond2To31) {
  // Logits-sized and expert-sized matrices: addresses only, nothing is touched.
  const auto offset_of = [](WeightFormat format, std::int64_t cols, std::int64_t row) {
    WeightView view;
    view.format = format;
    view.rows = row + 2;
    view.cols = cols;
    view.data = reinterpret_cast<const void*>(std::uintptr_t{64});
    const WeightView slice = view.slice_rows(row, 1);
    return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(slice.data)) - 64;
  };
  for (std::int64_t delta : {-1, 0, 1}) {
    EXPECT_EQ(offset_of(WeightFormat::kF32, 163840, 13108 + delta), (13108 + delta) * 655360);
    EXPECT_EQ(offset_of(WeightFormat::kBf16, 96 * 128, 174763 + delta), (174763 + delta) * 24576);
    EXPECT_EQ(offset_of(WeightFormat::kMxfp4, 16 * 3584, 74899 + delta), (74899 + delta) * 28672);
  }
}

}  // namespace
}  // namespace baltoro
