// Small random clusters for tests: up to four levels, all topologies, different members.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/rng.h"
#include "cluster/builder.h"
#include "cluster/cluster.h"

namespace heddle {

inline DeviceId D(std::int64_t i) { return DeviceId{static_cast<std::int32_t>(i)}; }

class RandomClusterMaker {
 public:
  explicit RandomClusterMaker(std::uint64_t seed) : seed_(seed) {}

  Cluster Make() {
    Group whole = MakeGroup("whole", GroupKind::kCluster);
    whole.uplink = {};
    return std::move(builder_).Finish(whole);
  }

 private:
  std::int64_t Below(int bound) {
    return static_cast<std::int64_t>(
        RandomBelow(static_cast<std::uint64_t>(bound), seed_, 0, counter_++));
  }
  double Number() { return static_cast<double>(1 + Below(100)) * 1e9; }

  // A group with everything in it, and a link, topology and uplink of its own.
  Group MakeGroup(const std::string& name, GroupKind kind) {
    Group group{.name = name, .kind = kind};
    const bool outer = kind == GroupKind::kCluster || kind == GroupKind::kRack;
    const GroupKind inner_kind = !outer                                         ? GroupKind::kPart
                                 : kind == GroupKind::kCluster && Below(2) == 0 ? GroupKind::kRack
                                                                                : GroupKind::kNode;
    std::int64_t members = 0;
    for (std::int64_t i = 0, kinds = 1 + Below(2); i < kinds; ++i) {
      const std::int64_t count = 1 + Below(outer ? 4 : 5);
      const bool devices = kind == GroupKind::kPart || (kind == GroupKind::kNode && Below(2) == 0);
      if (devices) {
        AddMembers(group, {count,
                           builder_.Add(DeviceType{.name = "chip",
                                                   .peak = {.fp32 = 1e12},
                                                   .memory = kGiB,
                                                   .memory_bandwidth = 1e9,
                                                   .host = {}}),
                           {}});
      } else {
        const Group inner = MakeGroup(name + "." + std::to_string(i), inner_kind);
        AddMembers(group, {count, {}, builder_.Add(inner)});
      }
      members += count;
    }
    group.topology = static_cast<Topology>(Below(4));
    if (group.topology == Topology::kTorus) group.dims = MakeDims(members);
    group.link = {"wire", Number(), static_cast<double>(Below(5)) * 1e-6};
    if (Below(2) == 0) group.uplink.bandwidth = Number();
    if (Below(2) == 0) group.uplink.per_device = Number();
    if (Below(2) == 0) group.uplink.latency = static_cast<double>(Below(5)) * 1e-6;
    return group;
  }

  static std::vector<std::int64_t> MakeDims(std::int64_t members) {
    std::vector<std::int64_t> dims;
    for (std::int64_t factor = 2; members > 1 && dims.size() + 1 < kMaxTorusDims; ++factor) {
      while (members % factor == 0 && dims.size() + 1 < kMaxTorusDims) {
        dims.push_back(factor);
        members /= factor;
      }
    }
    dims.push_back(members);
    return dims;
  }

  std::uint64_t seed_;
  std::uint64_t counter_ = 0;
  ClusterBuilder builder_;
};

inline Cluster RandomCluster(std::uint64_t seed) { return RandomClusterMaker(seed).Make(); }

}  // namespace heddle
