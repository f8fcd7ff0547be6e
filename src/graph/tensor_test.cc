#include "graph/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/testing.h"

namespace heddle {
namespace {

TEST(TensorTest, CountsElementsAndBytes) {
  EXPECT_EQ(ElementCount({}), 1);
  EXPECT_EQ(ElementCount(Shape{4, 32}), 128);
  EXPECT_EQ(ElementCount(Shape{4, 0, 32}), 0);
  EXPECT_EQ(ByteCount({DType::kF64, {3}}), 24);
  EXPECT_EQ(ByteCount({DType::kBool, {}}), 1);
}

TEST(TensorDeathTest, IsReadAsWhatItHolds) {
  HostTensor halves(DType::kF16, {3});
  EXPECT_EQ(halves.as<uint16_t>().size(), 3u);
  EXPECT_EQ(HostTensor(DType::kBool, {3}).as<uint8_t>().size(), 3u);
  EXPECT_EQ(HostTensor(DType::kI8, {3}).as<int8_t>().size(), 3u);
  EXPECT_DEATH(halves.as<int16_t>(), "a tensor of f16");
  EXPECT_DEATH(HostTensor(DType::kI32, {2}).as<float>(), "a tensor of i32");
  EXPECT_DEATH(HostTensor(DType::kF64, {2}).as<int64_t>(), "a tensor of f64");
}

TEST(TensorTest, RefusesShapesThatOverflow) {
  constexpr int64_t kHuge = int64_t{1} << 32;
  EXPECT_EQ(ErrorOf([] {
              ElementCount(Shape{2, -3}, "w");
            }),
            "w: shape [2,-3] has the negative dimension -3");
  EXPECT_EQ(ErrorOf([] {
              ElementCount(Shape{kHuge, kHuge}, "w");
            }),
            "w: shape [4294967296,4294967296] has more elements than 63 bits can count");
  // The check holds even where a dimension of 0 makes the tensor empty, because its strides would overflow.
  EXPECT_EQ(ErrorOf([] {
              ElementCount(Shape{0, kHuge, kHuge});
            }),
            "tensor: shape [0,4294967296,4294967296] has more elements than 63 bits can count");
  EXPECT_EQ(ErrorOf([] {
              ByteCount({DType::kF64, {int64_t{1} << 60}}, "w");
            }),
            "w: f64[1152921504606846976] has more bytes than 63 bits can count");
}

TEST(TensorTest, Prints) {
  EXPECT_EQ(ToString(Shape{}), "[]");
  EXPECT_EQ(ToString(TensorType{DType::kBF16, {4, 32}}), "bf16[4,32]");
}

TEST(TensorTest, MakesEveryTypeFromNumbers) {
  const std::vector<double> reals = {0, 1, 2.5, -3.75};
  const std::vector<int64_t> integers = {0, 1, 2, 100};
  for (const DTypeInfo& info : AllDTypes()) {
    HostTensor from_reals = MakeTensor(info.dtype, {2, 2}, reals);
    HostTensor from_integers = MakeTensor(info.dtype, {4}, integers);
    EXPECT_EQ(from_reals.type(), (TensorType{info.dtype, {2, 2}}));
    EXPECT_EQ(from_reals.size(), 4);
    for (int64_t i = 0; i < 4; ++i) {
      double real = reals[static_cast<size_t>(i)];
      double integer = static_cast<double>(integers[static_cast<size_t>(i)]);
      if (info.dtype == DType::kBool) {
        EXPECT_EQ(AsDouble(from_reals, i), real != 0);
        EXPECT_EQ(AsInt(from_integers, i), integer != 0);
      } else if (IsFloat(info.dtype)) {
        EXPECT_EQ(AsDouble(from_reals, i), real);
        EXPECT_EQ(AsInt(from_reals, i), static_cast<int64_t>(real));
      } else {
        double truncated = info.dtype == DType::kU8 ? std::max(real, 0.0) : real;
        EXPECT_EQ(AsInt(from_reals, i), static_cast<int64_t>(truncated)) << info.name;
        EXPECT_EQ(AsDouble(from_integers, i), integer);
      }
    }
  }
}

TEST(TensorTest, ConversionsToIntegersClampInsteadOfOverflowing) {
  const std::vector<double> odd = {1e300, -1e300, std::nan(""), 127.9};
  HostTensor narrow = MakeTensor(DType::kI8, {4}, odd);
  EXPECT_EQ(AsInt(narrow, 0), 127);
  EXPECT_EQ(AsInt(narrow, 1), -128);
  EXPECT_EQ(AsInt(narrow, 2), 0);
  EXPECT_EQ(AsInt(narrow, 3), 127);
  HostTensor wide = MakeTensor(DType::kF64, {4}, odd);
  EXPECT_EQ(AsInt(wide, 0), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(AsInt(wide, 1), std::numeric_limits<int64_t>::min());
}

TEST(TensorTest, EveryHalfSurvivesWidening) {
  for (uint32_t i = 0; i < 65536; ++i) {
    uint16_t bits = static_cast<uint16_t>(i);
    if (std::isnan(HalfToFloat(bits))) {
      EXPECT_TRUE(std::isnan(HalfToFloat(FloatToHalf(HalfToFloat(bits)))));
    } else {
      ASSERT_EQ(FloatToHalf(HalfToFloat(bits)), bits);
    }
    if (std::isnan(BFloat16ToFloat(bits))) {
      EXPECT_TRUE(std::isnan(BFloat16ToFloat(FloatToBFloat16(BFloat16ToFloat(bits)))));
    } else {
      ASSERT_EQ(FloatToBFloat16(BFloat16ToFloat(bits)), bits);
    }
  }
}

TEST(TensorTest, HalvesRoundToNearestEven) {
  // The midpoint between neighbours, and values slightly to either side, for all finite positive halves.
  for (uint16_t bits = 0; bits < 0x7bff; ++bits) {
    float low = HalfToFloat(bits);
    float high = HalfToFloat(static_cast<uint16_t>(bits + 1));
    float middle = low + (high - low) / 2;
    uint16_t even = static_cast<uint16_t>(bits & 1 ? bits + 1 : bits);
    ASSERT_EQ(FloatToHalf(middle), even);
    ASSERT_EQ(FloatToHalf(std::nextafter(middle, high)), bits + 1);
    ASSERT_EQ(FloatToHalf(std::nextafter(middle, low)), bits);
    ASSERT_EQ(FloatToHalf(-middle), even | 0x8000);
  }
  EXPECT_EQ(FloatToHalf(65519.0f), 0x7bff);
  EXPECT_EQ(FloatToHalf(65520.0f), 0x7c00);
  EXPECT_EQ(FloatToHalf(std::numeric_limits<float>::infinity()), 0x7c00);
  EXPECT_EQ(FloatToHalf(1e30f), 0x7c00);
  EXPECT_EQ(FloatToBFloat16(1.0f + 0x1p-8f), 0x3f80);     // a tie, to even
  EXPECT_EQ(FloatToBFloat16(1.0f + 0x3p-8f), 0x3f82);     // a tie, to even
  EXPECT_EQ(FloatToBFloat16(1.0f + 0x1.01p-8f), 0x3f81);  // above the tie
  EXPECT_EQ(FloatToBFloat16(std::numeric_limits<float>::max()), 0x7f80);
}

TEST(TensorTest, DoublesRoundOnceTo16Bits) {
  // Slightly above the midpoint between 1 and the next half. A conversion through float would round to the midpoint.
  const std::vector<double> above_tie = {1.0 + 0x1p-11 + 0x1p-40, 1.0 + 0x1p-11 - 0x1p-40};
  HostTensor half = MakeTensor(DType::kF16, {2}, above_tie);
  EXPECT_EQ(half.as<uint16_t>()[0], 0x3c01);
  EXPECT_EQ(half.as<uint16_t>()[1], 0x3c00);
}

}  // namespace
}  // namespace heddle
