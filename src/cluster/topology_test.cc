#include "cluster/topology.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/hash.h"
#include "cluster/presets.h"
#include "cluster/yaml.h"

namespace heddle {
namespace {

// Two different racks: a ring of 4 nodes of 2 chips each, and one node of 3 chips.
Cluster Unlike() {
  return ClusterFromYaml(R"(
name: unlike
device_types:
  - {name: a, fp32: 1 TFLOP/s, memory: 1 GiB, memory_bandwidth: 1 GB/s}
  - {name: b, fp32: 2 TFLOP/s, memory: 2 GiB, memory_bandwidth: 1 GB/s}
link: {name: spine, bandwidth: 10 GB/s, latency: 10 us}
racks:
  - name: left
    topology: ring
    link: {name: leaf, bandwidth: 20 GB/s, latency: 2 us}
    uplink: {bandwidth: 8 GB/s, per_device: 7 GB/s, latency: 1 us}
    nodes:
      - name: pair
        count: 4
        link: {name: wire, bandwidth: 100 GB/s, latency: 1 us}
        uplink: {per_device: 6 GB/s}
        device: a
        devices: 2
  - name: right
    nodes:
      - name: three
        host_memory: 16 GiB
        link: {name: wire, bandwidth: 100 GB/s, latency: 1 us}
        parts:
          - {device: a, count: 1}
          - {device: b, count: 2}
)",
                         "unlike.yaml");
}

TEST(Topology, NumbersDevicesInTreeOrder) {
  const Cluster c = Unlike();
  EXPECT_EQ(DeviceCount(c), 11);
  EXPECT_EQ(c.type(TypeOf(c, DeviceId{8})).name, "a");
  EXPECT_EQ(c.type(TypeOf(c, DeviceId{9})).name, "b");
  EXPECT_EQ(Depth(c), 3);
  const std::vector<GroupSpan> racks = GroupsAt(c, 1);
  ASSERT_EQ(racks.size(), 2u);
  EXPECT_EQ(racks[1].first, DeviceId{8});
  EXPECT_EQ(racks[1].count, 3);
  EXPECT_EQ(GroupsAt(c, 2).size(), 5u);
  EXPECT_TRUE(GroupsAt(c, 3).empty());
  EXPECT_EQ(GroupsAt(c, 2), NodesOf(c));
  const std::vector<GroupSpan> above = GroupsOf(c, DeviceId{5});
  ASSERT_EQ(above.size(), 3u);
  EXPECT_EQ(above[2], (GroupSpan{above[2].group, DeviceId{4}, 2}));
  EXPECT_EQ(c.group(above[2].group).name, "pair");
  EXPECT_EQ(NodeOf(c, DeviceId{5}), above[2]);
}

TEST(Topology, FindsRunsOfEqualDevices) {
  const Cluster c = Unlike();
  const std::vector<DeviceRun> runs = EqualRuns(c);
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0], (DeviceRun{runs[0].type, DeviceId{0}, 9}));
  EXPECT_EQ(runs[1], (DeviceRun{runs[1].type, DeviceId{9}, 2}));
  EXPECT_FALSE(IsHomogeneous(c));
  EXPECT_EQ(TotalMemory(c), kGiB * 13);
  EXPECT_EQ(Occurrences(c), (std::vector<std::int64_t>{4, 1, 1, 1, 1}));
  EXPECT_EQ(EqualRuns(ClusterFromPreset("dgx-h100:131072")).size(), 1u);
}

TEST(Topology, PathsMeetInTheSmallestCommonGroup) {
  const Cluster c = Unlike();
  const Path inside = PathBetween(c, DeviceId{0}, DeviceId{1});
  EXPECT_EQ(inside.bandwidth, 100e9);
  EXPECT_EQ(inside.latency, 1e-6);
  EXPECT_TRUE(inside.leaves.empty() && inside.enters.empty());
  // Two nodes along the ring: two hops, limited by the bandwidth of a device's uplink.
  const Path ring = PathBetween(c, DeviceId{0}, DeviceId{5});
  EXPECT_EQ(c.group(ring.common.group).name, "left");
  EXPECT_EQ(ring.hops, 2);
  EXPECT_EQ(ring.bandwidth, 6e9);
  EXPECT_DOUBLE_EQ(ring.latency, 4e-6);
  EXPECT_EQ(PathBetween(c, DeviceId{0}, DeviceId{7}).hops, 1);  // the ring closes
  const Path far = PathBetween(c, DeviceId{7}, DeviceId{10});
  EXPECT_EQ(c.group(far.common.group).name, "unlike");
  ASSERT_EQ(far.leaves.size(), 2u);
  EXPECT_EQ(c.group(far.leaves[0].group).name, "pair");
  EXPECT_EQ(c.group(far.leaves[1].group).name, "left");
  ASSERT_EQ(far.enters.size(), 2u);
  EXPECT_EQ(c.group(far.enters[1].group).name, "three");
  EXPECT_EQ(far.bandwidth, 6e9);
  EXPECT_DOUBLE_EQ(far.latency, 11e-6);  // the spine, and the uplink of the left rack
}

