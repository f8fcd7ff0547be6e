#include "cost/network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/rng.h"
#include "cluster/presets.h"
#include "cost/random_cluster_test.h"

namespace heddle {
namespace {

std::vector<std::string> Names(const Network& net, DeviceId from, DeviceId to) {
  std::vector<std::string> names;
  for (const LinkId link : net.RouteBetween(from, to).links) names.push_back(net.Name(link));
  return names;
}

double Narrowest(const Network& net, const Network::Route& route) {
  double bandwidth = net.capacity(route.links.at(0));
  for (const LinkId link : route.links) bandwidth = std::min(bandwidth, net.capacity(link));
  return bandwidth;
}

TEST(Network, ADgxHasPortsForNvlinkAndForTheNetwork) {
  const Network net(ClusterFromPreset("dgx-h100:2"));
  // 16 devices x 2 ports x 2 directions, 2 uplinks x 2 directions.
  EXPECT_EQ(net.link_count(), 68u);
  EXPECT_EQ(Names(net, D(0), D(3)),
            (std::vector<std::string>{"d0 out at dgx-h100", "d3 in at dgx-h100"}));
  EXPECT_EQ(Names(net, D(0), D(9)),
            (std::vector<std::string>{"dgx-h100 at d0 out", "d0 out at dgx-h100:2",
                                      "d9 in at dgx-h100:2", "dgx-h100 at d8 in"}));
  const Network::Route inside = net.RouteBetween(D(0), D(3));
  const Network::Route outside = net.RouteBetween(D(0), D(9));
  EXPECT_EQ(Narrowest(net, inside), 450e9);
  EXPECT_EQ(Narrowest(net, outside), 50e9);
  EXPECT_EQ(net.capacity(outside.links[0]), 400e9);
  EXPECT_EQ(net.level(inside.links[0]), 1);
  for (const LinkId link : outside.links) EXPECT_EQ(net.level(link), 0);
}

TEST(Network, EfficiencyIsPerLevel) {
  const Cluster cluster = ClusterFromPreset("dgx-h100:2");
  const Network net(cluster, {0.5, 0.25});
  const Network plain(cluster);
  for (std::size_t i = 0; i < net.link_count(); ++i) {
    const LinkId link = LinkId::FromIndex(i);
    EXPECT_EQ(net.capacity(link), plain.capacity(link) * (net.level(link) == 0 ? 0.5 : 0.25));
  }
  EXPECT_EQ(Network(cluster, {0.5}).capacity(net.RouteBetween(D(0), D(1)).links[0]), 450e9);
}

TEST(Network, ASlowDeviceSlowsItsOwnLinks) {
  for (const char* name : {"dgx-h100:2", "tpu-v4:4x4x4", "tpu-v3:2x2", "summit:2"}) {
    const Cluster cluster = ClusterFromPreset(name);
    const Network plain(cluster);
    const Network net(cluster, {}, {{D(3), 4}});
    std::size_t slower = 0;
    for (std::size_t i = 0; i < net.link_count(); ++i) {
      const LinkId link = LinkId::FromIndex(i);
      const LinkKind kind = net.Kind(link);
      bool own = kind.device == D(3);
      if (kind.role == LinkRole::kHop &&
          kind.group.count == MemberCount(cluster.group(kind.group.group))) {
        own = kind.group.first.value + kind.from == 3 || kind.group.first.value + kind.to == 3;
      }
      EXPECT_EQ(net.capacity(link), plain.capacity(link) / (own ? 4 : 1)) << net.Name(link);
      if (own) ++slower;
    }
    EXPECT_GT(slower, 1u) << name;
  }
}

TEST(Network, RoutesInATorusGoTheShorterWayLastDimensionFirst) {
  const Network net(ClusterFromPreset("tpu-v4:4x4x8"));
  const auto hops = [&](std::int64_t from, std::int64_t to) {
    std::vector<std::int64_t> passed = {from};
    for (const LinkId link : net.RouteBetween(D(from), D(to)).links) {
      const LinkKind kind = net.Kind(link);
      EXPECT_EQ(kind.role, LinkRole::kHop);
      EXPECT_EQ(kind.from, passed.back());
      passed.push_back(kind.to);
    }
    return passed;
  };
  EXPECT_EQ(hops(0, 6), (std::vector<std::int64_t>{0, 7, 6}));
  // Equal distances: the message goes up.
  EXPECT_EQ(hops(2, 6), (std::vector<std::int64_t>{2, 3, 4, 5, 6}));
  EXPECT_EQ(hops(6, 2), (std::vector<std::int64_t>{6, 7, 0, 1, 2}));
  EXPECT_EQ(hops(1, 96), (std::vector<std::int64_t>{1, 0, 96}));
}

// Checks that a route agrees with PathBetween, that its hops are connected, and that Kind describes each of its links.
void ExpectLikePath(const Cluster& cluster, const Network& net, DeviceId from, DeviceId to) {
  const Path path = PathBetween(cluster, from, to);
  const Network::Route route = net.RouteBetween(from, to);
  EXPECT_EQ(Narrowest(net, route), path.bandwidth) << from << " to " << to;
  EXPECT_NEAR(route.latency, path.latency, 1e-14 * path.latency);
  EXPECT_EQ(net.LatencyBetween(from, to), route.latency);
  std::int64_t hops = 0;
  std::set<LinkId> distinct;
  for (const LinkId link : route.links) {
    const LinkKind kind = net.Kind(link);
    if (kind.role == LinkRole::kHop) ++hops;
    if (kind.role == LinkRole::kPort || kind.role == LinkRole::kDeviceUplink) {
      EXPECT_EQ(kind.device, kind.out ? from : to);
    }
    distinct.insert(link);
  }
  EXPECT_EQ(distinct.size(), route.links.size());
  const bool is_switch = cluster.group(path.common.group).topology == Topology::kSwitch;
  EXPECT_EQ(hops, is_switch ? 0 : path.hops);
}

TEST(Network, AgreesWithPathBetweenOnPresets) {
  for (const Preset& preset : Presets()) {
    const Cluster cluster = ClusterFromPreset(preset.name + (preset.torus_dims > 0 ? ":16" : ":3"));
    const Network net(cluster);
    ASSERT_EQ(net.device_count(), DeviceCount(cluster));
    for (std::int64_t from = 0; from < net.device_count(); ++from) {
      for (std::int64_t to = 0; to < net.device_count(); ++to) {
        if (from != to) ExpectLikePath(cluster, net, D(from), D(to));
      }
    }
  }
}

TEST(Network, AgreesWithPathBetweenOnRandomClusters) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const Cluster cluster = RandomCluster(seed);
    ASSERT_EQ(Verify(cluster), std::vector<std::string>{});
    const Network net(cluster);
    const auto count = static_cast<std::uint64_t>(net.device_count());
    for (std::uint64_t i = 0; i < 40 && count > 1; ++i) {
      const auto from = static_cast<std::int64_t>(RandomBelow(count, seed, 10, i));
      const auto to = static_cast<std::int64_t>(RandomBelow(count, seed, 11, i));
      if (from != to) ExpectLikePath(cluster, net, D(from), D(to));
    }
  }
}

