#include "cost/network.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/error.h"

namespace heddle {
namespace {

std::int64_t DevicesOf(const std::vector<std::int64_t>& sizes, const Members& members) {
  return members.group.valid() ? sizes[members.group.index()] : 1;
}

// Links that leave one member along a dimension: two in a ring, but one where there are only two members.
std::int64_t WaysAlong(std::int64_t size) { return std::min<std::int64_t>(size - 1, 2); }

// A ring counts as a torus of one dimension.
std::int64_t DimCount(const Group& group) {
  return group.topology == Topology::kRing ? 1 : static_cast<std::int64_t>(group.dims.size());
}
std::int64_t DimSize(const Group& group, std::int64_t members, std::int64_t dim) {
  return group.topology == Topology::kRing ? members : group.dims[static_cast<std::size_t>(dim)];
}

std::int64_t HopLinksPerMember(const Group& group, std::int64_t members) {
  if (group.topology == Topology::kMesh) return members - 1;
  std::int64_t ways = 0;
  for (std::int64_t i = 0; i < DimCount(group); ++i) ways += WaysAlong(DimSize(group, members, i));
  return ways;
}

// The member at the other end of the way-th link of `from`.
std::int64_t Neighbour(const Group& group, std::int64_t members, std::int64_t from,
                       std::int64_t way) {
  if (group.topology == Topology::kMesh) return way < from ? way : way + 1;
  std::int64_t stride = 1;
  for (std::int64_t i = DimCount(group); i-- > 0;) {
    const std::int64_t size = DimSize(group, members, i);
    if (way < WaysAlong(size)) {
      const std::int64_t at = from / stride % size;
      const std::int64_t next = (at + (way == 0 ? 1 : size - 1)) % size;
      return from + (next - at) * stride;
    }
    way -= WaysAlong(size);
    stride *= size;
  }
  HEDDLE_CHECK(false, "no link from member {} of {}", from, group.name);
}

LinkId At(std::int64_t number) { return LinkId{static_cast<std::int32_t>(number)}; }

}  // namespace

// What a group needs to know about the groups around it.
struct Network::Above {
  std::int32_t spot = -1;
  std::int32_t depth = 0;
  std::int64_t member = 0;
  std::int64_t first = 0;  // first device
  // The spots above with more than one member, nearest first: traffic can leave the group there.
  std::vector<std::int32_t> linked;
};

Network::Network(const Cluster& cluster, std::vector<double> efficiency_by_level,
                 const std::vector<SlowDevice>& slow)
    : cluster_(cluster), efficiency_(std::move(efficiency_by_level)) {
  for (const double value : efficiency_) {
    HEDDLE_CHECK(std::isfinite(value) && value > 0, "efficiency {}", value);
  }
  for (const Group& group : cluster_.groups) {
    std::int64_t size = 0;
    for (const Members& members : group.members) size += members.count * DevicesOf(sizes_, members);
    sizes_.push_back(size);
    member_counts_.push_back(MemberCount(group));
  }
  leaf_.resize(static_cast<std::size_t>(sizes_.back()));
  leaf_member_.resize(leaf_.size());
  Add(cluster_.root(), {});
  for (const SlowDevice& device : slow) Slow(device);
}

double Network::Efficiency(int level) const {
  const auto at = static_cast<std::size_t>(level);
  return at < efficiency_.size() ? efficiency_[at] : 1;
}

std::int32_t Network::Allocate(std::int64_t count, double capacity) {
  const auto first = static_cast<std::int64_t>(capacities_.size());
  if (count > kMaxLinks - first) {
    ThrowInput("{}: more than {} links; describe a mesh of many members as a switch", cluster_.name,
               kMaxLinks);
  }
  capacities_.resize(static_cast<std::size_t>(first + count), capacity);
  return static_cast<std::int32_t>(first);
}

void Network::Add(GroupId id, const Above& above) {
  const Group& group = cluster_.group(id);
  const std::int64_t members = member_counts_[id.index()];
  const auto index = static_cast<std::int32_t>(spots_.size());
  Spot spot{.group = id,
            .parent = above.spot,
            .depth = above.depth,
            .member = above.member,
            .first = above.first,
            .count = sizes_[id.index()],
            .links = static_cast<std::int32_t>(capacities_.size())};
  if (members > 1) {
    const double capacity = group.link.bandwidth * Efficiency(spot.depth);
    if (group.topology == Topology::kSwitch) {
      spot.ports = Allocate(2 * spot.count, capacity);
    } else {
      spot.hops = Allocate(members * HopLinksPerMember(group, members), capacity);
    }
  }
  if (!above.linked.empty()) {
    const Spot& outside = spots_[static_cast<std::size_t>(above.linked.front())];
    const double efficiency = Efficiency(outside.depth);
    spot.uplink_level = outside.depth;
    if (group.uplink.bandwidth > 0) spot.uplink = Allocate(2, group.uplink.bandwidth * efficiency);
    if (group.uplink.per_device > 0) {
      const double limit = group.uplink.per_device * efficiency;
      if (above.linked.size() == 1 && outside.ports >= 0) {
        const auto port =
            capacities_.begin() +
            Port(outside, DeviceId::FromIndex(static_cast<std::size_t>(spot.first)), true).value;
        std::for_each(port, port + 2 * spot.count, [&](double& c) { c = std::min(c, limit); });
      } else {
        spot.device_uplinks = Allocate(2 * spot.count, limit);
      }
    }
  }
  spots_.push_back(spot);

  Above inner{index, spot.depth + 1, 0, spot.first, above.linked};
  if (members > 1) inner.linked.insert(inner.linked.begin(), index);
  for (const Members& entry : group.members) {
    for (std::int64_t i = 0; i < entry.count; ++i, ++inner.member) {
      if (entry.group.valid()) {
        Add(entry.group, inner);
        inner.first += sizes_[entry.group.index()];
      } else {
        const auto device = static_cast<std::size_t>(inner.first++);
        leaf_[device] = index;
        leaf_member_[device] = static_cast<std::int32_t>(inner.member);
      }
    }
  }
}

void Network::Slow(const SlowDevice& slow) {
  HEDDLE_CHECK(std::isfinite(slow.factor) && slow.factor > 0, "factor {}", slow.factor);
  HEDDLE_CHECK(slow.device.valid() && slow.device.value < device_count(), "{} of {}", slow.device,
               device_count());
  const auto divide = [&](LinkId link) { capacities_[link.index()] /= slow.factor; };
  for (std::int32_t i = LeafOf(slow.device); i >= 0;) {
    const Spot& spot = spots_[static_cast<std::size_t>(i)];
    for (const bool out : {true, false}) {
      if (spot.ports >= 0) divide(Port(spot, slow.device, out));
      if (spot.device_uplinks >= 0) divide(DeviceUplink(spot, slow.device, out));
    }
    i = spot.parent;
  }
  const Spot& leaf = spots_[static_cast<std::size_t>(LeafOf(slow.device))];
  if (leaf.hops < 0) return;
  const Group& group = cluster_.group(leaf.group);
  const std::int64_t members = member_counts_[leaf.group.index()];
  const std::int64_t self = leaf_member_[slow.device.index()];
  std::vector<LinkId> hops;
  for (std::int64_t way = 0; way < HopLinksPerMember(group, members); ++way) {
    const std::int64_t other = Neighbour(group, members, self, way);
    AppendHops(leaf, self, other, hops);
    AppendHops(leaf, other, self, hops);
  }
  for (const LinkId link : hops) divide(link);
}

LinkId Network::Port(const Spot& spot, DeviceId device, bool out) {
  return At(spot.ports + 2 * (device.value - spot.first) + (out ? 0 : 1));
}

LinkId Network::DeviceUplink(const Spot& spot, DeviceId device, bool out) {
  return At(spot.device_uplinks + 2 * (device.value - spot.first) + (out ? 0 : 1));
}

LinkId Network::Uplink(const Spot& spot, bool out) { return At(spot.uplink + (out ? 0 : 1)); }

std::vector<std::int64_t> Network::Dims(const Spot& spot) const {
  const Group& group = cluster_.group(spot.group);
  if (group.topology == Topology::kTorus) return group.dims;
  HEDDLE_CHECK(group.topology == Topology::kRing, "{} has no dimensions", group.name);
  return {member_counts_[spot.group.index()]};
}

LinkId Network::Hop(const Spot& spot, std::int64_t member, std::size_t dim, bool down) const {
  const Group& group = cluster_.group(spot.group);
  const std::int64_t members = member_counts_[spot.group.index()];
  std::int64_t way = down ? 1 : 0;
  for (std::int64_t i = DimCount(group); i-- > static_cast<std::int64_t>(dim) + 1;) {
    way += WaysAlong(DimSize(group, members, i));
  }
  return At(spot.hops + member * HopLinksPerMember(group, members) + way);
}

void Network::AppendHops(const Spot& spot, std::int64_t from, std::int64_t to,
                         std::vector<LinkId>& links) const {
  const Group& group = cluster_.group(spot.group);
  const std::int64_t members = member_counts_[spot.group.index()];
  const std::int64_t ways = HopLinksPerMember(group, members);
  if (group.topology == Topology::kMesh) {
    links.push_back(At(spot.hops + from * ways + (to < from ? to : to - 1)));
    return;
  }
  std::int64_t stride = 1;
  std::int64_t way = 0;  // the first link along this dimension
  for (std::int64_t i = DimCount(group); i-- > 0;) {
    const std::int64_t size = DimSize(group, members, i);
    std::int64_t at = from / stride % size;
    const std::int64_t goal = to / stride % size;
    const std::int64_t up = (goal - at + size) % size;
    const bool down = up > size - up;
    for (std::int64_t left = down ? size - up : up; left > 0; --left) {
      links.push_back(At(spot.hops + from * ways + way + (down ? 1 : 0)));
      const std::int64_t next = (at + (down ? size - 1 : 1)) % size;
      from += (next - at) * stride;
      at = next;
    }
    way += WaysAlong(size);
    stride *= size;
  }
}

std::int32_t Network::CommonSpot(DeviceId from, DeviceId to) const {
  HEDDLE_CHECK(from != to, "a route from {} to itself", from);
  std::int32_t a = LeafOf(from);
  std::int32_t b = LeafOf(to);
  while (a != b) {  // a spot comes after those that contain it
    std::int32_t& later = a > b ? a : b;
    later = spots_[static_cast<std::size_t>(later)].parent;
  }
  return a;
}

std::int64_t Network::MemberOf(std::int32_t spot, DeviceId device) const {
  std::int32_t at = LeafOf(device);
  std::int64_t member = leaf_member_[device.index()];
  while (at != spot) {
    const Spot& inner = spots_[static_cast<std::size_t>(at)];
    HEDDLE_CHECK(inner.parent >= 0, "{} is not in spot {}", device, spot);
    member = inner.member;
    at = inner.parent;
  }
  return member;
}

double Network::ExitLatency(std::int32_t spot, DeviceId device) const {
  double latency = 0;
  for (std::int32_t at = LeafOf(device); at != spot;) {
    const Spot& inner = spots_[static_cast<std::size_t>(at)];
    latency += cluster_.group(inner.group).uplink.latency;
    at = inner.parent;
  }
  return latency;
}

double Network::LatencyBetween(DeviceId from, DeviceId to) const {
  const std::int32_t common = CommonSpot(from, to);
  const Group& group = cluster_.group(spots_[static_cast<std::size_t>(common)].group);
  const std::int64_t hops = HopsBetween(group, MemberOf(common, from), MemberOf(common, to));
  return static_cast<double>(hops) * group.link.latency + ExitLatency(common, from) +
         ExitLatency(common, to);
}

Network::Route Network::RouteBetween(DeviceId from, DeviceId to) const {
  const std::int32_t common = CommonSpot(from, to);
  const Spot& top = spots_[static_cast<std::size_t>(common)];
  Route route{.links = {}, .latency = LatencyBetween(from, to)};
  const auto pass = [&](DeviceId device, bool out) {
    for (std::int32_t at = LeafOf(device); at != common;) {
      const Spot& spot = spots_[static_cast<std::size_t>(at)];
      if (spot.device_uplinks >= 0) route.links.push_back(DeviceUplink(spot, device, out));
      if (spot.uplink >= 0) route.links.push_back(Uplink(spot, out));
      at = spot.parent;
    }
  };
  pass(from, true);
  if (top.ports >= 0) {
    route.links.push_back(Port(top, from, true));
    route.links.push_back(Port(top, to, false));
  } else {
    AppendHops(top, MemberOf(common, from), MemberOf(common, to), route.links);
  }
  const auto middle = static_cast<std::ptrdiff_t>(route.links.size());
  pass(to, false);
  std::reverse(route.links.begin() + middle, route.links.end());
  return route;
}

LinkKind Network::Kind(LinkId link) const {
  HEDDLE_CHECK(link.index() < link_count(), "{} of {}", link, link_count());
  // The last spot whose links begin at or before this one. Of several that begin there, the last one has links.
  const auto after =
      std::upper_bound(spots_.begin(), spots_.end(), link.value,
                       [](std::int32_t value, const Spot& s) { return value < s.links; });
  const Spot& spot = *(after - 1);
  LinkKind kind{
      .role = LinkRole::kPort,
      .level = spot.depth,
      .out = true,
      .group = {spot.group, DeviceId::FromIndex(static_cast<std::size_t>(spot.first)), spot.count},
      .device = {}};
  const auto of_device = [&](std::int32_t first) {
    kind.device =
        DeviceId::FromIndex(static_cast<std::size_t>(spot.first + (link.value - first) / 2));
    kind.out = (link.value - first) % 2 == 0;
  };
  if (spot.device_uplinks >= 0 && link.value >= spot.device_uplinks) {
    kind.role = LinkRole::kDeviceUplink;
    kind.level = spot.uplink_level;
    of_device(spot.device_uplinks);
  } else if (spot.uplink >= 0 && link.value >= spot.uplink) {
    kind.role = LinkRole::kUplink;
    kind.level = spot.uplink_level;
    kind.out = link.value == spot.uplink;
  } else if (spot.hops >= 0) {
    const Group& group = cluster_.group(spot.group);
    const std::int64_t members = member_counts_[spot.group.index()];
    const std::int64_t ways = HopLinksPerMember(group, members);
    kind.role = LinkRole::kHop;
    kind.from = (link.value - spot.hops) / ways;
    kind.to = Neighbour(group, members, kind.from, (link.value - spot.hops) % ways);
  } else {
    of_device(spot.ports);
  }
  return kind;
}

std::string Network::Name(LinkId link) const {
  const LinkKind kind = Kind(link);
  const std::string& group = cluster_.group(kind.group.group).name;
  const std::string_view way = kind.out ? "out" : "in";
  switch (kind.role) {
    case LinkRole::kPort:
      return fmt::format("{} {} at {}", kind.device, way, group);
    case LinkRole::kDeviceUplink:
      return fmt::format("{} {} of {}", kind.device, way, group);
    case LinkRole::kUplink:
      return fmt::format("{} at {} {}", group, kind.group.first, way);
    case LinkRole::kHop:
      break;
  }
  return fmt::format("{} at {}: {} to {}", group, kind.group.first, kind.from, kind.to);
}

}  // namespace heddle
