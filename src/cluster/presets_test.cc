// Compares every preset with the figures of its data sheet, and tests the message of every mistake in an expression.
#include "cluster/presets.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "cluster/topology.h"

namespace heddle {
namespace {

constexpr double kGbit = 1e9 / 8;

// Rates are in TFLOP/s, bandwidths in GB/s in one direction, memories in GiB.
struct Sheet {
  std::string preset;
  int devices;
  std::string device;
  double fp32, tf32, fp16, bf16, fp8;
  std::int64_t memory;
  double memory_bandwidth;
  double link;     // between two devices of a machine
  double network;  // between two devices of different machines
  double uplink;   // of a machine
  std::int64_t host_memory;
};

const std::vector<Sheet> kSheets = {
    {"dgx-v100", 8, "v100-sxm2-32gb", 15.7, 0, 125, 0, 0, 32, 900, 150, 12.5, 50, 512},
    {"dgx-a100", 8, "a100-sxm-80gb", 19.5, 156, 312, 312, 0, 80, 2039, 300, 25, 200, 2048},
    {"dgx-a100-40gb", 8, "a100-sxm-40gb", 19.5, 156, 312, 312, 0, 40, 1555, 300, 25, 200, 1024},
    {"dgx-h100", 8, "h100-sxm", 66.9, 494.7, 989.4, 989.4, 1978.9, 80, 3350, 450, 50, 400, 2048},
    {"dgx-h200", 8, "h200-sxm", 66.9, 494.7, 989.4, 989.4, 1978.9, 141, 4800, 450, 50, 400, 2048},
    {"dgx-b200", 8, "b200-sxm", 75, 1125, 2250, 2250, 4500, 180, 8000, 900, 50, 400, 2048},
    {"summit", 6, "v100-power9-16gb", 15.7, 0, 125, 0, 0, 16, 900, 50, 12.5, 25, 512},
    {"p3", 8, "v100-sxm2-16gb", 15.7, 0, 125, 0, 0, 16, 900, 150, 3.125, 3.125, 488},
    {"p3dn", 8, "v100-sxm2-32gb", 15.7, 0, 125, 0, 0, 32, 900, 150, 12.5, 12.5, 768},
    {"p4d", 8, "a100-sxm-40gb", 19.5, 156, 312, 312, 0, 40, 1555, 300, 12.5, 50, 1152},
    {"p5", 8, "h100-sxm", 66.9, 494.7, 989.4, 989.4, 1978.9, 80, 3350, 450, 50, 400, 2048},
    {"v100x4", 4, "v100-pcie-32gb", 14, 0, 112, 0, 0, 32, 900, 8, 2.81, 2.81, 256},
    {"1080tix2", 2, "gtx-1080ti", 11.3, 0, 0.177, 0, 0, 11, 484, 3, 2.81, 2.81, 64},
    {"p100x2", 2, "p100-pcie-12gb", 9.3, 0, 18.7, 0, 0, 12, 549, 3, 2.81, 2.81, 64},
    {"rtx3090", 4, "rtx-3090", 35.6, 35.6, 71, 71, 0, 24, 936, 31.5, 1.25, 1.25, 128},
    {"rtx4090", 4, "rtx-4090", 82.6, 82.6, 165.2, 165.2, 330.3, 24, 1008, 31.5, 1.25, 1.25, 128},
};

class PresetSheet : public testing::TestWithParam<Sheet> {};

TEST_P(PresetSheet, Agrees) {
  const Sheet& sheet = GetParam();
  const Cluster cluster = ClusterFromPreset(sheet.preset + ":2");
  EXPECT_TRUE(Verify(cluster).empty());
  ASSERT_EQ(DeviceCount(cluster), 2 * sheet.devices);
  EXPECT_TRUE(IsHomogeneous(cluster));
  ASSERT_EQ(cluster.device_types.size(), 1u);
  const DeviceType& type = cluster.device_types[0];
  EXPECT_EQ(type.name, sheet.device);
  EXPECT_NEAR(type.peak.fp32 / 1e12, sheet.fp32, 1e-9);
  EXPECT_NEAR(type.peak.tf32 / 1e12, sheet.tf32, 1e-9);
  EXPECT_NEAR(type.peak.fp16 / 1e12, sheet.fp16, 1e-9);
  EXPECT_NEAR(type.peak.bf16 / 1e12, sheet.bf16, 1e-9);
  EXPECT_NEAR(type.peak.fp8 / 1e12, sheet.fp8, 1e-9);
  EXPECT_EQ(type.memory, kGiB * sheet.memory);
  EXPECT_NEAR(type.memory_bandwidth / 1e9, sheet.memory_bandwidth, 1e-9);
  EXPECT_TRUE(type.host.exists());
  const Path inside = PathBetween(cluster, DeviceId{0}, DeviceId{1});
  EXPECT_NEAR(inside.bandwidth / 1e9, sheet.link, 1e-9);
  const Path outside = PathBetween(cluster, DeviceId{0}, DeviceId{sheet.devices});
  EXPECT_NEAR(outside.bandwidth / 1e9, sheet.network, 1e-9);
  EXPECT_GT(inside.latency, 0);
  EXPECT_GE(outside.latency, inside.latency);
  const Group& node = cluster.group(NodeOf(cluster, DeviceId{0}).group);
  EXPECT_EQ(node.name, sheet.preset);
  EXPECT_NEAR(node.uplink.bandwidth / 1e9, sheet.uplink, 1e-9);
  EXPECT_EQ(node.host_memory, kGiB * sheet.host_memory);
}

INSTANTIATE_TEST_SUITE_P(All, PresetSheet, testing::ValuesIn(kSheets), [](const auto& info) {
  std::string name = info.param.preset;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(Presets, AllAreTested) {
  std::set<std::string> tested = {"tpu-v3", "tpu-v4", "local"};
  for (const Sheet& sheet : kSheets) tested.insert(sheet.preset);
  std::set<std::string> all;
  for (const Preset& preset : Presets()) {
    EXPECT_TRUE(all.insert(preset.name).second) << preset.name;
    EXPECT_NE(FindKnownDevice(preset.device), nullptr) << preset.name;
    EXPECT_FALSE(preset.summary.empty());
    EXPECT_EQ(preset.devices % preset.parts, 0);
  }
  EXPECT_EQ(all, tested);
}

TEST(Presets, SummitHasTwoSockets) {
  const Cluster cluster = ClusterFromPreset("summit");
  ASSERT_EQ(DeviceCount(cluster), 6);
  EXPECT_EQ(PathBetween(cluster, DeviceId{0}, DeviceId{2}).bandwidth, 50e9);
  EXPECT_EQ(PathBetween(cluster, DeviceId{2}, DeviceId{3}).bandwidth, 64e9);  // X-Bus
  EXPECT_EQ(cluster.device_types[0].host.bandwidth, 50e9);
  EXPECT_EQ(PathBetween(ClusterFromPreset("summit:2"), DeviceId{5}, DeviceId{6}).bandwidth,
            100 * kGbit);
}

TEST(Presets, TpuV3IsATorusOfChipsOfTwoCores) {
  const Cluster cluster = ClusterFromPreset("tpu-v3:4x8");
  EXPECT_EQ(DeviceCount(cluster), 64);
  const DeviceType& core = cluster.device_types[0];
  EXPECT_EQ(core.peak.bf16 * 2, 123e12);
  EXPECT_EQ(core.memory * 2, kGiB * 32);
  EXPECT_EQ(core.memory_bandwidth * 2, 900e9);
  const Path neighbours = PathBetween(cluster, DeviceId{0}, DeviceId{2});
  EXPECT_EQ(neighbours.bandwidth, 70e9);
  EXPECT_EQ(neighbours.hops, 1);
  EXPECT_EQ(PathBetween(cluster, DeviceId{0}, DeviceId{1}).bandwidth, 450e9);
  EXPECT_EQ(ClusterFromPreset("tpu-v3:32"), cluster);
}

TEST(Presets, TpuV4IsATorusOfChips) {
  const Cluster cluster = ClusterFromPreset("tpu-v4:4x4x4");
  EXPECT_EQ(DeviceCount(cluster), 64);
  EXPECT_EQ(cluster.device_types[0].peak.bf16, 275e12);
  EXPECT_EQ(cluster.device_types[0].memory, kGiB * 32);
  EXPECT_EQ(cluster.device_types[0].memory_bandwidth, 1200e9);
  const Group& slice = cluster.groups[0];
  EXPECT_EQ(slice.dims, (std::vector<std::int64_t>{4, 4, 4}));
  EXPECT_EQ(InjectionBandwidth(slice), 300e9);  // six links of 50 GB/s
  EXPECT_EQ(slice.host_memory, kGiB * (16 * 407));
  EXPECT_EQ(ClusterFromPreset("tpu-v4:64"), cluster);
  EXPECT_EQ(ClusterFromPreset("tpu-v4:32").groups[0].dims, (std::vector<std::int64_t>{2, 4, 4}));
  EXPECT_EQ(DeviceCount(ClusterFromPreset("tpu-v4:4096")), 4096);
  EXPECT_EQ(DeviceCount(ClusterFromPreset("tpu-v4")), 1);
}

TEST(Presets, LocalRanksShareTheMachine) {
  const Cluster one = ClusterFromPreset("local"), four = ClusterFromPreset("local:4");
  EXPECT_EQ(DeviceCount(one), 1);
  EXPECT_EQ(DeviceCount(four), 4);
  EXPECT_EQ(four.device_types[0].memory.value, one.device_types[0].memory.value / 4);
  EXPECT_EQ(four.groups[0].host_memory, one.device_types[0].memory);
}

TEST(Presets, WithoutACountIsOneMachine) {
  EXPECT_EQ(ClusterFromPreset("dgx-h100"), ClusterFromPreset("dgx-h100:1"));
  EXPECT_EQ(ClusterFromPreset("dgx-h100").name, "dgx-h100:1");
  EXPECT_EQ(DeviceCount(ClusterFromPreset("dgx-h100:131072")), kMaxDevices);
}

struct Mistake {
  std::string expression, message;
};

TEST(Presets, MistakesAreNamed) {
  const std::string count = "the count must be a whole number of at least 1, as in dgx-h100:16";
  const std::vector<Mistake> mistakes = {
      {"dgx-h10:2",
       "dgx-h10:2: dgx-h10: no such preset; did you mean 'dgx-h100' or 'dgx-v100' or 'dgx-a100'?"},
      {"sumit", "sumit: sumit: no such preset; did you mean 'summit'?"},
      {"local4", "local4: local4: no such preset; did you mean 'local'?"},
      {"dgx-h100:0", "dgx-h100:0: 0: " + count},
      {"dgx-h100:-1", "dgx-h100:-1: -1: " + count},
      {"dgx-h100:", "dgx-h100:: '': " + count},
      {"dgx-h100:two", "dgx-h100:two: two: " + count},
      {"dgx-h100:1.5", "dgx-h100:1.5: 1.5: " + count},
      {"dgx-h100: 2", "dgx-h100: 2:  2: " + count},
      {"dgx-h100:2:2", "dgx-h100:2:2: 2:2: " + count},
      {"dgx-h100:131073", "dgx-h100:131073: the count is too large; at most 131072 machines"},
      {"dgx-h100:99999999999999999999",
       "dgx-h100:99999999999999999999: the count is too large; at most 131072 machines"},
      {"dgx-h100:2x2", "dgx-h100:2x2: dgx-h100 takes a count, not a shape, as in dgx-h100:16"},
      {"local:5000", "local:5000: the count is too large; at most 4096 ranks"},
      {"tpu-v4:4x4",
       "tpu-v4:4x4: 4x4: the torus of tpu-v4 has 3 dimensions; give the number of chips, or 4x4x4"},
      {"tpu-v3:2x2x2",
       "tpu-v3:2x2x2: 2x2x2: the torus of tpu-v3 has 2 dimensions; give the number of chips, or "
       "4x4"},
      {"tpu-v4:4x", "tpu-v4:4x: '': " + count},
      {"tpu-v4:0x4x4", "tpu-v4:0x4x4: 0: " + count},
      {"tpu-v4:4097", "tpu-v4:4097: 4097: a tpu-v4 pod has at most 4096 chips"},
      {"tpu-v3:64x64", "tpu-v3:64x64: 64x64: a tpu-v3 pod has at most 1024 chips"},
      {"tpu-v4:1x1x1x1x1x1x1x1",
       "tpu-v4:1x1x1x1x1x1x1x1: a shape of more than 6 dimensions; use fewer"},
  };
  for (const Mistake& mistake : mistakes) {
    try {
      ClusterFromPreset(mistake.expression);
      ADD_FAILURE() << mistake.expression << " was accepted";
    } catch (const InputError& error) {
      EXPECT_EQ(error.what(), mistake.message);
    }
  }
}

TEST(Presets, AnUnknownNameFarFromAllListsThem) {
  try {
    ClusterFromPreset("qqqqqqqq:1");
    ADD_FAILURE();
  } catch (const InputError& error) {
    for (const Preset& preset : Presets()) {
      EXPECT_NE(std::string(error.what()).find(preset.name), std::string::npos) << preset.name;
    }
  }
}

}  // namespace
}  // namespace heddle
