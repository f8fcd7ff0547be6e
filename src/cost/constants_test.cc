#include "cost/constants.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"

namespace heddle {
namespace {

TEST(ConstantsTest, EveryShareIsOneAndEveryNameDiffers) {
  std::set<std::string_view> prefixes, names;
  for (const DeviceConstants& at : AllDeviceConstants()) {
    EXPECT_TRUE(prefixes.insert(at.prefix).second) << at.prefix;
    for (double share : {at.products, at.fp8, at.attention, at.traffic, at.near, at.far}) {
      EXPECT_GT(share, 0) << at.prefix;
      EXPECT_LE(share, 1) << at.prefix;
    }
  }
  for (const StackCosts& at : AllStackCosts()) {
    EXPECT_TRUE(names.insert(at.name).second) << at.name;
    EXPECT_FALSE(at.about.empty()) << at.name;
  }
}

TEST(ConstantsTest, ADeviceHasTheEntryOfItsLongestPrefix) {
  DeviceType device;
  device.name = "a100-sxm-80gb";
  EXPECT_EQ(ConstantsOf(device).prefix, "a100");
  device.name = "no such device";
  EXPECT_EQ(ConstantsOf(device).prefix, "");
}

TEST(ConstantsTest, AnUnknownStackNamesThoseThereAre) {
  try {
    FindStackCosts("caffe");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("megatron 2021"), std::string::npos);
  }
}

TEST(ConstantsTest, TheyAreCounted) {
  EXPECT_GT(ConstantCount(), 50);
  EXPECT_LT(ConstantCount(), 120);
}

}  // namespace
}  // namespace heddle
