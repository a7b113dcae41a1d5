// Damage that loads: NaN, infinity, E8M0 byte 255, an expert of zeros. Each is found with tensor
// and position.
#include "io/verify.h"

#include <gtest/gtest.h>

#include "io/crc32.h"
#include "io/safetensors_writer.h"
#include "io/test_files.h"

namespace baltoro {
namespace {

class Verify : public testing::Test {
 protected:
  // One tensor of each kind, with the given bytes.
  TensorCheck check(const std::string& name, DType dtype, const std::string& bytes) {
    const auto count =
        static_cast<std::int64_t>(bytes.size()) / static_cast<std::int64_t>(dtype_bytes(dtype));
    SafetensorsWriter writer(dir_ / "model.safetensors",
                             {{"first", DType::kU8, {1}}, {name, dtype, {count}}});
    writer.write(std::as_bytes(std::span("x", 1)));
    writer.write(std::as_bytes(std::span(bytes)));
    writer.finish();
    const CheckpointFiles files(dir_.path());
    const std::vector<TensorCheck> checks = verify_tensors(files);
    EXPECT_EQ(checks.size(), 2u);
    EXPECT_EQ(files.tensors()[checks[1].tensor].name, name);
    EXPECT_EQ(checks[1].crc32, crc32(std::as_bytes(std::span(bytes))));
    return checks[1];
  }

  TempDir dir_;
};

template <typename Word>
std::string bytes_of(std::initializer_list<Word> words) {
  return {reinterpret_cast<const char*>(words.begin()), words.size() * sizeof(Word)};
}

TEST_F(Verify, NanAndInfinityOfEachFloat) {
  const TensorCheck bf16 = check(
      "w", DType::kBf16, bytes_of<std::uint16_t>({0x3f80, 0x7f80, 0xff80, 0x7fc0, 0x7f81, 0x7f7f}));
  EXPECT_EQ(bf16.num_inf, 2u);
  EXPECT_EQ(bf16.num_nan, 2u);
  EXPECT_EQ(bf16.first_bad, 1u);
  EXPECT_TRUE(bf16.bad());
  const TensorCheck f16 =
      check("w", DType::kF16, bytes_of<std::uint16_t>({0x3c00, 0x7bff, 0xfc00, 0x7c01}));
  EXPECT_EQ(f16.num_inf, 1u);
  EXPECT_EQ(f16.num_nan, 1u);
  EXPECT_EQ(f16.first_bad, 2u);
  const TensorCheck f32 =
      check("w", DType::kF32, bytes_of<std::uint32_t>({0x7f7fffff, 0xff800000, 0x7fc00000}));
  EXPECT_EQ(f32.num_inf, 1u);
  EXPECT_EQ(f32.num_nan, 1u);
  EXPECT_FALSE(check("w", DType::kF32, bytes_of<std::uint32_t>({0x7f7fffff, 0x00000001})).bad());
}

// E8M0: 255 is NaN, 254 and 0 are numbers.
TEST_F(Verify, ScaleByte255IsReportedWithItsPosition) {
  const TensorCheck good = check("x.weight_scale", DType::kU8, bytes_of<std::uint8_t>({0, 1, 254}));
  EXPECT_FALSE(good.bad());
  const TensorCheck bad =
      check("x.weight_scale", DType::kU8, bytes_of<std::uint8_t>({127, 127, 255, 127, 255}));
  EXPECT_EQ(bad.num_bad_scales, 2u);
  EXPECT_EQ(bad.first_bad, 2u);
  // The same byte in packed codes is two values of -6.
  EXPECT_FALSE(check("x.weight_packed", DType::kU8, bytes_of<std::uint8_t>({255})).bad());
}

TEST_F(Verify, PositionsHoldBeyondOneBlock) {
  std::string bytes((std::size_t{9} << 20) + 3, '\x7f');
  bytes[(std::size_t{8} << 20) + 5] = '\xff';
  const TensorCheck check_of_large = check("x.weight_scale", DType::kU8, bytes);
  EXPECT_EQ(check_of_large.num_bad_scales, 1u);
  EXPECT_EQ(check_of_large.first_bad, (std::uint64_t{8} << 20) + 5);
}

TEST_F(Verify, AnExpertOfZerosIsBadAndAZeroBiasIsNot) {
  const std::string zeros = bytes_of<std::uint8_t>({0x00, 0x88, 0x80, 0x08});  // 0 and -0
  const TensorCheck expert = check("l.experts.3.w1.weight_packed", DType::kU8, zeros);
  EXPECT_TRUE(expert.all_zero);
  EXPECT_TRUE(expert.bad());
  EXPECT_FALSE(
      check("l.experts.3.w1.weight_packed", DType::kU8, bytes_of<std::uint8_t>({0x00, 0x10}))
          .bad());
  // 0x80 is -128 here, not a sign.
  EXPECT_TRUE(check("l.experts.3.w1.weight_packed", DType::kI8, std::string(4, '\0')).bad());
  EXPECT_FALSE(
      check("l.experts.3.w1.weight_packed", DType::kI8, bytes_of<std::uint8_t>({0, 0x80})).bad());
  const TensorCheck bias = check("bias", DType::kF32, bytes_of<std::uint32_t>({0, 0x80000000}));
  EXPECT_TRUE(bias.all_zero);
  EXPECT_FALSE(bias.bad());
}

}  // namespace
}  // namespace baltoro
