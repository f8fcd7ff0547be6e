#include "cluster/profile.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/error.h"

namespace heddle {
namespace {

TEST(ProfileTest, ReadsBack) {
  Profile profile;
  profile.device = "a100-sxm-80gb";
  profile.measured_on = "a machine";
  profile.products = 0.8;
  profile.launch = 3e-6;
  Profile other;
  other.device = "cpu-core";
  std::vector<Profile> both = {profile, other};
  EXPECT_EQ(ProfilesFromJson(ToJson(both).dump(), "p.json"), both);
}

TEST(ProfileTest, VersionOneIsOfOneDevice) {
  Profile profile;
  profile.device = "d";
  profile.measured_on = "m";
  profile.traffic = 0.5;
  EXPECT_EQ(ProfilesFromJson(
                R"({"heddle_profile": 1, "device": "d", "measured_on": "m", "traffic": 0.5})", "p"),
            std::vector<Profile>{profile});
}

TEST(ProfileTest, WhatIsWrongIsNamed) {
  auto error = [](std::string_view text) -> std::string {
    try {
      ProfilesFromJson(text, "p.json");
    } catch (const InputError& caught) {
      return caught.what();
    }
    return "nothing";
  };
  EXPECT_EQ(error("[]"), "p.json: not a profile: expected an object with \"heddle_profile\": 2");
  EXPECT_EQ(error(R"({"heddle_profile": 3})"),
            "p.json: heddle_profile: 3: this heddle reads versions 1 to 2");
  for (std::string devices : {"", R"(, "devices": [])", R"(, "devices": 3)"}) {
    EXPECT_EQ(error(R"({"heddle_profile": 2)" + devices + "}"),
              "p.json: devices: expected a list of 1 to 4096 profiles");
  }
  EXPECT_EQ(error(R"({"heddle_profile": 2, "device": "d"})"),
            "p.json: device: expected \"devices\" and nothing else");
  std::string one = R"({"device": "d", "measured_on": "m"})";
  EXPECT_EQ(error(R"({"heddle_profile": 2, "devices": [)" + one + ", 3]}"),
            "p.json: devices[1]: expected an object");
  EXPECT_EQ(error(R"({"heddle_profile": 2, "devices": [)" + one + ", " + one + "]}"),
            "p.json: devices[1]: device: 'd' is given twice: remove one");
  EXPECT_EQ(error(R"({"heddle_profile": 1})"), "p.json: device is missing");
  std::string start = R"({"heddle_profile": 1, "device": "d", "measured_on": "m", )";
  EXPECT_EQ(error(start + R"("speed": 1})"),
            "p.json: speed: unknown key: choose one of device, measured_on, machine, loads, "
            "products, fp8, "
            "attention, traffic, near, far, launch, overlap, fused_attention, fused_loss, "
            "fused_update");
  EXPECT_EQ(error(start + R"("products": 2})"),
            "p.json: products: 2: expected a number above 0 and at most 1");
  EXPECT_EQ(error(start + R"("products": "fast"})"),
            "p.json: products: \"fast\": expected a number above 0 and at most 1");
}

LoadTimes SomeTimes(int64_t ranks) {
  LoadTimes load;
  load.ranks = ranks;
  load.launch = 2e-6;
  load.view = 1e-6;
  load.captured = ranks == 1;
  load.share = 1 / static_cast<double>(ranks);
  load.host = 2e-4;
  load.copy = {{{1024, 1e-6}, {1 << 20, 1e-3}}};
  load.update = {{{100, 1e-6}}};
  load.transfers["all-reduce"] = {{{1024, 1e-5}}};
  KernelTimes& kernels = load.kernels["f32"];
  kernels.tables[0] = {{8, 64}, {8}, {8, 64}, {1e9, 2e9, 3e9, 4e9}};
  kernels.ops["Gelu"] = {{{{4096, 1e-5}}}, {{{4096, 3e-5}}}};
  return load;
}

Profile Calibrated() {
  Profile profile;
  profile.device = "cpu-core";
  profile.measured_on = "a machine";
  profile.machine = {{"processor", "Z80"}, {"cores", "2"}};
  profile.overlap = profile.fused_attention = false;
  profile.fused_loss = profile.fused_update = true;
  profile.loads = {SomeTimes(1), SomeTimes(4)};
  return profile;
}

TEST(ProfileTest, WhatWasCalibratedReadsBack) {
  std::vector<Profile> profiles = {Calibrated()};
  EXPECT_EQ(ProfilesFromJson(ToJson(profiles).dump(), "p.json"), profiles);
}

TEST(ProfileTest, TheLoadNearestToTheRanksCounts) {
  Profile profile = Calibrated();
  EXPECT_EQ(LoadFor(profile, 1)->ranks, 1);
  EXPECT_EQ(LoadFor(profile, 2)->ranks, 1);
  EXPECT_EQ(LoadFor(profile, 8)->ranks, 4);
  EXPECT_EQ(LoadFor(Profile{}, 1), nullptr);
}

TEST(ProfileTest, AnotherMachineIsRefused) {
  Profile profile = Calibrated();
  RequireSameMachine(profile, {{"processor", "Z80"}, {"more", "is fine"}}, "p.json");
  try {
    RequireSameMachine(profile, {{"processor", "6502"}}, "p.json");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(
        error.what(),
        "p.json: machine.processor: 'Z80', but here it is '6502': run 'heddle calibrate' here");
  }
}

TEST(ProfileTest, WhatIsWrongWithTimesIsNamed) {
  auto error = [](auto&& change) -> std::string {
    Json json = ToJson(std::vector<Profile>{Calibrated()});
    change(json["devices"][0]["loads"]);
    try {
      ProfilesFromJson(json.dump(), "p.json");
    } catch (const InputError& caught) {
      return caught.what();
    }
    return "nothing";
  };
  EXPECT_EQ(error([](Json& loads) { loads = 3; }),
            "p.json: devices[0]: loads: 3: expected a list of at most 4096");
  EXPECT_EQ(error([](Json& loads) { loads[1]["ranks"] = 1; }).substr(0, 28),
            "p.json: devices[0]: loads[1]");
  EXPECT_EQ(error([](Json& loads) { loads[0]["share"] = 1.5; }),
            "p.json: devices[0]: loads[0].share: 1.5: expected a number above 0 and at most 1");
  EXPECT_EQ(error([](Json& loads) { loads[0]["ranks"] = 1.5; }),
            "p.json: devices[0]: loads[0].ranks: 1.5: expected a number of ranks");
  EXPECT_EQ(error([](Json& loads) { loads[0]["copy"][1][0] = 4; }),
            "p.json: devices[0]: loads[0].copy[1]: [4,0.001]: sizes must ascend");
  EXPECT_EQ(error([](Json& loads) { loads[0]["copy"][0][1] = -1; }),
            "p.json: devices[0]: loads[0].copy[0][1]: -1: expected a number above 0");
  EXPECT_EQ(
      error([](Json& loads) { loads[0]["speed"] = 1; }),
      "p.json: devices[0]: loads[0].speed: unknown key: choose one of ranks, share, launch, view, "
      "host, captured, backward, copy, update, transfers, kernels");
  std::string grid = error([](Json& loads) { loads[0]["kernels"]["f32"]["product"]["m"] = {8}; });
  EXPECT_NE(grid.find("4 rates for 2 points of the grid m x n x k"), std::string::npos) << grid;
}

TEST(MeasuredTimesTest, BetweenPointsThereIsAPowerLaw) {
  TimeCurve curve{{{100, 1}, {10000, 100}}};
  EXPECT_EQ(curve.SecondsAt(1), 1);
  EXPECT_NEAR(curve.SecondsAt(1000), 10, 1e-12);
  EXPECT_EQ(curve.SecondsAt(20000), 200);
}

TEST(MeasuredTimesTest, RatesAreLinearInLogarithms) {
  RateTable table{{1, 100}, {1}, {1, 100}, {1, 10, 100, 1000}};
  EXPECT_NEAR(table.RateAt(1, 5, 1), 1, 1e-12);
  EXPECT_NEAR(table.RateAt(100, 1, 100), 1000, 1e-9);
  EXPECT_NEAR(table.RateAt(10, 1, 1), 10, 1e-12);
  EXPECT_NEAR(table.RateAt(10, 1, 10), 10 * std::sqrt(10), 1e-9);
  EXPECT_NEAR(table.RateAt(1e9, 1, 1e9), 1000, 1e-9);
  EXPECT_NEAR(table.RateAt(0.1, 1, 0.1), 1, 1e-12);
}

}  // namespace
}  // namespace heddle
