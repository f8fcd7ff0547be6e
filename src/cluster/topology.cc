#include "cluster/topology.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/check.h"
#include "base/hash.h"

namespace heddle {
namespace {

std::int64_t DevicesOf(const std::vector<std::int64_t>& sizes, const Members& members) {
  return members.group.valid() ? sizes[members.group.index()] : 1;
}

// The number of devices in one occurrence of each group.
std::vector<std::int64_t> GroupSizes(const Cluster& cluster) {
  std::vector<std::int64_t> sizes;
  sizes.reserve(cluster.groups.size());
  for (const Group& group : cluster.groups) {
    std::int64_t size = 0;
    for (const Members& members : group.members) size += members.count * DevicesOf(sizes, members);
    sizes.push_back(size);
  }
  return sizes;
}

DeviceId Device(std::int64_t number) { return DeviceId{static_cast<std::int32_t>(number)}; }

// The place of a device in a group that contains it.
struct MemberPlace {
  const Members* members = nullptr;
  std::int64_t member = 0;  // index among all members of the group
  std::int64_t first = 0;   // first device of that member
};

MemberPlace FindMember(const Group& group, const std::vector<std::int64_t>& sizes,
                       std::int64_t first, std::int64_t device) {
  std::int64_t member = 0;
  for (const Members& members : group.members) {
    const std::int64_t each = DevicesOf(sizes, members);
    if (device < first + members.count * each) {
      const std::int64_t skipped = (device - first) / each;
      return {&members, member + skipped, first + skipped * each};
    }
    first += members.count * each;
    member += members.count;
  }
  HEDDLE_CHECK(false, "device {} lies outside of group {}", device, group.name);
}

// One step on the path from the whole cluster down to a device.
struct Step {
  GroupSpan span;
  MemberPlace place;
};

std::vector<Step> StepsTo(const Cluster& cluster, DeviceId device) {
  const std::vector<std::int64_t> sizes = GroupSizes(cluster);
  HEDDLE_CHECK(device.valid() && device.value < sizes.back(), "{} of {}", device, sizes.back());
  std::vector<Step> steps;
  GroupId id = cluster.root();
  std::int64_t first = 0;
  while (id.valid()) {
    const MemberPlace place = FindMember(cluster.group(id), sizes, first, device.value);
    steps.push_back({{id, Device(first), sizes[id.index()]}, place});
    id = place.members->group;
    first = place.first;
  }
  return steps;
}

// Calls visit(span, depth) for every occurrence of a group, in device order. The members of a group are visited only
// where visit returns true.
template <class Visit>
void Walk(const Cluster& cluster, const std::vector<std::int64_t>& sizes, GroupId id,
          std::int64_t first, int depth, const Visit& visit) {
  if (!visit(GroupSpan{id, Device(first), sizes[id.index()]}, depth)) return;
  for (const Members& members : cluster.group(id).members) {
    const std::int64_t each = DevicesOf(sizes, members);
    for (std::int64_t i = 0; members.group.valid() && i < members.count; ++i) {
      Walk(cluster, sizes, members.group, first + i * each, depth + 1, visit);
    }
    first += members.count * each;
  }
}

std::int64_t RingHops(std::int64_t size, std::int64_t from, std::int64_t to) {
  const std::int64_t forward = from < to ? to - from : from - to;
  return std::min(forward, size - forward);
}

void Narrow(double& bandwidth, double limit) {
  if (limit > 0) bandwidth = std::min(bandwidth, limit);
}

}  // namespace

std::int64_t DeviceCount(const Cluster& cluster) { return DeviceCount(cluster, cluster.root()); }

std::int64_t DeviceCount(const Cluster& cluster, GroupId group) {
  return GroupSizes(cluster)[group.index()];
}

std::int64_t MemberCount(const Group& group) {
  std::int64_t count = 0;
  for (const Members& members : group.members) count += members.count;
  return count;
}

DeviceTypeId TypeOf(const Cluster& cluster, DeviceId device) {
  return StepsTo(cluster, device).back().place.members->device;
}

std::vector<GroupSpan> GroupsOf(const Cluster& cluster, DeviceId device) {
  std::vector<GroupSpan> groups;
  for (const Step& step : StepsTo(cluster, device)) groups.push_back(step.span);
  return groups;
}

GroupSpan NodeOf(const Cluster& cluster, DeviceId device) {
  for (const GroupSpan& span : GroupsOf(cluster, device)) {
    if (cluster.group(span.group).kind == GroupKind::kNode) return span;
  }
  HEDDLE_CHECK(false, "{} is in no node", device);
}

std::vector<GroupSpan> GroupsAt(const Cluster& cluster, int depth) {
  std::vector<GroupSpan> found;
  Walk(cluster, GroupSizes(cluster), cluster.root(), 0, 0, [&](const GroupSpan& span, int at) {
    if (at == depth) found.push_back(span);
    return at < depth;
  });
  return found;
}

int Depth(const Cluster& cluster) {
  std::vector<int> depths;
  for (const Group& group : cluster.groups) {
    int below = 0;
    for (const Members& members : group.members) {
      if (members.group.valid()) below = std::max(below, depths[members.group.index()]);
    }
    depths.push_back(below + 1);
  }
  return depths.back();
}

std::vector<GroupSpan> NodesOf(const Cluster& cluster) {
  std::vector<GroupSpan> nodes;
  Walk(cluster, GroupSizes(cluster), cluster.root(), 0, 0, [&](const GroupSpan& span, int) {
    const bool is_node = cluster.group(span.group).kind == GroupKind::kNode;
    if (is_node) nodes.push_back(span);
    return !is_node;
  });
  return nodes;
}

std::vector<std::int64_t> Occurrences(const Cluster& cluster) {
  std::vector<std::int64_t> times(cluster.groups.size());
  times.back() = 1;
  for (std::size_t i = cluster.groups.size(); i-- > 0;) {
    for (const Members& members : cluster.groups[i].members) {
      if (members.group.valid()) times[members.group.index()] += times[i] * members.count;
    }
  }
  return times;
}

std::vector<DeviceRun> EqualRuns(const Cluster& cluster) {
  // The runs of each group's devices, numbered from the first device of the group. A group with one device type is a
  // single run, however large it is.
  std::vector<std::vector<DeviceRun>> runs;
  for (const Group& group : cluster.groups) {
    std::vector<DeviceRun> merged;
    const auto append = [&merged](DeviceTypeId type, std::int64_t count) {
      if (!merged.empty() && merged.back().type == type) {
        merged.back().count += count;
      } else {
        const std::int64_t first =
            merged.empty() ? 0 : merged.back().first.value + merged.back().count;
        merged.push_back({type, Device(first), count});
      }
    };
    for (const Members& members : group.members) {
      if (!members.group.valid()) {
        append(members.device, members.count);
        continue;
      }
      const std::vector<DeviceRun>& inner = runs[members.group.index()];
      if (inner.size() == 1) {
        append(inner[0].type, inner[0].count * members.count);
        continue;
      }
      for (std::int64_t i = 0; i < members.count; ++i) {
        for (const DeviceRun& run : inner) append(run.type, run.count);
      }
    }
    runs.push_back(std::move(merged));
  }
  return runs.back();
}

bool IsHomogeneous(const Cluster& cluster) {
  return std::all_of(cluster.groups.begin(), cluster.groups.end(),
                     [](const Group& group) { return group.members.size() == 1; });
}

Bytes TotalMemory(const Cluster& cluster) {
  Bytes total;
  const std::vector<std::int64_t> times = Occurrences(cluster);
  for (std::size_t i = 0; i < cluster.groups.size(); ++i) {
    for (const Members& members : cluster.groups[i].members) {
      if (!members.device.valid()) continue;
      total += cluster.type(members.device).memory * (members.count * times[i]);
    }
  }
  return total;
}

std::int64_t HopsBetween(const Group& group, std::int64_t from, std::int64_t to) {
  if (from == to) return 0;
  if (group.topology == Topology::kRing) return RingHops(MemberCount(group), from, to);
  if (group.topology != Topology::kTorus) return 1;
  std::int64_t hops = 0;
  for (std::size_t i = group.dims.size(); i-- > 0;) {
    const std::int64_t size = group.dims[i];
    hops += RingHops(size, from % size, to % size);
    from /= size;
    to /= size;
  }
  return hops;
}

double InjectionBandwidth(const Group& group) {
  const std::int64_t count = MemberCount(group);
  if (count < 2) return 0;
  // A ring of two members has one link, not two.
  const auto ring = [](std::int64_t size) { return size > 2 ? 2 : static_cast<int>(size) - 1; };
  double links = 1;
  if (group.topology == Topology::kMesh) links = static_cast<double>(count - 1);
  if (group.topology == Topology::kRing) links = ring(count);
  if (group.topology == Topology::kTorus) {
    links = 0;
    for (std::int64_t size : group.dims) links += ring(size);
  }
  return links * group.link.bandwidth;
}

Path PathBetween(const Cluster& cluster, DeviceId from, DeviceId to) {
  HEDDLE_CHECK(from != to, "a path from {} to itself", from);
  const std::vector<Step> out = StepsTo(cluster, from);
  const std::vector<Step> in = StepsTo(cluster, to);
  std::size_t at = 0;  // the deepest step that both paths share
  while (at + 1 < out.size() && at + 1 < in.size() && out[at + 1].span == in[at + 1].span) ++at;
  Path path;
  path.common = out[at].span;
  const Group& common = cluster.group(path.common.group);
  path.hops = HopsBetween(common, out[at].place.member, in[at].place.member);
  path.bandwidth = common.link.bandwidth;
  path.latency = static_cast<double>(path.hops) * common.link.latency;
  for (std::size_t i = out.size(); i-- > at + 1;) path.leaves.push_back(out[i].span);
  for (std::size_t i = at + 1; i < in.size(); ++i) path.enters.push_back(in[i].span);
  for (const std::vector<GroupSpan>* side : {&path.leaves, &path.enters}) {
    for (const GroupSpan& span : *side) {
      const Uplink& uplink = cluster.group(span.group).uplink;
      Narrow(path.bandwidth, uplink.bandwidth);
      Narrow(path.bandwidth, uplink.per_device);
      path.latency += uplink.latency;
    }
  }
  return path;
}

namespace {

// Hashes numbers and strings in order, each string with its length, so that no two clusters give the same sequence.
class Hasher {
 public:
  void Add(std::int64_t value) { hash_ = HashCombine(hash_, static_cast<std::uint64_t>(value)); }
  void Add(double value) {
    hash_ = HashCombine(hash_, std::bit_cast<std::uint64_t>(value == 0 ? 0.0 : value));
  }
  void Add(const std::string& text) { hash_ = HashCombine(hash_, HashString(text)); }
  void Add(const Link& link) {
    Add(link.name);
    Add(link.bandwidth);
    Add(link.latency);
  }
  std::uint64_t hash() const { return hash_; }

