#include "cluster/quantity.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace heddle {
namespace {

double Value(std::string_view text, Unit unit) {
  const auto parsed = ParseQuantity(text, unit);
  if (const auto* error = std::get_if<QuantityError>(&parsed)) {
    ADD_FAILURE() << text << ": " << error->remedy;
    return NAN;
  }
  return std::get<double>(parsed);
}

std::string Remedy(std::string_view text, Unit unit) {
  const auto parsed = ParseQuantity(text, unit);
  const auto* error = std::get_if<QuantityError>(&parsed);
  return error ? error->remedy : "accepted";
}

TEST(Quantity, ReadsNumbersWithUnits) {
  EXPECT_EQ(Value("80 GiB", Unit::kMemory), 80 * 1073741824.0);
  EXPECT_EQ(Value("80GB", Unit::kMemory), 80e9);
  EXPECT_EQ(Value("0.5 KiB", Unit::kMemory), 512);
  EXPECT_EQ(Value("1.3 B", Unit::kMemory), 1);  // whole bytes
  EXPECT_EQ(Value("900 GB/s", Unit::kBandwidth), 900e9);
  EXPECT_EQ(Value("400 Gb/s", Unit::kBandwidth), 50e9);
  EXPECT_EQ(Value("1 GiB/s", Unit::kBandwidth), 1073741824.0);
  EXPECT_EQ(Value("5 us", Unit::kTime), 5e-6);
  EXPECT_EQ(Value("1.5e3 ns", Unit::kTime), 1.5e-6);
  EXPECT_EQ(Value("0 s", Unit::kTime), 0);
  EXPECT_EQ(Value("1.5h", Unit::kTime), 5400);
  EXPECT_EQ(Value("66.9 TFLOP/s", Unit::kRate), 66.9e12);  // the nearest double
  EXPECT_EQ(Value("1 EFLOP/s", Unit::kRate), 1e18);
}

TEST(Quantity, SaysWhatToWriteInstead) {
  EXPECT_EQ(Remedy("80", Unit::kMemory), "add a unit, as in 80 GiB");
  EXPECT_EQ(Remedy("", Unit::kTime), "write a number and a unit, as in 5 us");
  EXPECT_EQ(Remedy("fast", Unit::kRate), "write a number and a unit, as in 312 TFLOP/s");
  EXPECT_EQ(Remedy("nan GB/s", Unit::kBandwidth),
            "write a number and a unit, as in 900 GB/s or 400 Gb/s");
  EXPECT_EQ(Remedy("inf s", Unit::kTime), "write a number and a unit, as in 5 us");
  EXPECT_EQ(Remedy("-1 us", Unit::kTime), "must not be negative");
  EXPECT_EQ(Remedy("1e999 s", Unit::kTime), "the number is out of range");
  EXPECT_EQ(Remedy("1e307 TFLOP/s", Unit::kRate), "the number is out of range");
  EXPECT_EQ(Remedy("5 sec", Unit::kTime), "unknown unit; units are ns, us, ms, s, min, h, d");
  EXPECT_EQ(Remedy("5 us ", Unit::kTime), "unknown unit; units are ns, us, ms, s, min, h, d");
  EXPECT_EQ(Remedy("0x10 s", Unit::kTime), "unknown unit; units are ns, us, ms, s, min, h, d");
}

TEST(Quantity, PrintsTheShortestThatReadsBack) {
  EXPECT_EQ(PrintQuantity(50e9, Unit::kBandwidth), "50 GB/s");
  EXPECT_EQ(PrintQuantity(3.125e9, Unit::kBandwidth), "3125 MB/s");
  EXPECT_EQ(PrintQuantity(5e-6, Unit::kTime), "5 us");
  EXPECT_EQ(PrintQuantity(0, Unit::kTime), "0 s");
  EXPECT_EQ(PrintQuantity(66.9e12, Unit::kRate), "66.9 TFLOP/s");
  EXPECT_EQ(PrintQuantity(80 * 1073741824.0, Unit::kMemory), "80 GiB");
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> exponent(-9, 17);
  for (int i = 0; i < 2000; ++i) {
    const double value = std::pow(10, exponent(random));
    for (Unit unit : {Unit::kBandwidth, Unit::kTime, Unit::kRate}) {
      EXPECT_EQ(Value(PrintQuantity(value, unit), unit), value);
    }
    const double bytes = std::round(value);
    EXPECT_EQ(Value(PrintQuantity(bytes, Unit::kMemory), Unit::kMemory), bytes);
  }
}

TEST(Quantity, FormatsThreeDigits) {
  EXPECT_EQ(FormatQuantity(3.125e9, Unit::kBandwidth), "3.12 GB/s");
  EXPECT_EQ(FormatQuantity(1978.9e12, Unit::kRate), "1979 TFLOP/s");
  EXPECT_EQ(FormatQuantity(5e-6, Unit::kTime), "5 us");
  EXPECT_EQ(FormatQuantity(0, Unit::kTime), "0 s");
  EXPECT_EQ(FormatQuantity(80 * 1073741824.0, Unit::kMemory), "80 GiB");
}

}  // namespace
}  // namespace heddle