TEST(Topology, PathsAreSymmetric) {
  for (const Cluster& c :
       {Unlike(), ClusterFromPreset("tpu-v4:2x3x4"), ClusterFromPreset("summit:2")}) {
    const auto n = static_cast<std::int32_t>(DeviceCount(c));
    for (std::int32_t a = 0; a < n; ++a) {
      for (std::int32_t b = 0; b < a; ++b) {
        const Path there = PathBetween(c, DeviceId{a}, DeviceId{b});
        const Path back = PathBetween(c, DeviceId{b}, DeviceId{a});
        EXPECT_EQ(there.bandwidth, back.bandwidth);
        EXPECT_DOUBLE_EQ(there.latency, back.latency);
        EXPECT_EQ(there.common, back.common);
      }
    }
  }
}

TEST(Topology, TorusHopsAreTheSumOverDimensions) {
  Group torus = {.name = "t", .topology = Topology::kTorus, .dims = {4, 5}};
  torus.members = {{20, DeviceTypeId{0}, {}}};
  torus.link = {"l", 10, 1};
  EXPECT_EQ(HopsBetween(torus, 0, 0), 0);
  EXPECT_EQ(HopsBetween(torus, 0, 4), 1);   // (0,4): round the second
  EXPECT_EQ(HopsBetween(torus, 0, 15), 1);  // (3,0): round the first
  EXPECT_EQ(HopsBetween(torus, 0, 12), 4);  // (2,2)
  EXPECT_EQ(HopsBetween(torus, 19, 0), 2);
  EXPECT_EQ(InjectionBandwidth(torus), 40);
  torus.dims = {2, 10};
  EXPECT_EQ(InjectionBandwidth(torus), 30);  // a ring of two has one link
  torus.topology = Topology::kMesh;
  EXPECT_EQ(InjectionBandwidth(torus), 190);
  torus.topology = Topology::kSwitch;
  EXPECT_EQ(InjectionBandwidth(torus), 10);
  torus.topology = Topology::kRing;
  EXPECT_EQ(InjectionBandwidth(torus), 20);
}

TEST(Topology, HashSeesEverythingButTheName) {
  const Cluster c = Unlike();
  const std::uint64_t hash = StableHash(c);
  Cluster other = c;
  other.name = other.groups.back().name = "renamed";
  EXPECT_EQ(StableHash(other), hash);
  std::vector<Cluster> changed;
  const auto change = [&](auto&& edit) { changed.push_back(c), edit(changed.back()); };
  change([](Cluster& x) { x.device_types[0].peak.fp8 = 1; });
  change([](Cluster& x) { x.device_types[0].memory.value += 1; });
  change([](Cluster& x) { x.device_types[0].memory_bandwidth += 1; });
  change([](Cluster& x) { x.device_types[0].host.latency = 1; });
  change([](Cluster& x) { x.groups[0].link.bandwidth += 1; });
  change([](Cluster& x) { x.groups[0].link.name = "w"; });
  change([](Cluster& x) { x.groups[0].uplink.latency = 1; });
  change([](Cluster& x) { x.groups[0].host_memory = kGiB; });
  change([](Cluster& x) { x.groups[0].members[0].count = 3; });
  change([](Cluster& x) { x.groups[0].topology = Topology::kRing; });
  change([](Cluster& x) { x.groups[0].dims = {2}; });
  change([](Cluster& x) { x.groups[0].name = "q"; });
  std::vector<std::uint64_t> hashes = {hash};
  for (const Cluster& one : changed) hashes.push_back(StableHash(one));
  std::sort(hashes.begin(), hashes.end());
  EXPECT_EQ(std::adjacent_find(hashes.begin(), hashes.end()), hashes.end());
  // The hash is written to files, so it must be the same on every machine and in every version.
  EXPECT_EQ(HashToHex(StableHash(ClusterFromPreset("dgx-h100:16"))), "4078299fbbf34011");
  EXPECT_EQ(HashToHex(StableHash(ClusterFromPreset("tpu-v3:4x4"))), "ad5e1fb9d856fa18");
}

}  // namespace
}  // namespace heddle