 private:
  std::uint64_t hash_ = 1;  // the version of the hashed format
};

}  // namespace

std::uint64_t StableHash(const Cluster& cluster) {
  Hasher hasher;
  hasher.Add(static_cast<std::int64_t>(cluster.device_types.size()));
  for (const DeviceType& type : cluster.device_types) {
    hasher.Add(type.name);
    for (const RateName& rate : kRateNames) hasher.Add(type.peak.*rate.rate);
    hasher.Add(type.memory.value);
    hasher.Add(type.memory_bandwidth);
    hasher.Add(type.host);
  }
  for (const Group& group : cluster.groups) {
    hasher.Add(group.kind == GroupKind::kCluster ? "" : group.name);
    hasher.Add(static_cast<std::int64_t>(group.kind));
    hasher.Add(static_cast<std::int64_t>(group.topology));
    hasher.Add(static_cast<std::int64_t>(group.dims.size()));
    for (std::int64_t dim : group.dims) hasher.Add(dim);
    hasher.Add(group.link);
    for (double value : {group.uplink.bandwidth, group.uplink.per_device, group.uplink.latency}) {
      hasher.Add(value);
    }
    hasher.Add(group.host_memory.value);
    hasher.Add(static_cast<std::int64_t>(group.members.size()));
    for (const Members& members : group.members) {
      for (std::int64_t value :
           {members.count, std::int64_t{members.device.value}, std::int64_t{members.group.value}}) {
        hasher.Add(value);
      }
    }
  }
  return hasher.hash();
}

}  // namespace heddle
