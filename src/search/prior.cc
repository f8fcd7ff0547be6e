#include "search/prior.h"

#include <algorithm>
#include <cmath>

namespace heddle {
namespace {

class Uniform : public Prior {
 public:
  std::vector<std::vector<double>> Of(const PlacementGraph& graph,
                                      const std::vector<PrefixState>& states) override {
    size_t count = graph.actions.size();
    return std::vector<std::vector<double>>(
        states.size(), std::vector<double>(count, 1.0 / static_cast<double>(count)));
  }
};

}  // namespace

std::unique_ptr<Prior> UniformPrior() { return std::make_unique<Uniform>(); }

PlacementGraph GraphOf(const Placements& space) {
  const std::vector<DeviceGroup>& groups = space.groups();
  const std::vector<Unit>& units = space.units();
  const Cluster& cluster = space.problem().cluster;
  auto batch = static_cast<double>(BatchSize(space.problem().model));
  PlacementGraph out;
  out.units = units.size();
  out.groups = groups.size();
  out.decisions = space.decisions().size();
  out.actions = space.actions();
  std::vector<double> places;  // seconds
  double norm = 0;
  for (const Unit& unit : units) {
    double mean = 0;
    for (const DeviceGroup& group : groups) {
      for (double part : {1.0, 2.0, 4.0, 8.0}) {
        places.push_back(space.times().Seconds(group.type, unit.first_block, unit.last_block,
                                               std::max(1.0, batch / part)));
        if (part == 1) mean += places.back() / static_cast<double>(groups.size());
      }
    }
    norm += mean * mean;
  }
  norm = std::max(std::sqrt(norm), 1e-12);
  double widest = 1;
  for (size_t a = 0; a < groups.size(); ++a) {
    widest = std::max(widest, groups[a].bandwidth);
    for (size_t b = 0; b < groups.size(); ++b) {
      if (a != b) widest = std::max(widest, BandwidthBetween(cluster, groups[a], groups[b]));
    }
  }
  double size = norm * widest;
  for (double seconds : places) out.places.push_back(static_cast<float>(seconds / norm));
  for (size_t u = 0; u < units.size(); ++u) {
    for (size_t p = 0; p < 4; ++p) {
      double mean = 0;
      for (size_t g = 0; g < groups.size(); ++g) {
        mean += places[(u * groups.size() + g) * 4 + p] / static_cast<double>(groups.size());
      }
      out.unit_times.push_back(static_cast<float>(mean / norm));
    }
    auto element = static_cast<double>(SizeOf(space.problem().gradients));
    out.unit_sizes.push_back(static_cast<float>(units[u].parameters * element / size));
    out.unit_sizes.push_back(static_cast<float>(units[u].handed_on / size));
    out.decision_of.push_back(units[u].decision);
  }
  for (size_t a = 0; a < groups.size(); ++a) {
    auto memory = static_cast<double>(cluster.type(groups[a].type).memory.value);
    out.group_sizes.push_back(static_cast<float>(groups[a].size()) / 4);
    out.group_sizes.push_back(static_cast<float>(memory / size));
    out.group_sizes.push_back(static_cast<float>(groups[a].bandwidth / widest));
    for (size_t b = 0; b < groups.size(); ++b) {
      double width = a == b ? groups[a].bandwidth : BandwidthBetween(cluster, groups[a], groups[b]);
      out.links.push_back(static_cast<float>(width / widest));
    }
  }
  return out;
}

}  // namespace heddle
