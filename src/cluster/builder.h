// Builds a Cluster in a canonical form, so that equal clusters compare equal: equal device types and equal groups are
// stored once, and neighbouring equal members are one entry.
//
//   ClusterBuilder builder;
//   Group node{.name = "box", .link = pcie};
//   AddMembers(node, {4, builder.Add(type), {}});
//   Group whole{.name = "boxes", .kind = GroupKind::kCluster, .link = ethernet};
//   AddMembers(whole, {2, {}, builder.Add(node)});
//   Cluster cluster = builder.Finish(whole);
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "cluster/cluster.h"

namespace heddle {

// Appends members and merges them with the last entry where they are equal. A count that overflows becomes one that
// Verify refuses.
void AddMembers(Group& group, const Members& members);

class ClusterBuilder {
 public:
  // Returns the id of the type or group. Returns the existing id where an equal one was added before, and an invalid id
  // where a different one of the same name was added. O(log n) and one comparison.
  DeviceTypeId Add(const DeviceType& type);
  GroupId Add(const Group& group);

  bool HasGroup(std::string_view name) const { return groups_.contains(name); }

  const Group& group(GroupId id) const { return cluster_.group(id); }
  const DeviceType& type(DeviceTypeId id) const { return cluster_.type(id); }

  // Adds `whole` as the last group. The cluster gets its name, which no other group may have.
  Cluster Finish(Group whole) &&;

 private:
  Cluster cluster_;
  std::map<std::string, DeviceTypeId, std::less<>> types_;
  std::map<std::string, GroupId, std::less<>> groups_;
};

}  // namespace heddle
