#include "cluster/random_topology.h"

#include <fmt/format.h>

#include <array>
#include <random>
#include <vector>

#include "base/check.h"
#include "cluster/builder.h"
#include "cluster/presets.h"
#include "cluster/yaml.h"

namespace heddle {
namespace {

constexpr double kNear = 5e9, kFar = 2.81e9;  // bytes per second between machines

Link LinkOf(const char* name, double bandwidth, double latency) {
  return {name, bandwidth, latency};
}

DeviceType Known(std::string_view name) {
  const DeviceType* type = FindKnownDevice(name);
  HEDDLE_CHECK(type != nullptr, "there is no device {}", name);
  return *type;
}

GroupId AddMachine(ClusterBuilder& builder, const DeviceType& type, int64_t cards, double inside,
                   double outside) {
  Group node;
  node.kind = GroupKind::kNode;
  node.name = fmt::format("{}x{}-{:.0f}-{:.0f}", cards, type.name, inside / 1e9, outside / 1e7);
  if (cards > 1) node.link = LinkOf("pcie", inside, 5e-6);
  node.uplink.bandwidth = outside;
  AddMembers(node, {cards, builder.Add(type), {}});
  return builder.Add(node);
}

}  // namespace

Cluster TagTestbed() {
  return ClusterFromYaml(
      "link: {name: ethernet, bandwidth: 2.81 GB/s, latency: 12 us}\n"
      "nodes:\n"
      "  - {preset: v100x4, count: 1}\n"
      "  - {preset: 1080tix2, count: 4}\n"
      "  - {preset: p100x2, count: 2}\n",
      "tag-testbed");
}

Cluster RandomTopology(uint64_t seed, double bytes) {
  std::mt19937_64 rng(seed);
  auto below = [&](uint64_t bound) { return static_cast<size_t>(rng() % bound); };
  constexpr std::array<std::string_view, 3> kTypes = {"p100-pcie-12gb", "gtx-1080ti",
                                                      "v100-sxm2-16gb"};
  constexpr std::array<int64_t, 5> kCards = {2, 3, 4, 6, 8};
  struct Machine {
    DeviceType type;
    int64_t cards;
    double inside;
  };
  std::array<std::vector<Machine>, 2> racks;
  double memory = 0;
  int64_t devices = 0;
  bool by_memory = below(2) == 0;
  for (int m = 0; m < 4 && devices < 16 && !(by_memory && memory > 2 * bytes); ++m) {
    Machine machine{Known(kTypes[below(3)]), kCards[below(5)], below(2) == 0 ? 8e9 : 20e9};
    devices += machine.cards;
    memory += static_cast<double>(machine.cards * machine.type.memory.value);
    racks[below(2)].push_back(std::move(machine));
  }
  ClusterBuilder builder;
  Group whole;
  whole.name = fmt::format("random-{}", seed);
  whole.kind = GroupKind::kCluster;
  int64_t used = 0;
  for (size_t r = 0; r < racks.size(); ++r) {
    if (racks[r].empty()) continue;
    Group rack;
    rack.kind = GroupKind::kRack;
    rack.name = fmt::format("rack{}", r);
    if (racks[r].size() > 1) rack.link = LinkOf("ethernet", kNear, 12e-6);
    for (const Machine& machine : racks[r]) {
      AddMembers(rack,
                 {1, {}, AddMachine(builder, machine.type, machine.cards, machine.inside, kNear)});
    }
    AddMembers(whole, {1, {}, builder.Add(rack)});
    ++used;
  }
  if (used > 1) whole.link = LinkOf("ethernet between racks", kFar, 12e-6);
  return std::move(builder).Finish(whole);
}

}  // namespace heddle
