// Questions about a verified Cluster. A group that occurs many times is stored once; a GroupSpan is
// one of its occurrences. Unless said otherwise a question costs O(groups), of
// which there are as many as kinds of them: two in a cluster of equal nodes.
//
//   const Path path = PathBetween(c, DeviceId{0}, DeviceId{8});
//   path.bandwidth, path.latency                  // of one message between the two
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
std::int64_t DeviceCount(const Cluster& cluster, GroupId group);  // of one occurrence
std::int64_t MemberCount(const Group& group);

DeviceTypeId TypeOf(const Cluster& cluster, DeviceId device);

// The groups that hold a device, the whole cluster first.
std::vector<GroupSpan> GroupsOf(const Cluster& cluster, DeviceId device);
GroupSpan NodeOf(const Cluster& cluster, DeviceId device);

// All groups at a depth, in device order: 0 is the whole cluster, 1 its members, and so on; devices
// are not groups. Empty below the deepest. O(occurrences).
std::vector<GroupSpan> GroupsAt(const Cluster& cluster, int depth);
int Depth(const Cluster& cluster);  // of groups: 2 for nodes in a cluster
// All machines, in device order. O(nodes).
std::vector<GroupSpan> NodesOf(const Cluster& cluster);
// How often each group occurs, by GroupId. O(groups).
std::vector<std::int64_t> Occurrences(const Cluster& cluster);

// Maximal runs of equal devices, in device order. O(runs before merging).
std::vector<DeviceRun> EqualRuns(const Cluster& cluster);
// Every device is the same and sits in the same surroundings.
bool IsHomogeneous(const Cluster& cluster);
Bytes TotalMemory(const Cluster& cluster);  // of the devices

// The way from one device to another.
struct Path {
  GroupSpan common;               // the smallest group that holds both
  std::vector<GroupSpan> leaves;  // groups whose uplink is passed going out, innermost first
  std::vector<GroupSpan> enters;  // and coming in, outermost first
  std::int64_t hops = 0;          // links of `common` passed: 1 but in a ring or torus
  double bandwidth = 0;           // of the narrowest place, with nothing else on the way
  double latency = 0;             // hops times the link's, and the uplinks'
};
// The devices must differ.
Path PathBetween(const Cluster& cluster, DeviceId from, DeviceId to);

// Hops between two members (by their index) of a group.
std::int64_t HopsBetween(const Group& group, std::int64_t from, std::int64_t to);
// What one member can send over the group's links at once: a port of a switch, both ways round a
// ring, both ways along each dimension of a torus, to every other member of a mesh.
double InjectionBandwidth(const Group& group);

// Of everything but the name of the cluster; equal clusters have equal hashes, on every machine.
std::uint64_t StableHash(const Cluster& cluster);

}  // namespace heddle
