// What there is to train on: devices, the links between them, and how they are grouped.
//
// A Cluster is a plain value. Its groups form a tree, cluster ⊃ rack ⊃ node ⊃ part ⊃ device, stored
// as shapes: sixteen equal nodes are one Group and a count. Devices are numbered consecutively in
// the order of the tree, so that a run of device numbers is a run of neighbours.
//
//   Cluster c = LoadCluster("dgx-h100:2");       // cluster/load.h
//   c.groups[0]                                  // the node: 8 devices behind a switch
//   c.groups[1]                                  // the whole: 2 of groups[0]
//   DeviceCount(c) == 16                         // cluster/topology.h
//
// Every bandwidth is in bytes per second and one direction, every latency in seconds, every rate in
// FLOP per second; a peak, as the data sheet has it (dense, not sparse).
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

// Peak rates of matrix products by what is multiplied; 0: not supported.
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

// A class of links. `name` says which (nvlink, infiniband); no bandwidth: there is no link.
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
  Link host;  // to the memory of the machine it sits in; none: it cannot be offloaded to

  friend bool operator==(const DeviceType&, const DeviceType&) = default;
};

// How the members of a group are joined by its link:
//   switch  every device has a port of link.bandwidth, all of them busy at once
//   ring    a link from each member to the next, and from the last to the first
//   torus   a ring along each of `dims`; members in row-major order, the last dimension fastest
//   mesh    a link of its own for every pair of members
// The latency is that of a message from a device of one member to a device of another; in a ring or
// torus, for each hop.
enum class Topology : std::uint8_t { kSwitch, kRing, kTorus, kMesh };
constexpr std::array<std::string_view, 4> kTopologyNames = {"switch", "ring", "torus", "mesh"};

// What a group of devices shares on its way out: the network cards of a node, the uplinks of a
// rack. 0: no limit beyond that of the links outside.
struct Uplink {
  double bandwidth = 0;   // of all devices of the group together
  double per_device = 0;  // of any one of them
  double latency = 0;     // added to every message on its way out, and on its way in

  friend bool operator==(const Uplink&, const Uplink&) = default;
};

enum class GroupKind : std::uint8_t { kCluster, kRack, kNode, kPart };
constexpr std::array<std::string_view, 4> kGroupKindNames = {"cluster", "rack", "node", "part"};

// `count` equal members in a row: devices, or groups. One of the two ids is valid.
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
  std::vector<std::int64_t> dims = {};  // of a torus: their product is the number of members
  Link link = {};                       // between members; none where there is only one
  Uplink uplink = {};
  Bytes host_memory = {};  // of a node; 0: unknown
  std::vector<Members> members = {};

  friend bool operator==(const Group&, const Group&) = default;
};

struct Cluster {
  std::string name;
  std::vector<DeviceType> device_types;
  std::vector<Group> groups;  // members before the groups that hold them; the last is the whole

  const DeviceType& type(DeviceTypeId id) const { return device_types[id.index()]; }
  const Group& group(GroupId id) const { return groups[id.index()]; }
  GroupId root() const { return GroupId::FromIndex(groups.size() - 1); }

  friend bool operator==(const Cluster&, const Cluster&) = default;
};

// Everything that is wrong with a cluster, empty when it is sound:
//   names         present, printable ASCII, at most kMaxClusterName bytes; device types differ in name,
//                 and so do groups
//   numbers       finite, positive (latencies: not negative), within the limits above; every device
//                 type has memory, memory bandwidth and at least one rate
//   tree          members come before the group that holds them, and no group or device type goes
//                 unused; only the last group is the cluster; a cluster or
//                 rack holds racks or else nodes, a node or part devices and parts; no deeper than
//                 kMaxGroupDepth; only nodes have host memory
//   members       counts of at least 1; 1 to kMaxDevices devices; memory in all fits 64 bits
//   connected     a group of more than one member has a link
//   torus         dims of at least 1 whose product is the number of members; no dims elsewhere
// Neighbouring equal members are one entry, so that equal clusters compare equal. O(size).
std::vector<std::string> Verify(const Cluster& cluster);

}  // namespace heddle
