#include "cost/collective_cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include "base/rng.h"
#include "cluster/presets.h"
#include "cluster/yaml.h"
#include "cost/random_cluster_test.h"

namespace heddle {
namespace {

constexpr double kNvlink = 450e9, kCard = 50e9;  // bandwidths of a dgx-h100, per device
constexpr double kInner = 3e-6, kOuter = 5e-6;   // seconds per hop
constexpr double kBytes = 1e6 + 1;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<DeviceId> Range(std::int64_t count, std::int64_t first = 0, std::int64_t step = 1) {
  std::vector<DeviceId> devices;
  for (std::int64_t i = 0; i < count; ++i) devices.push_back(D(first + i * step));
  return devices;
}

using Shares = std::map<LinkId, double>;

Shares SharesOf(const Pattern& pattern) {
  Shares shares;
  for (std::size_t i = 0; i < pattern.loads.size(); ++i) {
    EXPECT_TRUE(i == 0 || pattern.loads[i - 1].link < pattern.loads[i].link);
    EXPECT_GT(pattern.loads[i].share, 0);
    shares[pattern.loads[i].link] = pattern.loads[i].share;
  }
  return shares;
}

void ExpectNear(const Network& net, const Shares& got, const Shares& want) {
  EXPECT_EQ(got.size(), want.size());
  for (const auto& [link, share] : want) {
    const auto at = got.find(link);
    ASSERT_NE(at, got.end()) << net.Name(link);
    EXPECT_NEAR(at->second, share, 1e-9 * share) << net.Name(link);
  }
}

void ExpectSeconds(const Network& net, const Pattern& pattern, CollectiveKind kind,
                   Algorithm algorithm, double seconds) {
  const CollectiveCost cost = CostOf(kind, algorithm, pattern, kBytes);
  EXPECT_NEAR(Uncontended(net, pattern, cost), seconds, 1e-9 * seconds)
      << Name(kind) << " by " << Name(algorithm);
}

using Kind = CollectiveKind;

TEST(CollectiveCost, ClosedFormsInOneNode) {
  const Network net(ClusterFromPreset("dgx-h100:2"));
  for (const std::int64_t count : {2, 3, 5, 8}) {
    const auto members = Range(count);
    const Pattern ring = RingPattern(net, members);
    const Pattern direct = AllToAllPattern(net, members);
    EXPECT_EQ(ring.members, count);
    EXPECT_EQ(ring.groups, count);
    const auto p = static_cast<double>(count);
    const double n = kBytes;
    const double a = kInner, beta = 1 / kNvlink;
    ExpectSeconds(net, ring, Kind::kAllReduce, Algorithm::kRing,
                  2 * (p - 1) * a + 2 * (p - 1) / p * n * beta);
    ExpectSeconds(net, ring, Kind::kAllReduce, Algorithm::kTwoLevel,
                  2 * (p - 1) * a + 2 * (p - 1) / p * n * beta);
    ExpectSeconds(net, ring, Kind::kAllReduce, Algorithm::kTree,
                  2 * std::ceil(std::log2(p)) * a + 2 * n * beta);
    ExpectSeconds(net, ring, Kind::kAllGather, Algorithm::kRing, (p - 1) * a + (p - 1) * n * beta);
    ExpectSeconds(net, ring, Kind::kReduceScatter, Algorithm::kRing,
                  (p - 1) * a + (p - 1) / p * n * beta);
    ExpectSeconds(net, ring, Kind::kBroadcast, Algorithm::kRing, (p - 1) * a + n * beta);
    ExpectSeconds(net, direct, Kind::kAllToAll, Algorithm::kDirect, a + (p - 1) / p * n * beta);
  }
}

// For k nodes of g devices the flow is limited by the network card (V/g at 50 GB/s) for g up to 8, never by NVLink
// (V(1-1/g) at 450 GB/s).
TEST(CollectiveCost, ClosedFormsAcrossNodes) {
  const Network net(ClusterFromPreset("dgx-h100:8"));
  for (const std::int64_t k : {2, 3, 8}) {
    for (const std::int64_t g : {1, 2, 8}) {
      std::vector<DeviceId> members;
      for (std::int64_t node = 0; node < k; ++node) {
        for (const DeviceId device : Range(g, node * 8)) members.push_back(device);
      }
      const Pattern ring = RingPattern(net, members);
      const Pattern direct = AllToAllPattern(net, members);
      EXPECT_EQ(ring.groups, k);
      const auto p = static_cast<double>(k * g), K = static_cast<double>(k),
                 G = static_cast<double>(g);
      const double n = kBytes, a = kInner, b = kOuter;
      const double beta = 1 / G / kCard;
      const double pass = g == 1 ? (p - 1) * b : (p - 1 - K) * a + K * b;
      const double levels = (G - 1) * a + (K - 1) * b;
      const double tree = std::ceil(std::log2(G)) * a + std::ceil(std::log2(K)) * b;
      ExpectSeconds(net, ring, Kind::kAllReduce, Algorithm::kRing,
                    2 * pass + 2 * (p - 1) / p * n * beta);
      ExpectSeconds(net, ring, Kind::kAllReduce, Algorithm::kTwoLevel,
                    2 * levels + 2 * (p - 1) / p * n * beta);
      ExpectSeconds(net, ring, Kind::kAllReduce, Algorithm::kTree, 2 * tree + 2 * n * beta);
      ExpectSeconds(net, ring, Kind::kAllGather, Algorithm::kRing, pass + (p - 1) * n * beta);
      ExpectSeconds(net, ring, Kind::kReduceScatter, Algorithm::kRing,
                    pass + (p - 1) / p * n * beta);
      ExpectSeconds(net, ring, Kind::kBroadcast, Algorithm::kRing, pass + n * beta);
      ExpectSeconds(
          net, direct, Kind::kAllToAll, Algorithm::kDirect,
          std::ceil((G - 1) / 8) * a + std::ceil((p - G) / 8) * b + (p - G) / p * n / kCard);
    }
  }
}

TEST(CollectiveCost, OneMemberCostsNothing) {
  const Network net(ClusterFromPreset("dgx-h100:2"));
  for (std::size_t kind = 0; kind < kCollectiveNames.size(); ++kind) {
    for (const Pattern& pattern : {RingPattern(net, Range(1)), AllToAllPattern(net, Range(1))}) {
      EXPECT_TRUE(pattern.loads.empty());
      EXPECT_EQ(pattern.members, 1);
      const CollectiveCost cost = Choose(static_cast<Kind>(kind), pattern, 1e9, 0);
      EXPECT_EQ(cost.latency, 0);
      EXPECT_EQ(cost.volume, 0);
      EXPECT_EQ(Uncontended(net, pattern, cost), 0);
    }
  }
}

// Builds the rings themselves: ring r visits the devices of a node in order and leaves from device r.
TEST(CollectiveCost, ARingPatternIsTheSumOfItsRings) {
  const Network net(ClusterFromPreset("dgx-h100:4"));
  for (const std::int64_t g : {1, 2, 3, 8}) {
    Shares want;
    std::vector<DeviceId> members;
    for (std::int64_t r = 0; r < g; ++r) {
      std::vector<DeviceId> order;
      for (std::int64_t node = 0; node < 4; ++node) {
        for (std::int64_t i = 1; i <= g; ++i) order.push_back(D(node * 8 + (r + i) % g));
      }
      for (std::size_t i = 0; i < order.size(); ++i) {
        for (const LinkId link : net.RouteBetween(order[i], order[(i + 1) % order.size()]).links) {
          want[link] += 1 / static_cast<double>(g);
        }
      }
      if (r == 0) members = order;
    }
    ExpectNear(net, SharesOf(RingPattern(net, members)), want);
  }
}

TEST(CollectiveCost, SharesAtThreeLevels) {
  const Network net(ClusterFromYaml(R"(
name: racks
device_types:
  - {name: a, fp32: 1 TFLOP/s, memory: 1 GiB, memory_bandwidth: 1 GB/s}
link: {name: spine, bandwidth: 10 GB/s, latency: 10 us}
racks:
  - name: rack
    count: 2
    link: {name: leaf, bandwidth: 20 GB/s, latency: 2 us}
    uplink: {bandwidth: 30 GB/s, latency: 1 us}
    nodes:
      - name: node
        count: 3
        link: {name: wire, bandwidth: 100 GB/s, latency: 1 us}
        uplink: {per_device: 15 GB/s}
        device: a
        devices: 4
)",
                                    "racks.yaml"));
  const Pattern ring = RingPattern(net, Range(24));
  const Pattern direct = AllToAllPattern(net, Range(24));
  const auto expect = [&](const Pattern& pattern, std::vector<double> ports, double rack,
                          double device) {
    for (const LinkLoad& load : pattern.loads) {
      const LinkKind kind = net.Kind(load.link);
      double want = 0;
      if (kind.role == LinkRole::kPort) want = ports[static_cast<std::size_t>(kind.level)];
      if (kind.role == LinkRole::kUplink) want = rack;
      if (kind.role == LinkRole::kDeviceUplink) want = device;
      EXPECT_NEAR(load.share, want, 1e-12) << net.Name(load.link);
    }
    EXPECT_EQ(pattern.loads.size(), 24u * 2 * 4 + 4);
  };
  expect(ring, {1.0 / 12, 1.0 / 4 - 1.0 / 12, 1 - 1.0 / 4}, 1, 1.0 / 4);
  expect(direct, {12.0 / 24, 8.0 / 24, 3.0 / 24}, 12.0 * 12 / 24, 20.0 / 24);
  // Latencies of hops: spine 10 + 2 x 1 us, leaf 2 us, wire 1 us. The ring has 2, 4 and 18 of them.
  EXPECT_NEAR(ring.ring, (2 * 12 + 4 * 2 + 17 * 1) * 1e-6, 1e-15);
  EXPECT_NEAR(ring.levels, (1 * 12 + 2 * 2 + 3 * 1) * 1e-6, 1e-15);
  EXPECT_NEAR(ring.tree, (1 * 12 + 2 * 2 + 2 * 1) * 1e-6, 1e-15);
  EXPECT_NEAR(direct.direct, (2 * 12 + 1 * 2 + 1 * 1) * 1e-6, 1e-15);
}

std::vector<DeviceId> RandomMembers(const Network& net, std::uint64_t seed) {
  std::vector<DeviceId> members;
  for (std::int64_t i = 0; i < net.device_count(); ++i) {
    if (RandomBelow(3, seed, 20, static_cast<std::uint64_t>(i)) > 0) members.push_back(D(i));
  }
  if (members.empty()) members.push_back(D(0));
  return members;
}

TEST(CollectiveCost, AnAllToAllIsTheSumOfItsRoutes) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const Network net(RandomCluster(seed));
    const std::vector<DeviceId> members = RandomMembers(net, seed);
    if (members.size() > 200) continue;
    Shares want;
    for (const DeviceId from : members) {
      for (const DeviceId to : members) {
        if (from == to) continue;
        for (const LinkId link : net.RouteBetween(from, to).links) {
          want[link] += 1 / static_cast<double>(members.size());
        }
      }
    }
    ExpectNear(net, SharesOf(AllToAllPattern(net, members)), want);
  }
}

