#include "cluster/profile.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace heddle {
namespace {

TEST(ProfileTest, ReadsBack) {
  Profile profile;
  profile.device = "a100-sxm-80gb";
  profile.measured_on = "a machine";
  profile.products = 0.8;
  profile.launch = 3e-6;
  EXPECT_EQ(ProfileFromJson(ToJson(profile).dump(), "p.json"), profile);
}

TEST(ProfileTest, WhatIsWrongIsNamed) {
  auto error = [](std::string_view text) -> std::string {
    try {
      ProfileFromJson(text, "p.json");
    } catch (const InputError& caught) {
      return caught.what();
    }
    return "nothing";
  };
  EXPECT_EQ(error("[]"), "p.json: not a profile: expected an object with \"heddle_profile\": 1");
  EXPECT_EQ(error(R"({"heddle_profile": 2})"),
            "p.json: heddle_profile: 2: this heddle reads version 1");
  EXPECT_EQ(error(R"({"heddle_profile": 1})"), "p.json: device is missing");
  std::string start = R"({"heddle_profile": 1, "device": "d", "measured_on": "m", )";
  EXPECT_EQ(error(start + R"("speed": 1})"), "p.json: speed: not a number of a profile");
  EXPECT_EQ(error(start + R"("products": 2})"),
            "p.json: products: 2: expected a number above 0 and at most 1");
  EXPECT_EQ(error(start + R"("products": "fast"})"),
            "p.json: products: \"fast\": expected a number above 0 and at most 1");
}

}  // namespace
}  // namespace heddle
