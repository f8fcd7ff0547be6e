// Puts a Cluster together so that equal clusters compare equal: equal device types and equal groups
// are stored once, neighbouring equal members are one entry.
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

// Appends members, merging with the last where they are equal. Counts that overflow saturate at a
// count that Verify refuses.
void AddMembers(Group& group, const Members& members);

class ClusterBuilder {
 public:
  // The id of the type or group, the existing one where an equal one has been added; an invalid id
  // where another of that name but unlike it has. O(log n) and one comparison.
  DeviceTypeId Add(const DeviceType& type);
  GroupId Add(const Group& group);

  bool HasGroup(std::string_view name) const { return groups_.contains(name); }

  const Group& group(GroupId id) const { return cluster_.group(id); }
  const DeviceType& type(DeviceTypeId id) const { return cluster_.type(id); }

  // `whole` becomes the last group. Its name is also that of the cluster and must be free.
  Cluster Finish(Group whole) &&;

 private:
  Cluster cluster_;
  std::map<std::string, DeviceTypeId, std::less<>> types_;
  std::map<std::string, GroupId, std::less<>> groups_;
};

}  // namespace heddle