// In any cluster the volume leaves every group once, and the order of the members does not matter.
TEST(CollectiveCost, ARingPassesEveryUplinkOnce) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const Network net(RandomCluster(seed));
    std::vector<DeviceId> members = RandomMembers(net, seed);
    const Pattern ring = RingPattern(net, members);
    std::map<std::tuple<DeviceId, GroupId, bool>, double> left;  // summed over device uplinks
    for (const LinkLoad& load : ring.loads) {
      const LinkKind kind = net.Kind(load.link);
      EXPECT_LE(load.share, kind.role == LinkRole::kHop ? kInfinity : 1);
      if (kind.role == LinkRole::kUplink) {
        EXPECT_EQ(load.share, 1);
      }
      if (kind.role == LinkRole::kDeviceUplink) {
        left[{kind.group.first, kind.group.group, kind.out}] += load.share;
      }
    }
    for (const auto& [group, share] : left) EXPECT_NEAR(share, 1, 1e-12);
    std::reverse(members.begin(), members.end());
    const Pattern again = RingPattern(net, members);
    EXPECT_EQ(again.loads, ring.loads);
    EXPECT_EQ(again.ring, ring.ring);
  }
}

// Expects `count` loads on hops, all equal to `share`.
void ExpectHops(const Network& net, const Pattern& pattern, std::size_t count, double share) {
  std::size_t hops = 0;
  for (const LinkLoad& load : pattern.loads) {
    if (net.Kind(load.link).role != LinkRole::kHop) continue;
    ++hops;
    EXPECT_NEAR(load.share, share, 1e-12) << net.Name(load.link);
  }
  EXPECT_EQ(hops, count);
}

