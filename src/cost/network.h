// Numbers every directed link of a cluster and gives its capacity.
//
//   Network net(LoadCluster("dgx-h100:2"));
//   Network::Route way = net.RouteBetween(DeviceId{0}, DeviceId{9});
//   way.links      // node 0's uplink out, d0's port at the network, d9's port, node 1's uplink in
//   way.latency    // 5e-6
//
// Links for every occurrence of a group with more than one member:
//   switch              a port out and a port in for every device below it, of link.bandwidth: a
//                       device of a DGX has one for NVLink in its node, one for the network
//   ring, torus, mesh   a link in each direction between neighbouring members (in a mesh: all pairs); a
//                       message passes the dimensions in turn, the last one first, in the
//                       shorter direction, upwards where both are equal
// and for every group:
//   uplink.bandwidth    a link out and a link in that its devices share; 0: none
//   uplink.per_device   narrows the port that its devices have at the switch outside; where they have
//                       several ports outside, or none, it is a separate link out and in per device
// A route lists the links that a message occupies. Without efficiencies and slow devices its narrowest link has the
// bandwidth of PathBetween (cluster/topology.h), and its latency is the same.
//
// capacity(link) = bandwidth x efficiency[level(link)]. The level is the depth of the group to whose network the link
// belongs: 0 for the links between the members of the whole cluster and for the uplinks of those members, larger
// further inside.
//
// Construction takes O(devices) time and memory (a mesh: O(pairs of members)); names are made on demand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/strong_id.h"
#include "cluster/cluster.h"
#include "cluster/topology.h"

namespace heddle {

struct LinkTag {
  static constexpr std::string_view kPrefix = "l";
};
using LinkId = StrongId<LinkTag>;

enum class LinkRole : std::uint8_t {
  kPort,          // of a device at a switch
  kHop,           // between two members of a ring, torus or mesh
  kUplink,        // the uplink that a group's devices share
  kDeviceUplink,  // the part of the uplink that one device has
};

// What a link is. `group` is the occurrence to whose switch, neighbours or uplink it belongs.
struct LinkKind {
  LinkRole role = LinkRole::kPort;
  int level = 0;    // of the efficiency that applies
  bool out = true;  // out of the device or group; always true for a hop
  GroupSpan group;
  DeviceId device;                // of a port or device uplink
  std::int64_t from = 0, to = 0;  // members at the ends of a hop

  friend bool operator==(const LinkKind&, const LinkKind&) = default;
};

// A device whose own links are slower by `factor` in both directions: its ports and device uplinks, and the hops from
// and to it where it is itself a member of a ring, torus or mesh.
struct SlowDevice {
  DeviceId device;
  double factor = 1;
};

// The largest number of links of a Network. A mesh of some thousand members has more.
constexpr std::int64_t kMaxLinks = std::int64_t{1} << 26;

class Network {
 public:
  // The cluster must be verified; it is copied. Efficiencies and factors must be finite and positive; levels without an
  // efficiency have 1. Throws an InputError where there are more than kMaxLinks links.
  explicit Network(const Cluster& cluster, std::vector<double> efficiency_by_level = {},
                   const std::vector<SlowDevice>& slow = {});

  std::size_t link_count() const { return capacities_.size(); }
  double capacity(LinkId link) const { return capacities_[link.index()]; }  // bytes per second
  const std::vector<double>& capacities() const { return capacities_; }     // by LinkId
  int level(LinkId link) const { return Kind(link).level; }                 // O(log groups)
  LinkKind Kind(LinkId link) const;                                         // O(log groups)
  std::string Name(LinkId link) const;  // "d3 out at dgx-h100:2", "dgx-h100 at d8 in"

  struct Route {
    std::vector<LinkId> links;
    double latency = 0;
  };
  // The devices must differ; O(depth + hops).
  Route RouteBetween(DeviceId from, DeviceId to) const;
  double LatencyBetween(DeviceId from, DeviceId to) const;  // the latency of the route

  std::int64_t device_count() const { return static_cast<std::int64_t>(leaf_.size()); }
  const Cluster& cluster() const { return cluster_; }

  // The tree of groups, for code that lays patterns over it. A spot is one occurrence of a group. spots()[0] is the
  // whole cluster, and each spot comes before those inside it, in device order. Links are numbered in the same order;
  // those of one spot in the order of the fields below.
  struct Spot {
    GroupId group;
    std::int32_t parent = -1;  // index of a spot
    std::int32_t depth = 0;
    std::int64_t member = 0;            // its index among the parent's members
    std::int64_t first = 0, count = 0;  // devices
    std::int32_t uplink_level = 0;
    std::int32_t links = 0;            // index of its first link
    std::int32_t ports = -1;           // first of 2 x count links, out and in per device; -1: none
    std::int32_t hops = -1;            // first link between members; -1: none
    std::int32_t uplink = -1;          // the link out, followed by the link in; -1: none
    std::int32_t device_uplinks = -1;  // first of 2 x count links; -1: none
  };
  const std::vector<Spot>& spots() const { return spots_; }
  // The innermost spot.
  std::int32_t LeafOf(DeviceId device) const { return leaf_[device.index()]; }
  // The index of the device, or of the group that contains it, among the members of a spot above it.
  std::int64_t MemberOf(std::int32_t spot, DeviceId device) const;
  // Seconds that a message from or to the device spends on uplinks inside a spot above it.
  double ExitLatency(std::int32_t spot, DeviceId device) const;
  // Links of a spot, which must have them.
  static LinkId Port(const Spot& spot, DeviceId device, bool out);
  static LinkId DeviceUplink(const Spot& spot, DeviceId device, bool out);
  static LinkId Uplink(const Spot& spot, bool out);
  std::vector<std::int64_t> Dims(const Spot& spot) const;  // of a torus; a ring has one dimension
  // The link from a member of a ring or torus to the next one up or down a dimension. A dimension of two members has no
  // link down.
  LinkId Hop(const Spot& spot, std::int64_t member, std::size_t dim, bool down) const;
  // Appends the links from one member of a ring, torus or mesh to another.
  void AppendHops(const Spot& spot, std::int64_t from, std::int64_t to,
                  std::vector<LinkId>& links) const;

 private:
  struct Above;
  void Add(GroupId group, const Above& above);
  std::int32_t Allocate(std::int64_t count, double capacity);
  void Slow(const SlowDevice& slow);
  double Efficiency(int level) const;
  std::int32_t CommonSpot(DeviceId from, DeviceId to) const;

  Cluster cluster_;
  std::vector<double> efficiency_;
  std::vector<std::int64_t> sizes_;          // devices of one occurrence of each group
  std::vector<std::int64_t> member_counts_;  // of each group
  std::vector<double> capacities_;
  std::vector<Spot> spots_;
  std::vector<std::int32_t> leaf_;         // by device
  std::vector<std::int32_t> leaf_member_;  // by device: its index among the members of its leaf
};

}  // namespace heddle
