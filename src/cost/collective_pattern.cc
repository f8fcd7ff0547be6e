// Patterns follow the tree of groups, from the smallest group around all members inwards. The parts of a group are its
// members (groups or devices) that contain members of the collective; the group contains g of these and a part h. Links
// come in ascending order because the network numbers them in the order of the same traversal.
#include <algorithm>
#include <limits>

#include "base/check.h"
#include "cost/collective_cost.h"
#include "cost/torus_traffic.h"

namespace heddle {
namespace {

struct MemberRun {
  std::size_t begin = 0, end = 0;  // range of the sorted members
  std::int32_t spot = -1;          // -1: a device

  std::int64_t size() const { return static_cast<std::int64_t>(end - begin); }
};

// Seconds that a piece takes inside a group; see Pattern.
struct Latencies {
  double levels = 0, tree = 0, direct = 0;
};

std::int64_t CeilDiv(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

int CeilLog2(std::int64_t n) {
  int bits = 0;
  while ((std::int64_t{1} << bits) < n) ++bits;
  return bits;
}

double Ratio(std::int64_t a, std::int64_t b) {
  return static_cast<double>(a) / static_cast<double>(b);
}

class Weaver {
 public:
  Weaver(const Network& network, std::span<const DeviceId> members, bool all_to_all)
      : network_(network), members_(members.begin(), members.end()), all_to_all_(all_to_all) {
    if (!std::is_sorted(members_.begin(), members_.end())) {
      std::sort(members_.begin(), members_.end());
    }
    HEDDLE_CHECK(std::adjacent_find(members_.begin(), members_.end()) == members_.end(),
                 "a member comes twice");
    HEDDLE_CHECK(!members_.empty() && members_.front().valid() &&
                     members_.back().value < network.device_count(),
                 "{} members of {} devices", members_.size(), network.device_count());
  }

  Pattern Weave() {
    pattern_.members = static_cast<std::int64_t>(members_.size());
    pattern_.groups = 1;
    if (members_.size() == 1) return std::move(pattern_);
    std::int32_t top = 0;
    std::vector<MemberRun> parts = Split(top, 0, members_.size());
    while (parts.size() == 1) {
      top = parts[0].spot;
      parts = Split(top, 0, members_.size());
    }
    top_ = top;
    pattern_.groups = static_cast<std::int64_t>(parts.size());
    const Latencies latencies = Visit(top, 0, members_.size());
    if (all_to_all_) {
      pattern_.direct = latencies.direct;
      return std::move(pattern_);
    }
    pattern_.levels = latencies.levels;
    pattern_.tree = latencies.tree;
    const Group& group = network_.cluster().group(spot(top).group);
    const bool one_level = group.topology == Topology::kSwitch && parts.size() == members_.size();
    pattern_.ring = has_torus_ || one_level ? latencies.levels : FlatRing();
    return std::move(pattern_);
  }

 private:
  const Network::Spot& spot(std::int32_t i) const {
    return network_.spots()[static_cast<std::size_t>(i)];
  }

  // Divides the members [begin, end), which are all in one spot, into its parts.
  std::vector<MemberRun> Split(std::int32_t at, std::size_t begin, std::size_t end) const {
    std::vector<MemberRun> parts;
    while (begin < end) {
      MemberRun part{begin, begin + 1, -1};
      std::int32_t inner = network_.LeafOf(members_[begin]);
      if (inner != at) {
        while (spot(inner).parent != at) inner = spot(inner).parent;
        const std::int64_t after = spot(inner).first + spot(inner).count;
        while (part.end < end && members_[part.end].value < after) ++part.end;
        part.spot = inner;
      }
      parts.push_back(part);
      begin = part.end;
    }
    return parts;
  }

  Latencies Visit(std::int32_t at, std::size_t begin, std::size_t end) {
    const std::vector<MemberRun> parts = Split(at, begin, end);
    const auto g = static_cast<std::int64_t>(end - begin);
    Latencies own;
    if (parts.size() > 1) own = Level(at, parts, g);
    if (at != top_) Uplinks(at, begin, end);
    Latencies inside;
    for (const MemberRun& part : parts) {
      Latencies inner;
      if (part.spot >= 0) inner = Visit(part.spot, part.begin, part.end);
      if (own.direct > 0) {
        inner.direct += own.direct * static_cast<double>(CeilDiv(g - part.size(), kMessagesAtOnce));
      }
      inside.levels = std::max(inside.levels, inner.levels);
      inside.tree = std::max(inside.tree, inner.tree);
      inside.direct = std::max(inside.direct, inner.direct);
    }
    return {own.levels + inside.levels, own.tree + inside.tree, inside.direct};
  }

  // Adds the loads of a group below the top on its uplink, in both directions.
  void Uplinks(std::int32_t at, std::size_t begin, std::size_t end) {
    const Network::Spot& here = spot(at);
    const auto g = static_cast<std::int64_t>(end - begin);
    const std::int64_t p = pattern_.members;
    if (here.uplink >= 0) {
      const double share = all_to_all_ ? Ratio(g * (p - g), p) : 1;
      Add(Network::Uplink(here, true), share);
      Add(Network::Uplink(here, false), share);
    }
    if (here.device_uplinks >= 0) {
      const double share = all_to_all_ ? Ratio(p - g, p) : Ratio(1, g);
      for (std::size_t i = begin; i < end; ++i) {
        Add(Network::DeviceUplink(here, members_[i], true), share);
        Add(Network::DeviceUplink(here, members_[i], false), share);
      }
    }
  }

  // Adds the loads on the links between the parts of a group. Returns latencies of this level alone; `direct` is the
  // latency of one message.
  Latencies Level(std::int32_t at, const std::vector<MemberRun>& parts, std::int64_t g) {
    const Group& group = network_.cluster().group(spot(at).group);
    double beside = 0;  // latency on uplinks
    for (const MemberRun& part : parts) {
      beside = std::max(beside, 2 * network_.ExitLatency(at, members_[part.begin]));
    }
    const double hop = group.link.latency + beside;
    switch (group.topology) {
      case Topology::kSwitch:
        Ports(at, parts, g);
        return {static_cast<double>(parts.size() - 1) * hop,
                CeilLog2(static_cast<std::int64_t>(parts.size())) * hop, hop};
      case Topology::kMesh:
        Mesh(at, parts, g);
        return {hop, hop, hop};
      case Topology::kRing:
      case Topology::kTorus:
        break;
    }
    has_torus_ = true;
    return Torus(at, parts, g, beside);
  }

  // The fraction of the volume that a part with h members sends to the other parts of its group.
  double Passed(std::int32_t at, std::int64_t g, std::int64_t h) const {
    return at == top_ ? 1 : Ratio(g - h, g);
  }

  void Ports(std::int32_t at, const std::vector<MemberRun>& parts, std::int64_t g) {
    const Network::Spot& here = spot(at);
    for (const MemberRun& part : parts) {
      const std::int64_t h = part.size();
      double share = at == top_ ? Ratio(1, h) : Ratio(g - h, g * h);
      if (all_to_all_) share = Ratio(g - h, pattern_.members);
      for (std::size_t i = part.begin; i < part.end; ++i) {
        Add(Network::Port(here, members_[i], true), share);
        Add(Network::Port(here, members_[i], false), share);
      }
    }
  }

  void Mesh(std::int32_t at, const std::vector<MemberRun>& parts, std::int64_t g) {
    const auto others = static_cast<double>(parts.size() - 1);
    std::vector<LinkId> hop;
    for (const MemberRun& from : parts) {
      const double passed = Passed(at, g, from.size()) / others;
      for (const MemberRun& to : parts) {
        if (&from == &to) continue;
        hop.clear();
        network_.AppendHops(spot(at), MemberOf(at, from), MemberOf(at, to), hop);
        Add(hop[0], all_to_all_ ? Ratio(from.size() * to.size(), pattern_.members) : passed);
      }
    }
  }

  Latencies Torus(std::int32_t at, const std::vector<MemberRun>& parts, std::int64_t g,
                  double beside) {
    const Group& group = network_.cluster().group(spot(at).group);
    std::vector<TorusPart> torus_parts;
    std::int64_t furthest = 0;
    for (const MemberRun& part : parts) {
      torus_parts.push_back({MemberOf(at, part), part.size(), Passed(at, g, part.size())});
      furthest =
          std::max(furthest, HopsBetween(group, torus_parts[0].member, torus_parts.back().member));
    }
    if (all_to_all_) {
      AppendAllToAllTraffic(network_, spot(at), torus_parts, Ratio(1, pattern_.members),
                            pattern_.loads);
      return {0, 0, static_cast<double>(furthest) * group.link.latency + beside};
    }
    const TorusSteps steps = AppendRingTraffic(network_, spot(at), torus_parts, pattern_.loads);
    const double latency = static_cast<double>(steps.hops) * group.link.latency +
                           static_cast<double>(steps.steps) * beside;
    return {latency, latency, 0};  // the long edges of a tree would pass as many hops
  }

  // The latency of p-1 of the p hops from each member to the next: all but the shortest.
  double FlatRing() const {
    double sum = 0;
    double quickest = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < members_.size(); ++i) {
      const double hop = network_.LatencyBetween(members_[i], members_[(i + 1) % members_.size()]);
      sum += hop;
      quickest = std::min(quickest, hop);
    }
    return sum - quickest;
  }

  std::int64_t MemberOf(std::int32_t at, const MemberRun& part) const {
    return network_.MemberOf(at, members_[part.begin]);
  }

  void Add(LinkId link, double share) { pattern_.loads.push_back({link, share}); }

  const Network& network_;
  std::vector<DeviceId> members_;
  bool all_to_all_;
  std::int32_t top_ = 0;  // the smallest spot that contains all members
  bool has_torus_ = false;
  Pattern pattern_;
};

}  // namespace

Pattern RingPattern(const Network& network, std::span<const DeviceId> members) {
  return Weaver(network, members, /*all_to_all=*/false).Weave();
}

Pattern AllToAllPattern(const Network& network, std::span<const DeviceId> members) {
  return Weaver(network, members, /*all_to_all=*/true).Weave();
}

}  // namespace heddle