TEST(CollectiveCost, ATorusUsesAllItsLinks) {
  const Network cube(ClusterFromPreset("tpu-v4:4x4x8"));
  ExpectHops(cube, RingPattern(cube, Range(128)), 128 * 6, 1.0 / 6);
  EXPECT_NEAR(RingPattern(cube, Range(128)).ring, (3 + 3 + 7) * 1e-6, 1e-15);
  ExpectHops(cube, RingPattern(cube, Range(8)), 16, 1.0 / 2);        // a ring, in both directions
  ExpectHops(cube, RingPattern(cube, Range(4, 0, 2)), 16, 1.0 / 2);  // every second member of it
  ExpectHops(cube, RingPattern(cube, Range(4)), 6, 1);               // a line
  ExpectHops(cube, RingPattern(cube, Range(2)), 2, 1);
  ExpectHops(cube, RingPattern(cube, Range(32)), 32 * 4, 1.0 / 4);   // a plane of 4x8
  ExpectHops(cube, RingPattern(cube, Range(16)), 16 + 32, 1.0 / 3);  // two rings side by side
  // The members form no box: they are visited in order, in both directions, 1 to 8 through 0 and 8 to 1 through 9.
  Shares want;
  for (const auto& [from, to] : {std::pair{0, 1}, {1, 8}, {8, 0}, {1, 0}, {8, 1}, {0, 8}}) {
    for (const LinkId link : cube.RouteBetween(D(from), D(to)).links) want[link] += 0.5;
  }
  ExpectNear(cube, SharesOf(RingPattern(cube, std::vector{D(0), D(1), D(8)})), want);
  // With two cores per chip, half of the volume stays inside the chip.
  const Network chips(ClusterFromPreset("tpu-v3:4x4"));
  const Pattern ring = RingPattern(chips, Range(32));
  ExpectHops(chips, ring, 16 * 4, 1.0 / 4);
  EXPECT_EQ(ring.loads.size(), 16u * 4 + 32 * 2);
  EXPECT_EQ(ring.loads.back().share, 0.5);
}

