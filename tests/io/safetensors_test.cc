// Hostile and damaged containers: each fault is a typed error that names the tensor, before any
// data is used.
#include "io/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/safetensors_writer.h"
#include "io/test_files.h"

namespace baltoro {
namespace {

using testing::HasSubstr;

SafetensorsHeader parse(const std::string& header, std::uint64_t data_bytes) {
  return parse_safetensors_header(header, 100, 100 + data_bytes, "model.safetensors");
}

TEST(SafetensorsHeader, OfTwoTensors) {
  const SafetensorsHeader header = parse(
      R"({"__metadata__":{"format":"pt"},
          "b":{"dtype":"F32","shape":[3],"data_offsets":[12,24]},
          "a":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]}}   )",
      24);
  ASSERT_EQ(header.tensors.size(), 2u);
  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_EQ(header.tensors[0].dtype, DType::kBf16);
  EXPECT_EQ(header.tensors[0].shape, (Shape{2, 3}));
  EXPECT_EQ(header.tensors[0].offset, 100u);
  EXPECT_EQ(header.tensors[1].name, "b");
  EXPECT_EQ(header.tensors[1].offset, 112u);
  EXPECT_EQ(header.tensors[1].bytes, 12u);
  EXPECT_TRUE(header.holes.empty());
}

TEST(SafetensorsHeader, HolesAreReportedNotRefused) {
  const SafetensorsHeader header = parse(
      R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[2,6]},
          "b":{"dtype":"U8","shape":[4],"data_offsets":[8,12]}})",
      20);
  ASSERT_EQ(header.holes.size(), 3u);
  EXPECT_EQ(header.holes[0].offset, 100u);
  EXPECT_EQ(header.holes[0].bytes, 2u);
  EXPECT_EQ(header.holes[1].bytes, 2u);
  EXPECT_EQ(header.holes[2].offset, 112u);
  EXPECT_EQ(header.holes[2].bytes, 8u);
}

TEST(SafetensorsHeader, ScalarsAndEmptyTensors) {
  const SafetensorsHeader header = parse(
      R"({"scalar":{"dtype":"I32","shape":[],"data_offsets":[0,4]},
          "empty":{"dtype":"F16","shape":[0,7],"data_offsets":[4,4]}})",
      4);
  EXPECT_EQ(header.tensors.size(), 2u);
}

struct WrongHeader {
  const char* name;
  const char* header;
  std::uint64_t data_bytes;
  const char* telling;
};

class WrongHeaderTest : public testing::TestWithParam<WrongHeader> {};

TEST_P(WrongHeaderTest, IsABadModelAndSaysWhy) {
  const Error error = catch_error([] { parse(GetParam().header, GetParam().data_bytes); });
  EXPECT_EQ(error.code(), ErrorCode::kBadModel);
  EXPECT_THAT(error.what(), HasSubstr("model.safetensors"));
  EXPECT_THAT(error.what(), HasSubstr(GetParam().telling));
}

const WrongHeader kWrongHeaders[] = {
    {"DuplicateName",
     R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},
         "a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
     2, "tensor a: the name stands twice"},
    {"Overlap",
     R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},
         "b":{"dtype":"U8","shape":[4],"data_offsets":[3,7]}})",
     8, "tensor b: its bytes overlap those of tensor a"},
    {"SameBytesTwice",
     R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},
         "b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
     4, "overlap"},
    {"OutOfTheFile", R"({"a":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}})", 8,
     "tensor a: bytes [0, 9) lie outside of the file's 8 data bytes"},
    {"OffsetsBeyond64Bits",
     R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[18446744073709551612,18446744073709551616]}})",
     8, "tensor a"},
    {"FarOutOfTheFile",
     R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[18446744073709551610,18446744073709551614]}})",
     8, "lie outside"},
    {"MisSized", R"({"a":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,10]}})", 10,
     "tensor a: its shape needs 12 bytes, its data_offsets [0, 10] hold 10"},
    {"UnknownDtypeIsNotSizedAsZero",
     R"({"a":{"dtype":"F8_E5M2X","shape":[4],"data_offsets":[0,0]}})", 0,
     "the dtype F8_E5M2X is not supported; baltoro reads BF16, F32, F16, U8, I32"},
    {"ShapeOverflows",
     R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0,
     "overflows 64 bits"},
    {"ShapeOverflowsToZero",
     R"({"a":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]}})", 0,
     "overflows 64 bits"},
    {"NegativeDimension", R"({"a":{"dtype":"U8","shape":[-4],"data_offsets":[0,4]}})", 4,
     "tensor a: shape has -4; dimensions are 0 or more"},
    {"NegativeOffset", R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[-4,0]}})", 4,
     "tensor a: data_offsets has -4; offsets are 0 or more"},
    {"FractionalDimension", R"({"a":{"dtype":"U8","shape":[4.0],"data_offsets":[0,4]}})", 4,
     "unexpected the number 4.0"},
    {"FiveDimensions", R"({"a":{"dtype":"U8","shape":[1,1,1,1,1],"data_offsets":[0,1]}})", 1,
     "more than 4 dimensions"},
    {"OffsetsBackwards", R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[4,0]}})", 4,
     "run backwards"},
    {"OneOffset", R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[4]}})", 4, "two numbers"},
    {"ThreeOffsets", R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4,8]}})", 8,
     "more than two numbers"},
    {"NoShape", R"({"a":{"dtype":"U8","data_offsets":[0,4]}})", 4, "the header lacks shape"},
    {"NoDtype", R"({"a":{"shape":[4],"data_offsets":[0,4]}})", 4, "the header lacks dtype"},
    {"FieldTwice", R"({"a":{"dtype":"U8","dtype":"F32","shape":[4],"data_offsets":[0,4]}})", 4,
     "\"dtype\" stands twice"},
    {"UnknownField", R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4],"scale":2}})", 4,
     "unknown field \"scale\""},
    {"TensorIsANumber", R"({"a":5})", 4, "tensor a: unexpected the number 5"},
    {"NestedTooDeep", R"({"a":{"dtype":"U8","shape":[[4]],"data_offsets":[0,4]}})", 4,
     "unexpected an array"},
    {"TopIsAList", "[]", 4, "expected one object, found an array"},
    {"CutJson", R"({"a":{"dtype":"U8","sha)", 4, "not valid JSON"},
    {"Empty", "", 4, "not valid JSON"},
    {"TwoDocuments", "{}{}", 0, "not valid JSON"},
};

