#include "base/units.h"

#include <gtest/gtest.h>

#include <limits>

namespace heddle {
namespace {

TEST(UnitsTest, Arithmetic) {
  Bytes bytes = kKiB + 3 * kMiB;
  bytes += Bytes{1};
  EXPECT_EQ(bytes, Bytes{1024 + 3 * 1024 * 1024 + 1});
  EXPECT_EQ(bytes - bytes, Bytes{});
  EXPECT_LT(kMiB, kGiB);
  EXPECT_DOUBLE_EQ(kGiB / kMiB, 1024.0);
  EXPECT_DOUBLE_EQ((Seconds{3} / 2.0).value, 1.5);
  EXPECT_DOUBLE_EQ(Flops{6} / Flops{4}, 1.5);
  EXPECT_THROW(Bytes{std::numeric_limits<std::int64_t>::max()} + kKiB, InputError);
  EXPECT_THROW(kGiB * std::numeric_limits<std::int64_t>::max(), InputError);
}

TEST(UnitsTest, FormatsBytes) {
  EXPECT_EQ(FormatBytes(Bytes{0}), "0 B");
  EXPECT_EQ(FormatBytes(Bytes{1023}), "1023 B");
  EXPECT_EQ(FormatBytes(Bytes{1024}), "1.00 KiB");
  EXPECT_EQ(FormatBytes(Bytes{1536}), "1.50 KiB");
  EXPECT_EQ(FormatBytes(Bytes{1024 * 1024 - 1}), "1.00 MiB");
  EXPECT_EQ(FormatBytes(80 * kGiB), "80.0 GiB");
  EXPECT_EQ(FormatBytes(Bytes{-2048}), "-2.00 KiB");
  EXPECT_EQ(FormatBytes(Bytes{std::numeric_limits<std::int64_t>::max()}), "8.00 EiB");
  EXPECT_EQ(FormatBytes(Bytes{std::numeric_limits<std::int64_t>::min()}), "-8.00 EiB");
}

TEST(UnitsTest, FormatsCounts) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1000), "1.00K");
  EXPECT_EQ(FormatCount(45.6e6), "45.6M");
  EXPECT_EQ(FormatCount(999.9e6), "1.00B");
  EXPECT_EQ(FormatCount(174.6e9), "175B");
  EXPECT_EQ(FormatCount(1.2e15), "1200T");
}

TEST(UnitsTest, FormatsFlops) {
  EXPECT_EQ(FormatFlops(Flops{1.234e12}), "1.23 TFLOP");
  EXPECT_EQ(FormatFlops(Flops{312e9}), "312 GFLOP");
  EXPECT_EQ(FormatFlops(Flops{std::numeric_limits<double>::infinity()}), "inf FLOP");
}

TEST(UnitsTest, FormatsSeconds) {
  EXPECT_EQ(FormatSeconds(Seconds{0}), "0 s");
  EXPECT_EQ(FormatSeconds(Seconds{12.34e-6}), "12.3 us");
  EXPECT_EQ(FormatSeconds(Seconds{4.56e-3}), "4.56 ms");
  EXPECT_EQ(FormatSeconds(Seconds{0.99949}), "999 ms");
  EXPECT_EQ(FormatSeconds(Seconds{0.9996}), "1.00 s");
  EXPECT_EQ(FormatSeconds(Seconds{7.891}), "7.89 s");
  EXPECT_EQ(FormatSeconds(Seconds{125}), "2 min 05 s");
  EXPECT_EQ(FormatSeconds(Seconds{12000}), "3 h 20 min");
  EXPECT_EQ(FormatSeconds(Seconds{100 * 3600}), "4 d 4 h");
  EXPECT_EQ(FormatSeconds(Seconds{1e30}), "1e+30 s");
}

}  // namespace
}  // namespace heddle