TEST(CollectiveCost, AMeshUsesAllPairs) {
  const Network net(ClusterFromPreset("summit:2"));
  ExpectHops(net, RingPattern(net, Range(3)), 6, 1.0 / 2);
  ExpectHops(net, RingPattern(net, Range(2)), 2, 1);
  // 2 nodes x 2 sockets x 3 devices: two thirds of what a device forwards stays in the socket.
  ExpectHops(net, RingPattern(net, Range(12)), 24, 1.0 / 3);
}

TEST(CollectiveCost, ChoosesTheCheapest) {
  const Network net(ClusterFromPreset("dgx-h100:8"));
  const Pattern ring = RingPattern(net, Range(64));
  const double beta = SecondsPerByte(net, ring);
  EXPECT_EQ(beta, 1.0 / 8 / kCard);
  const auto choose = [&](const Pattern& pattern, double bytes) {
    return Choose(Kind::kAllReduce, pattern, bytes, beta).algorithm;
  };
  EXPECT_EQ(choose(ring, 1), Algorithm::kTree);
  EXPECT_EQ(choose(ring, 1e9), Algorithm::kTwoLevel);
  const Pattern one = RingPattern(net, Range(8));
  EXPECT_EQ(choose(one, 1), Algorithm::kTree);
  EXPECT_EQ(choose(one, 1e9), Algorithm::kRing);  // two-level is the same there
  EXPECT_EQ(Choose(Kind::kAllGather, ring, 1, beta).algorithm, Algorithm::kRing);
  EXPECT_EQ(Choose(Kind::kAllToAll, AllToAllPattern(net, Range(64)), 1, beta).algorithm,
            Algorithm::kDirect);
  for (const double bytes : {1.0, 1e5, 1e7}) {
    const CollectiveCost best = Choose(Kind::kAllReduce, ring, bytes, beta);
    for (const Algorithm other : {Algorithm::kRing, Algorithm::kTwoLevel, Algorithm::kTree}) {
      EXPECT_LE(Uncontended(net, ring, best),
                Uncontended(net, ring, CostOf(Kind::kAllReduce, other, ring, bytes)));
    }
  }
}

}  // namespace
}  // namespace heddle
