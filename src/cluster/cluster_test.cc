// Tests of Verify on clusters that the readers never build, of LoadCluster, which tells files from presets, and of the
// picture.
#include "cluster/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "base/error.h"
#include "cluster/load.h"
#include "cluster/picture.h"
#include "cluster/presets.h"

namespace heddle {
namespace {

using testing::Contains;
using testing::HasSubstr;

TEST(Verify, FindsEverythingWrong) {
  const Cluster good = ClusterFromPreset("summit:2");
  ASSERT_TRUE(Verify(good).empty());
  const auto expect = [&](const std::string& found, auto&& edit) {
    Cluster bad = good;
    edit(bad);
    EXPECT_THAT(Verify(bad), Contains(HasSubstr(found)));
  };
  expect("no groups", [](Cluster& c) { c.groups.clear(); });
  expect("a cluster has no name", [](Cluster& c) { c.name = ""; });
  expect("is not printable ASCII", [](Cluster& c) { c.groups[0].name = "a\n"; });
  expect("101 bytes", [](Cluster& c) { c.groups[0].name = std::string(101, 'x'); });
  expect("two groups are named", [](Cluster& c) { c.groups[0].name = c.groups[1].name; });
  expect("two device types are named",
         [](Cluster& c) { c.device_types.push_back(c.device_types[0]); });
  expect("fp32 is -1", [](Cluster& c) { c.device_types[0].peak.fp32 = -1; });
  expect("has no rate", [](Cluster& c) { c.device_types[0].peak = {}; });
  expect("memory is 0 bytes", [](Cluster& c) { c.device_types[0].memory = Bytes{0}; });
  expect("memory bandwidth is 0", [](Cluster& c) { c.device_types[0].memory_bandwidth = 0; });
  expect("host link bandwidth is nan", [](Cluster& c) { c.device_types[0].host.bandwidth = NAN; });
  expect("link bandwidth is inf",
         [](Cluster& c) { c.groups[0].link.bandwidth = std::numeric_limits<double>::infinity(); });
  expect("link latency is 61", [](Cluster& c) { c.groups[0].link.latency = 61; });
  expect("not connected", [](Cluster& c) { c.groups[0].link = {}; });
  expect("uplink bandwidth is -1", [](Cluster& c) { c.groups[1].uplink.bandwidth = -1; });
  expect("a cluster must not have an uplink", [](Cluster& c) { c.groups[2].uplink.bandwidth = 1; });
  expect("only nodes may have host memory", [](Cluster& c) { c.groups[0].host_memory = kGiB; });
  expect("host memory is -1", [](Cluster& c) { c.groups[1].host_memory = Bytes{-1}; });
  expect("0 members", [](Cluster& c) { c.groups[0].members[0].count = 0; });
  expect("has no members", [](Cluster& c) { c.groups[0].members.clear(); });
  expect("more than 1048576 devices", [](Cluster& c) { c.groups[2].members[0].count = 1 << 20; });
  expect("more than 1048576 devices", [](Cluster& c) { c.groups[2].members[0].count = INT64_MAX; });
  expect("does not fit 64 bits", [](Cluster& c) {
    c.device_types[0].memory = kMaxMemory;
    c.groups[2].members[0].count = 100'000;
  });
  expect("the last group must be the cluster, and no other",
         [](Cluster& c) { c.groups[2].kind = GroupKind::kNode; });
  expect("must come before the group", [](Cluster& c) {
    c.groups[0].members[0] = {1, {}, GroupId{0}};
  });
  expect("a member must be either a device or a group",
         [](Cluster& c) { c.groups[0].members[0].device = {}; });
  expect("no device type 7", [](Cluster& c) { c.groups[0].members[0].device = DeviceTypeId{7}; });
  expect("a cluster must not contain a part",
         [](Cluster& c) { c.groups[2].members[0].group = GroupId{0}; });
  expect("no group contains it", [](Cluster& c) { c.groups[2].members[0].group = GroupId{0}; });
  expect("only nodes and parts may contain devices", [](Cluster& c) {
    c.groups[2].members[0] = {2, DeviceTypeId{0}, {}};
  });
  expect("no device is of this type", [](Cluster& c) {
    c.device_types.push_back(c.device_types[0]);
    c.device_types[1].name = "other";
  });
  expect("equal neighbouring members",
         [](Cluster& c) { c.groups[0].members.push_back(c.groups[0].members[0]); });
  expect("only a torus has dims", [](Cluster& c) { c.groups[0].dims = {3}; });
  expect("a torus has 1 to 6 dims", [](Cluster& c) { c.groups[0].topology = Topology::kTorus; });
  expect("describe 4 members, but there are 3", [](Cluster& c) {
    c.groups[0].topology = Topology::kTorus;
    c.groups[0].dims = {2, 2};
  });
  expect("a dimension of the torus is -3", [](Cluster& c) {
    c.groups[0].topology = Topology::kTorus;
    c.groups[0].dims = {-3, -1};
  });
}

TEST(Load, TellsFilesFromPresets) {
  EXPECT_EQ(LoadCluster("dgx-h100:2"), ClusterFromPreset("dgx-h100:2"));
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / "heddle_load_test.yaml";
  std::ofstream(path) << "nodes: [{preset: dgx-h100}]\n";
  EXPECT_EQ(LoadCluster(path.string()).groups[0], ClusterFromPreset("dgx-h100").groups[0]);
  std::filesystem::remove(path);
  EXPECT_THROW(LoadCluster(""), InputError);
  EXPECT_THROW(LoadCluster("nowhere.yaml"), InputError);
  EXPECT_THROW(LoadCluster("/nowhere"), InputError);
  EXPECT_THROW(LoadCluster("."), InputError);
}

TEST(Picture, FoldsEqualGroups) {
  EXPECT_EQ(DrawCluster(ClusterFromPreset("summit:16")),
            R"(summit:16: 96 devices, 1.50 TiB of device memory
│  joined by a switch: infiniband, 12.5 GB/s a device, 5 us
└─ 16 x node summit  (d0..d95)
   │  joined by a switch: x-bus, 64 GB/s a device, 5 us
   │  uplink 25 GB/s, 12.5 GB/s a device, host memory 512 GiB
   └─ 2 x part summit-socket
      │  joined by a mesh: nvlink2, 50 GB/s a pair, 3 us
      │  uplink 64 GB/s
      └─ 3 x v100-power9-16gb

device            count  memory  bandwidth  host link  fp32  tf32  fp16  bf16  fp8 TFLOP/s
v100-power9-16gb     96  16 GiB   900 GB/s    50 GB/s  15.7     -   125     -            -
)");
}

TEST(Picture, ListsEveryPreset) {
  const std::string table = DrawPresets();
  for (const Preset& preset : Presets()) EXPECT_THAT(table, HasSubstr(preset.name + " "));
}

}  // namespace
}  // namespace heddle
