// The hardware to train on: devices, the links between them, and how they are grouped.
//
// A Cluster is a plain value. Its groups form a tree, cluster ⊃ rack ⊃ node ⊃ part ⊃ device, which is stored by shape:
// sixteen equal nodes are one Group and a count. Devices are numbered consecutively in the order of the tree, so that
// consecutive device numbers are neighbours.
//
//   Cluster c = LoadCluster("dgx-h100:2");       // cluster/load.h
//   c.groups[0]                                  // the node: 8 devices behind a switch
//   c.groups[1]                                  // the whole cluster: 2 of groups[0]
//   DeviceCount(c) == 16                         // cluster/topology.h
//
// Bandwidths are in bytes per second in one direction, latencies in seconds, rates in FLOP per second. All are peak
// figures of the data sheet, dense rather than sparse.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/strong_id.h"
#include "base/units.h"

namespace heddle {

struct DeviceTag {
  static constexpr std::string_view kPrefix = "d";
};
using DeviceId = StrongId<DeviceTag>;
using DeviceTypeId = StrongId<struct DeviceTypeTag>;
using GroupId = StrongId<struct GroupTag>;

constexpr std::int64_t kMaxDevices = 1 << 20;
constexpr int kMaxGroupDepth = 16;
constexpr std::size_t kMaxTorusDims = 6;
constexpr std::size_t kMaxClusterName = 100;        // bytes
constexpr Bytes kMaxMemory{std::int64_t{1} << 50};  // of one device, or of one host
constexpr double kMaxBandwidth = 1e15;
constexpr double kMaxLatency = 60;
constexpr double kMaxRate = 1e18;

// Peak rates of matrix products by the type of the operands; 0 where the device does not support it.
struct Rates {
  double fp32 = 0, tf32 = 0, fp16 = 0, bf16 = 0, fp8 = 0;

  friend bool operator==(const Rates&, const Rates&) = default;
};

struct RateName {
  std::string_view name;
  double Rates::*rate;
};
constexpr std::array<RateName, 5> kRateNames = {{{"fp32", &Rates::fp32},
                                                 {"tf32", &Rates::tf32},
                                                 {"fp16", &Rates::fp16},
                                                 {"bf16", &Rates::bf16},
                                                 {"fp8", &Rates::fp8}}};

// A class of links, such as nvlink or infiniband. A bandwidth of 0 means that there is no link.
struct Link {
  std::string name;
  double bandwidth = 0;
  double latency = 0;

  bool exists() const { return bandwidth != 0; }
  friend bool operator==(const Link&, const Link&) = default;
};

struct DeviceType {
  std::string name;
  Rates peak;
  Bytes memory;
  double memory_bandwidth = 0;
  Link host;  // to the memory of its machine; without this link the device cannot offload

  friend bool operator==(const DeviceType&, const DeviceType&) = default;
};

// How the link of a group joins its members:
//   switch  every device has a port of link.bandwidth; all ports may be busy at once
//   ring    a link from each member to the next, and from the last to the first
//   torus   a ring along each of `dims`; members are in row-major order, the last dimension fastest
//   mesh    a separate link for every pair of members
// The latency is that of a message between devices of two members. In a ring or torus it is the latency of each hop.
enum class Topology : std::uint8_t { kSwitch, kRing, kTorus, kMesh };
constexpr std::array<std::string_view, 4> kTopologyNames = {"switch", "ring", "torus", "mesh"};

// The connection out of a group that its devices share: the network cards of a node, the uplinks of a rack. 0 means
// that only the links outside of the group limit the bandwidth.
struct Uplink {
  double bandwidth = 0;   // of all devices of the group together
  double per_device = 0;  // of each device
  // Added to every message that leaves the group and to every message that enters it.
  double latency = 0;

  friend bool operator==(const Uplink&, const Uplink&) = default;
};

enum class GroupKind : std::uint8_t { kCluster, kRack, kNode, kPart };
constexpr std::array<std::string_view, 4> kGroupKindNames = {"cluster", "rack", "node", "part"};

// `count` consecutive equal members: either devices or groups. Exactly one of the two ids is valid.
struct Members {
  std::int64_t count = 0;
  DeviceTypeId device = {};
  GroupId group = {};

  friend bool operator==(const Members&, const Members&) = default;
};

struct Group {
  std::string name = {};
  GroupKind kind = GroupKind::kNode;
  Topology topology = Topology::kSwitch;
  std::vector<std::int64_t> dims = {};  // of a torus; their product is the number of members
  Link link = {};                       // between members; none where there is only one member
  Uplink uplink = {};
  Bytes host_memory = {};  // of a node; 0: unknown
  std::vector<Members> members = {};

  friend bool operator==(const Group&, const Group&) = default;
};

struct Cluster {
  std::string name;
  std::vector<DeviceType> device_types;
  // Members come before the groups that contain them; the last group is the whole cluster.
  std::vector<Group> groups;

  const DeviceType& type(DeviceTypeId id) const { return device_types[id.index()]; }
  const Group& group(GroupId id) const { return groups[id.index()]; }
  GroupId root() const { return GroupId::FromIndex(groups.size() - 1); }

  friend bool operator==(const Cluster&, const Cluster&) = default;
};

// Everything that is wrong with a cluster; empty when it is sound:
//   names         present, printable ASCII, at most kMaxClusterName bytes; unique among device types and among groups
//   numbers       finite, positive (latencies: not negative), within the limits above; every device type has memory,
//                 memory bandwidth and at least one rate
//   tree          members come before the group that contains them; every group and device type is used; only the last
//                 group is the cluster; a cluster or rack contains only racks or only nodes; a node or part contains
//                 devices and parts; the depth is at most kMaxGroupDepth; only nodes have host memory
//   members       counts of at least 1; 1 to kMaxDevices devices; the total memory fits 64 bits
//   connected     a group of more than one member has a link
//   torus         dims of at least 1 whose product is the number of members; only a torus has dims
// Neighbouring equal members must be one entry, so that equal clusters compare equal. O(size).
std::vector<std::string> Verify(const Cluster& cluster);

}  // namespace heddle
