#include "search/prices/links.h"

#include <algorithm>
#include <vector>

namespace heddle {

MeshLinks::MeshLinks(const Network& network, const Mesh& mesh) : mesh_(mesh), network_(network) {}

const MeshLinks::Traffic& MeshLinks::TrafficOf(AxisMask axes, bool all_to_all) {
  auto [at, fresh] = traffic_.try_emplace({axes, all_to_all});
  Traffic& traffic = at->second;
  if (!fresh) return traffic;
  // A cluster of a million devices has millions of links of which a search uses few, so the vector
  // is reused and reset below.
  static thread_local std::vector<double> shares;
  shares.resize(std::max(shares.size(), network_.link_count()), 0);
  std::vector<LinkId> touched;
  for (int64_t index = 0; index < mesh_.size(); ++index) {
    if (!IsFirstOfGroup(mesh_, index, axes)) continue;
    std::vector<DeviceId> members;
    for (int64_t member : AxisGroup(mesh_, index, axes)) {
      members.push_back(DeviceId{static_cast<int32_t>(DeviceAt(mesh_, member))});
    }
    Pattern pattern =
        all_to_all ? AllToAllPattern(network_, members) : RingPattern(network_, members);
    for (const LinkLoad& load : pattern.loads) {
      if (shares[load.link.index()] == 0) touched.push_back(load.link);
      shares[load.link.index()] += load.share;
    }
    bool longer = pattern.ring + pattern.direct > traffic.pattern.ring + traffic.pattern.direct;
    if (index == 0 || longer) traffic.pattern = std::move(pattern);
  }
  for (LinkId link : touched) {
    double& share = shares[link.index()];
    traffic.seconds_per_byte = std::max(traffic.seconds_per_byte, share / network_.capacity(link));
    share = 0;
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

PipelineLinks::PipelineLinks(const Network& network, int64_t mesh, int64_t stages)
    : stages_(stages) {
  // Machines have far fewer devices than this, and further devices repeat the pattern.
  constexpr int64_t kMostDevices = 1024;
  int64_t devices = std::min(mesh, kMostDevices);
  int64_t hops = std::clamp<int64_t>(kMostDevices / devices, 1, stages - 1);
  struct Passing {
    LinkId link;
    int64_t sender = 0;
    double seconds = 0;
  };
  std::vector<Passing> all;
  // All messages of a stage in one direction.
  auto send = [&](int64_t from, int64_t to, int64_t sender) {
    Hop hop;
    std::vector<std::pair<LinkId, double>> uses;
    for (int64_t i = 0; i < devices; ++i) {
      Network::Route route = network.RouteBetween(DeviceId{static_cast<int32_t>(from + i)},
                                                  DeviceId{static_cast<int32_t>(to + i)});
      hop.latency = std::max(hop.latency, route.latency);
      for (LinkId link : route.links) uses.push_back({link, 1 / network.capacity(link)});
    }
    std::sort(uses.begin(), uses.end());
    for (size_t i = 0; i < uses.size(); ++i) {
      bool same = i > 0 && uses[i].first == uses[i - 1].first;
      if (same) {
        all.back().seconds += uses[i].second;
      } else {
        all.push_back({uses[i].first, sender, uses[i].second});
      }
      hop.per_byte = std::max(hop.per_byte, all.back().seconds);
    }
    return hop;
  };
  for (int64_t s = 0; s < hops; ++s) {
    hops_.push_back(send(s * mesh, (s + 1) * mesh, 2 * s));
    send((s + 1) * mesh, s * mesh, 2 * s + 1);
  }
  around_ = send((stages - 1) * mesh, 0, 2 * (stages - 1));
  send(0, (stages - 1) * mesh, 2 * (stages - 1) + 1);
  if (hops + 1 == stages) uses_.resize(static_cast<size_t>(2 * stages));
  std::stable_sort(all.begin(), all.end(),
                   [](const Passing& a, const Passing& b) { return a.link < b.link; });
  for (size_t i = 0; i < all.size();) {
    Senders senders;
    LinkId link = all[i].link;
    for (; i < all.size() && all[i].link == link; ++i) {
      senders.push_back({all[i].sender, all[i].seconds});
    }
    AddLink(senders);
  }
  known_.clear();
}

void PipelineLinks::AddLink(const Senders& senders) {
  if (!known_.insert(senders).second) return;
  Load load;
  for (auto [sender, seconds] : senders) {
    bool around = sender / 2 == stages_ - 1;
    (around ? load.around : load.between) += seconds;
    if (!uses_.empty()) {
      uses_[static_cast<size_t>(sender)].push_back({static_cast<int>(loads_.size()), seconds});
    }
  }
  loads_.push_back(load);
}

double PipelineLinks::Transfer(int64_t device, double bytes) const {
  size_t at = static_cast<size_t>(device) % hops_.size();
  const Hop& hop = device + 1 == stages_ ? around_ : hops_[at];
  return hop.latency + bytes * hop.per_byte;
}

std::vector<double> PipelineLinks::Transfers(double bytes) const {
  std::vector<double> seconds;
  for (int64_t d = 0; d < stages_; ++d) seconds.push_back(Transfer(d, bytes));
  return seconds;
}

double PipelineLinks::Occupied(int64_t chunks, double bytes) const {
  double most = 0;
  for (const Load& load : loads_) {
    most = std::max(most, static_cast<double>(chunks) * load.between +
                              static_cast<double>(chunks - 1) * load.around);
  }
  return bytes * most;
}

}  // namespace heddle
