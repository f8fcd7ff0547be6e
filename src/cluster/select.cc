#include "cluster/select.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "cluster/builder.h"
#include "cluster/topology.h"

namespace heddle {
namespace {

class Selector {
 public:
  Selector(const Cluster& cluster, const std::vector<int64_t>& devices)
      : cluster_(cluster), devices_(devices) {}

  Cluster Run() {
    Group whole = Kept(cluster_.group(cluster_.root()), 0);
    return std::move(builder_).Finish(std::move(whole));
  }

 private:
  int64_t CountIn(int64_t first, int64_t count) const {
    auto begin = std::lower_bound(devices_.begin(), devices_.end(), first);
    return std::lower_bound(begin, devices_.end(), first + count) - begin;
  }

  // The part of a group that is kept, for the occurrence whose devices begin with `first`.
  Group Kept(const Group& group, int64_t first) {
    Group kept = group;
    kept.members.clear();
    for (const Members& members : group.members) {
      if (members.device.valid()) {
        int64_t count = CountIn(first, members.count);
        if (count > 0) {
          AddMembers(kept, {count, builder_.Add(cluster_.type(members.device)), {}});
        }
        first += members.count;
        continue;
      }
      int64_t size = DeviceCount(cluster_, members.group);
      for (int64_t m = 0; m < members.count; ++m, first += size) {
        if (CountIn(first, size) == 0) continue;
        AddMembers(kept, {1, {}, Named(Kept(cluster_.group(members.group), first))});
      }
    }
    if (MemberCount(kept) == MemberCount(group)) return kept;
    if (group.topology == Topology::kTorus) kept.topology = Topology::kRing;
    kept.dims.clear();
    if (MemberCount(kept) == 1) kept.link = {};
    return kept;
  }

  // Different parts may be kept of equal groups; these get different names.
  GroupId Named(Group group) {
    std::string name = group.name;
    for (int n = 2;; ++n) {
      GroupId id = builder_.Add(group);
      if (id.valid()) return id;
      group.name = fmt::format("{}-{}", name.substr(0, kMaxClusterName - 8), n);
    }
  }

  const Cluster& cluster_;
  const std::vector<int64_t>& devices_;
  ClusterBuilder builder_;
};

}  // namespace

Cluster Select(const Cluster& cluster, const std::vector<int64_t>& devices) {
  HEDDLE_CHECK(!devices.empty() && devices.front() >= 0 && devices.back() < DeviceCount(cluster),
               "the list of devices is empty or has devices that the cluster does not have");
  return Selector(cluster, devices).Run();
}

}  // namespace heddle
