#include "cluster/builder.h"

#include "base/check.h"
#include "base/checked_math.h"

namespace heddle {

void AddMembers(Group& group, const Members& members) {
  if (!group.members.empty() && group.members.back().device == members.device &&
      group.members.back().group == members.group) {
    std::int64_t& count = group.members.back().count;
    count = TryAdd(count, members.count).value_or(kMaxDevices + 1);
    return;
  }
  group.members.push_back(members);
}

DeviceTypeId ClusterBuilder::Add(const DeviceType& type) {
  const DeviceTypeId next = DeviceTypeId::FromIndex(cluster_.device_types.size());
  const auto [at, is_new] = types_.try_emplace(type.name, next);
  if (is_new) {
    cluster_.device_types.push_back(type);
    return next;
  }
  return cluster_.type(at->second) == type ? at->second : DeviceTypeId{};
}

GroupId ClusterBuilder::Add(const Group& group) {
  const GroupId next = GroupId::FromIndex(cluster_.groups.size());
  const auto [at, is_new] = groups_.try_emplace(group.name, next);
  if (is_new) {
    cluster_.groups.push_back(group);
    return next;
  }
  return cluster_.group(at->second) == group ? at->second : GroupId{};
}

Cluster ClusterBuilder::Finish(Group whole) && {
  HEDDLE_CHECK(!groups_.contains(whole.name), "{}", whole.name);
  cluster_.name = whole.name;
  cluster_.groups.push_back(std::move(whole));
  return std::move(cluster_);
}

}  // namespace heddle
