// Queries on a verified Cluster. A group that occurs many times is stored once; a GroupSpan is one of its occurrences.
// Unless stated otherwise a query costs O(groups), and there are as many groups as kinds of them: two in a cluster of
// equal nodes.
//
//   const Path path = PathBetween(c, DeviceId{0}, DeviceId{8});
//   path.bandwidth, path.latency                  // of one message between the two devices
#pragma once

#include <cstdint>
#include <vector>

#include "cluster/cluster.h"

namespace heddle {

// The devices [first, first + count) of one occurrence of a group.
struct GroupSpan {
  GroupId group;
  DeviceId first;
  std::int64_t count = 0;

  friend bool operator==(const GroupSpan&, const GroupSpan&) = default;
};

// Consecutive devices of one type.
struct DeviceRun {
  DeviceTypeId type;
  DeviceId first;
  std::int64_t count = 0;

  friend bool operator==(const DeviceRun&, const DeviceRun&) = default;
};

std::int64_t DeviceCount(const Cluster& cluster);
std::int64_t DeviceCount(const Cluster& cluster, GroupId group);  // in one occurrence
std::int64_t MemberCount(const Group& group);

DeviceTypeId TypeOf(const Cluster& cluster, DeviceId device);

// The groups that contain a device, starting with the whole cluster.
std::vector<GroupSpan> GroupsOf(const Cluster& cluster, DeviceId device);
GroupSpan NodeOf(const Cluster& cluster, DeviceId device);

// All groups at a depth, in device order: 0 is the whole cluster, 1 its members, and so on. Devices are not groups.
// Empty below the deepest group. O(occurrences).
std::vector<GroupSpan> GroupsAt(const Cluster& cluster, int depth);
int Depth(const Cluster& cluster);  // of groups: 2 for a cluster of nodes
// All machines, in device order. O(nodes).
std::vector<GroupSpan> NodesOf(const Cluster& cluster);
// How often each group occurs, by GroupId. O(groups).
std::vector<std::int64_t> Occurrences(const Cluster& cluster);

// Maximal runs of equal devices, in device order. O(runs before merging).
std::vector<DeviceRun> EqualRuns(const Cluster& cluster);
// Whether all devices are equal and have equal surroundings.
bool IsHomogeneous(const Cluster& cluster);
Bytes TotalMemory(const Cluster& cluster);  // of the devices

// The path of messages from one device to another.
struct Path {
  GroupSpan common;               // the smallest group that contains both
  std::vector<GroupSpan> leaves;  // groups whose uplink is passed outwards, innermost first
  std::vector<GroupSpan> enters;  // groups whose uplink is passed inwards, outermost first
  std::int64_t hops = 0;          // links of `common` that are passed: 1 except in a ring or torus
  double bandwidth = 0;           // of the narrowest link, without other traffic
  double latency = 0;             // of all hops and uplinks
};
// The devices must differ.
Path PathBetween(const Cluster& cluster, DeviceId from, DeviceId to);

// The number of hops between two members of a group, given by index.
std::int64_t HopsBetween(const Group& group, std::int64_t from, std::int64_t to);
// The bandwidth at which one member can send over the group's links at once: one port of a switch, both directions of a
// ring, both directions of every dimension of a torus, the links to all other members of a mesh.
double InjectionBandwidth(const Group& group);

// A hash of everything but the name of the cluster. Equal clusters have equal hashes on every machine.
std::uint64_t StableHash(const Cluster& cluster);

}  // namespace heddle
