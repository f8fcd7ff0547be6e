// Checks that a Cluster is sound; cluster.h lists the checks.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "base/checked_math.h"
#include "cluster/cluster.h"

namespace heddle {
namespace {

class Verifier {
 public:
  explicit Verifier(const Cluster& cluster) : cluster_(cluster) {}

  std::vector<std::string> Run() {
    CheckName("cluster", cluster_.name);
    if (cluster_.groups.empty()) {
      Report("the cluster has no groups");
      return std::move(found_);
    }
    CheckNames("device type", cluster_.device_types);
    CheckNames("group", cluster_.groups);
    for (const DeviceType& type : cluster_.device_types) CheckDevice(type);
    type_used_.assign(cluster_.device_types.size(), false);
    group_used_.assign(cluster_.groups.size(), false);
    for (std::size_t i = 0; i < cluster_.groups.size(); ++i) CheckGroup(i);
    CheckUsed();
    CheckTotals();
    return std::move(found_);
  }

 private:
  template <class... Args>
  void Report(fmt::format_string<Args...> format, Args&&... args) {
    found_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  void CheckName(std::string_view what, std::string_view name) {
    if (name.empty()) Report("a {} has no name", what);
    if (name.size() > kMaxClusterName) {
      Report("the name of a {} has {} bytes, at most {} are allowed", what, name.size(),
             kMaxClusterName);
    }
    const bool printable = std::all_of(name.begin(), name.end(), [](char c) {
      const auto byte = static_cast<unsigned char>(c);
      return byte >= 0x20 && byte < 0x7f;
    });
    if (!printable) Report("the name of a {} is not printable ASCII", what);
  }

  template <class Named>
  void CheckNames(std::string_view what, const std::vector<Named>& named) {
    std::map<std::string_view, int> seen;
    for (const Named& one : named) {
      CheckName(what, one.name);
      if (++seen[one.name] == 2) Report("two {}s are named {}", what, one.name);
    }
  }

  // Requires a positive value, or 0 where 0 means that the link or resource is absent.
  void CheckNumber(const std::string& owner, std::string_view what, double value, double limit,
                   bool may_be_zero) {
    const bool fine =
        std::isfinite(value) && value <= limit && (may_be_zero ? value >= 0 : value > 0);
    if (!fine) {
      Report("{}: {} is {}, must be {} 0 and at most {:g}", owner, what, value,
             may_be_zero ? "at least" : "above", limit);
    }
  }

  void CheckMemory(const std::string& owner, std::string_view what, Bytes memory,
                   bool may_be_zero) {
    if (memory > kMaxMemory || memory < Bytes{0} || (memory == Bytes{0} && !may_be_zero)) {
      Report("{}: {} is {} bytes, must be {} 0 and at most {}", owner, what, memory.value,
             may_be_zero ? "at least" : "above", FormatBytes(kMaxMemory));
    }
  }

  void CheckLink(const std::string& owner, std::string_view what, const Link& link) {
    if (link == Link{}) return;
    CheckName("link", link.name);
    CheckNumber(owner, fmt::format("{} bandwidth", what), link.bandwidth, kMaxBandwidth, false);
    CheckNumber(owner, fmt::format("{} latency", what), link.latency, kMaxLatency, true);
  }

  void CheckDevice(const DeviceType& type) {
    bool computes = false;
    for (const RateName& rate : kRateNames) {
      CheckNumber(type.name, rate.name, type.peak.*rate.rate, kMaxRate, true);
      computes |= type.peak.*rate.rate > 0;
    }
    if (!computes) Report("{}: has no rate", type.name);
    CheckMemory(type.name, "memory", type.memory, false);
    CheckNumber(type.name, "memory bandwidth", type.memory_bandwidth, kMaxBandwidth, false);
    CheckLink(type.name, "host link", type.host);
  }

  static bool MayHold(GroupKind kind, std::optional<GroupKind> member) {
    if (kind == GroupKind::kCluster || kind == GroupKind::kRack) {
      return member == GroupKind::kRack || member == GroupKind::kNode;
    }
    return !member || member == GroupKind::kPart;
  }

  void CheckGroup(std::size_t index) {
    const Group& group = cluster_.groups[index];
    const bool last = index + 1 == cluster_.groups.size();
    if (last != (group.kind == GroupKind::kCluster)) {
      Report("{}: the last group must be the cluster, and no other group may be", group.name);
    }
    std::int64_t count = 0, devices = 0;
    int depth = 1;
    for (std::size_t m = 0; m < group.members.size(); ++m) {
      const Members& members = group.members[m];
      const Size member = CheckMembers(index, members);
      if (m > 0 && group.members[m - 1].device == members.device &&
          group.members[m - 1].group == members.group) {
        Report("{}: equal neighbouring members must be one entry", group.name);
      }
      count = Saturated(count, std::clamp(members.count, std::int64_t{0}, kMaxDevices + 1));
      const auto more = TryMul(std::max(members.count, std::int64_t{0}), member.devices);
      devices = Saturated(devices, more.value_or(kMaxDevices + 1));
      depth = std::max(depth, member.depth + 1);
    }
    sizes_.push_back({devices, std::min(depth, kMaxGroupDepth + 1)});
    if (group.members.empty()) Report("{}: has no members", group.name);
    if (count > 1 && !group.link.exists()) {
      Report("{}: its {} members are not connected: no link", group.name, count);
    }
    CheckLink(group.name, "link", group.link);
    CheckNumber(group.name, "uplink bandwidth", group.uplink.bandwidth, kMaxBandwidth, true);
    CheckNumber(group.name, "uplink per_device", group.uplink.per_device, kMaxBandwidth, true);
    CheckNumber(group.name, "uplink latency", group.uplink.latency, kMaxLatency, true);
    CheckMemory(group.name, "host memory", group.host_memory, true);
    if (group.kind != GroupKind::kNode && group.host_memory != Bytes{0}) {
      Report("{}: only nodes may have host memory", group.name);
    }
    if (last && group.uplink != Uplink{})
      Report("{}: a cluster must not have an uplink", group.name);
    CheckTorus(group, count);
  }

  struct Size {
    std::int64_t devices = 0;
    int depth = 0;
  };

  Size CheckMembers(std::size_t index, const Members& members) {
    const Group& group = cluster_.groups[index];
    if (members.count < 1) Report("{}: {} members", group.name, members.count);
    if (members.device.valid() == members.group.valid()) {
      Report("{}: a member must be either a device or a group", group.name);
      return {};
    }
    if (members.device.valid()) {
      if (members.device.index() >= cluster_.device_types.size()) {
        Report("{}: no device type {}", group.name, members.device);
        return {};
      }
      type_used_[members.device.index()] = true;
      if (!MayHold(group.kind, std::nullopt))
        Report("{}: only nodes and parts may contain devices", group.name);
      return {1, 0};
    }
    if (members.group.index() >= index) {
      Report("{}: its member {} must come before the group", group.name, members.group);
      return {};
    }
    group_used_[members.group.index()] = true;
    const Group& member = cluster_.group(members.group);
    const Members& first = group.members[0];
    const bool alike = group.kind == GroupKind::kNode || group.kind == GroupKind::kPart ||
                       !first.group.valid() || first.group.index() >= index ||
                       cluster_.group(first.group).kind == member.kind;
    if (!alike) Report("{}: contains both racks and nodes", group.name);
    if (!MayHold(group.kind, member.kind)) {
      Report("{}: a {} must not contain a {}", group.name, Name(group.kind), Name(member.kind));
    }
    return sizes_[members.group.index()];
  }

  void CheckTorus(const Group& group, std::int64_t count) {
    if (group.topology != Topology::kTorus) {
      if (!group.dims.empty()) Report("{}: only a torus has dims", group.name);
      return;
    }
    if (group.dims.empty() || group.dims.size() > kMaxTorusDims) {
      Report("{}: a torus has 1 to {} dims", group.name, kMaxTorusDims);
      return;
    }
    std::int64_t product = 1;
    for (std::int64_t dim : group.dims) {
      if (dim < 1) Report("{}: a dimension of the torus is {}", group.name, dim);
      product = TryMul(product, std::max(dim, std::int64_t{1})).value_or(kMaxDevices + 1);
      product = std::min(product, kMaxDevices + 1);
    }
    if (product != count) {
      Report("{}: the dims of the torus describe {} members, but there are {}", group.name, product,
             count);
    }
  }

  void CheckUsed() {
    for (std::size_t i = 0; i < type_used_.size(); ++i) {
      if (!type_used_[i]) Report("{}: no device is of this type", cluster_.device_types[i].name);
    }
    for (std::size_t i = 0; i + 1 < group_used_.size(); ++i) {
      if (!group_used_[i]) Report("{}: no group contains it", cluster_.groups[i].name);
    }
  }

  void CheckTotals() {
    const auto [devices, depth] = sizes_.back();
    if (devices < 1) Report("the cluster has no devices");
    if (devices > kMaxDevices) Report("more than {} devices", kMaxDevices);
    if (depth > kMaxGroupDepth) Report("groups are nested deeper than {}", kMaxGroupDepth);
    Bytes largest;
    for (const DeviceType& type : cluster_.device_types) largest = std::max(largest, type.memory);
    if (!TryMul(largest.value, std::min(devices, kMaxDevices))) {
      Report("the memory of all devices does not fit 64 bits");
    }
  }

  static std::string_view Name(GroupKind kind) {
    return kGroupKindNames[static_cast<std::size_t>(kind)];
  }
  static std::int64_t Saturated(std::int64_t a, std::int64_t b) {
    return std::min(a + std::min(b, kMaxDevices + 1), kMaxDevices + 1);
  }

  const Cluster& cluster_;
  std::vector<std::string> found_;
  std::vector<Size> sizes_;  // of the groups before this one
  std::vector<bool> type_used_, group_used_;
};

}  // namespace

std::vector<std::string> Verify(const Cluster& cluster) { return Verifier(cluster).Run(); }

}  // namespace heddle
