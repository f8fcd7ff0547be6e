#include "search/links.h"

#include <algorithm>
#include <vector>

namespace heddle {

MeshLinks::MeshLinks(const Network& network, const Mesh& mesh) : mesh_(mesh), network_(network) {}

const MeshLinks::Traffic& MeshLinks::TrafficOf(AxisMask axes, bool all_to_all) {
  auto [at, fresh] = traffic_.try_emplace({axes, all_to_all});
  Traffic& traffic = at->second;
  if (!fresh) return traffic;
  std::vector<double> shares(network_.link_count(), 0);
  for (int64_t index = 0; index < mesh_.size(); ++index) {
    if (!IsFirstOfGroup(mesh_, index, axes)) continue;
    std::vector<DeviceId> members;
    for (int64_t member : AxisGroup(mesh_, index, axes)) {
      members.push_back(DeviceId{static_cast<int32_t>(DeviceAt(mesh_, member))});
    }
    Pattern pattern =
        all_to_all ? AllToAllPattern(network_, members) : RingPattern(network_, members);
    for (const LinkLoad& load : pattern.loads) shares[load.link.index()] += load.share;
    bool longer = pattern.ring + pattern.direct > traffic.pattern.ring + traffic.pattern.direct;
    if (index == 0 || longer) traffic.pattern = std::move(pattern);
  }
  for (size_t l = 0; l < shares.size(); ++l) {
    traffic.seconds_per_byte =
        std::max(traffic.seconds_per_byte, shares[l] / network_.capacities()[l]);
  }
  return traffic;
}

CollectiveCost MeshLinks::CostOf(CollectiveKind kind, const Traffic& traffic, double bytes) const {
  return Choose(kind, traffic.pattern, bytes, traffic.seconds_per_byte);
}

double MeshLinks::Seconds(CollectiveKind kind, AxisMask axes, double bytes) {
  if (GroupSize(mesh_, axes) == 1) return 0;
  const Traffic& traffic = TrafficOf(axes, kind == CollectiveKind::kAllToAll);
  CollectiveCost cost = CostOf(kind, traffic, bytes);
  return cost.latency + cost.volume * traffic.seconds_per_byte;
}

double MeshLinks::BandwidthSeconds(CollectiveKind kind, AxisMask axes, double bytes) {
  if (GroupSize(mesh_, axes) == 1) return 0;
  const Traffic& traffic = TrafficOf(axes, kind == CollectiveKind::kAllToAll);
  bool all_to_all = kind == CollectiveKind::kAllToAll;
  Algorithm algorithm = all_to_all ? Algorithm::kDirect : Algorithm::kRing;
  return heddle::CostOf(kind, algorithm, traffic.pattern, bytes).volume * traffic.seconds_per_byte;
}

MessageTime TimeOfMessages(const Network& network, int64_t distance, int64_t mesh, double bytes) {
  MessageTime out;
  Network::Route route =
      network.RouteBetween(DeviceId{0}, DeviceId{static_cast<int32_t>(distance)});
  for (LinkId link : route.links) {
    LinkKind kind = network.Kind(link);
    bool shared = kind.role == LinkRole::kUplink;
    double sharing = shared ? static_cast<double>(std::min(mesh, kind.group.count)) : 1;
    out.flow = std::max(out.flow, sharing * bytes / network.capacity(link));
  }
  out.latency = route.latency;
  return out;
}

}  // namespace heddle