INSTANTIATE_TEST_SUITE_P(All, WrongHeaderTest, testing::ValuesIn(kWrongHeaders),
                         [](const auto& param) { return param.param.name; });

// Faults around the header, on real files.
TEST(DamagedFile, IsABadModel) {
  const TempDir dir;
  const std::string good =
      safetensors_bytes(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", "\1\2\3\4");
  const auto error_of = [&](const std::string& bytes) {
    write_file(dir / "x.safetensors", bytes);
    return catch_error([&] { read_safetensors_header(FileReader(dir / "x.safetensors")); });
  };
  write_file(dir / "x.safetensors", good);
  EXPECT_EQ(read_safetensors_header(FileReader(dir / "x.safetensors")).tensors.size(), 1u);

  // Every truncation is noticed.
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_EQ(error_of(good.substr(0, size)).code(), ErrorCode::kBadModel) << size;
  }
  EXPECT_THAT(error_of("").what(), HasSubstr("truncated"));
  EXPECT_THAT(error_of(good.substr(0, 30)).what(), HasSubstr("truncated"));
  EXPECT_THAT(error_of(good.substr(0, good.size() - 1)).what(), HasSubstr("lie outside"));

  std::string absurd = good;
  absurd[7] = 0x7f;
  EXPECT_THAT(error_of(absurd).what(), HasSubstr("absurd"));
  EXPECT_THAT(error_of("PK\3\4 this is a zip file, not weights").what(), HasSubstr("absurd"));
}

TEST(SafetensorsWriter, WhatItWritesIsRead) {
  const TempDir dir;
  SafetensorsWriter writer(
      dir / "x.safetensors",
      {{"a\"\\é", DType::kBf16, {2, 3}}, {"empty", DType::kF32, {0}}, {"b", DType::kU8, {5}}});
  EXPECT_FALSE(std::filesystem::exists(dir / "x.safetensors"));
  const std::string data = "0123456789abcdefg";
  writer.write(std::as_bytes(std::span(data)).first(7));
  writer.write(std::as_bytes(std::span(data)).subspan(7));
  EXPECT_THROW(writer.write(std::as_bytes(std::span(data)).first(1)), Error);
  writer.finish();

  const FileReader file(dir / "x.safetensors");
  const SafetensorsHeader header = read_safetensors_header(file);
  ASSERT_EQ(header.tensors.size(), 3u);
  EXPECT_EQ(header.tensors[0].name, "a\"\\é");
  EXPECT_EQ(header.tensors[0].offset % 8, 0u);
  EXPECT_TRUE(header.holes.empty());
  std::string read(5, ' ');
  file.read(header.tensors[2].offset, std::as_writable_bytes(std::span(read)));
  EXPECT_EQ(read, "cdefg");
}

TEST(SafetensorsWriter, AnUnfinishedFileLeavesNothing) {
  const TempDir dir;
  {
    SafetensorsWriter writer(dir / "x.safetensors", {{"a", DType::kU8, {5}}});
    EXPECT_THROW(writer.finish(), Error);
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(SafetensorsWriter, AFileThatCannotGetItsNameLeavesNothing) {
  const TempDir dir;
  std::filesystem::create_directory(dir / "x.safetensors");
  const auto write = [&] {
    SafetensorsWriter writer(dir / "x.safetensors", {{"a", DType::kU8, {1}}});
    writer.write(std::as_bytes(std::span("x", 1)));
    writer.finish();
  };
  EXPECT_EQ(catch_error(write).code(), ErrorCode::kIo);
  EXPECT_FALSE(std::filesystem::exists(dir / "x.safetensors.partial"));
}

}  // namespace
}  // namespace baltoro