TEST(Network, LinksAreNumberedInTheOrderOfTheWalk) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Network net(RandomCluster(seed));
    std::set<std::string> names;
    for (std::size_t i = 0; i < net.link_count(); ++i) names.insert(net.Name(LinkId::FromIndex(i)));
    EXPECT_EQ(names.size(), net.link_count());
    for (std::size_t i = 1; i < net.spots().size(); ++i) {
      EXPECT_LE(net.spots()[i - 1].links, net.spots()[i].links);
      EXPECT_LT(net.spots()[i].parent, static_cast<std::int32_t>(i));
    }
  }
}

TEST(Network, RefusesAMeshOfTooManyMembers) {
  Cluster cluster = ClusterFromPreset("dgx-h100:10000");
  cluster.groups.back().topology = Topology::kMesh;
  ASSERT_TRUE(Verify(cluster).empty());
  EXPECT_THROW(Network{cluster}, InputError);
}

TEST(Network, HoldsAHundredThousandDevices) {
  const Network net(ClusterFromPreset("dgx-h100:16384"));
  EXPECT_EQ(net.device_count(), 131072);
  EXPECT_EQ(net.link_count(), 131072u * 4 + 16384 * 2);
  EXPECT_EQ(net.RouteBetween(D(0), D(131071)).links.size(), 4u);
}

}  // namespace
}  // namespace heddle
