#include "graph/dtype.h"

#include <gtest/gtest.h>

namespace heddle {
namespace {

TEST(DTypeTest, NamesRoundTrip) {
  int index = 0;
  for (const DTypeInfo& info : AllDTypes()) {
    EXPECT_EQ(static_cast<int>(info.dtype), index++);
    EXPECT_EQ(DTypeFromName(info.name), info.dtype);
    EXPECT_EQ(DTypeFromSafetensors(info.safetensors), info.dtype);
    EXPECT_EQ(&Info(info.dtype), &info);
    EXPECT_GT(SizeOf(info.dtype), 0);
  }
  EXPECT_EQ(DTypeFromName("F32"), std::nullopt);
  EXPECT_EQ(DTypeFromSafetensors("f32"), std::nullopt);
}

TEST(DTypeTest, FloatsAreTheFourFloatTypes) {
  int floats = 0;
  for (const DTypeInfo& info : AllDTypes()) floats += IsFloat(info.dtype) ? 1 : 0;
  EXPECT_EQ(floats, 4);
  EXPECT_TRUE(IsFloat(DType::kBF16));
  EXPECT_FALSE(IsFloat(DType::kBool));
}

}  // namespace
}  // namespace heddle
