#include "search/placement/prior.h"

#include <algorithm>
#include <cmath>
#include <set>

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

// Per pair of units: bytes that the first makes and the second, later one reads.
std::vector<double> FlowsOf(const Placements& space) {
  const Model& model = space.model();
  size_t units = space.units().size();
  std::vector<size_t> unit_of(model.blocks.size(), 0);
  for (size_t u = 0; u < units; ++u) {
    for (int b = space.units()[u].first_block; b < space.units()[u].last_block; ++b) {
      unit_of[static_cast<size_t>(b)] = u;
    }
  }
  std::vector<double> flows(units * units, 0);
  for (size_t n = 0; n < model.graph.nodes.size(); ++n) {
    if (model.block_of[n] < 0) continue;
    size_t from = unit_of[static_cast<size_t>(model.block_of[n])];
    for (ValueId v : model.graph.nodes[n].results) {
      std::set<size_t> readers;
      for (NodeId reader : model.readers[v.index()]) {
        int block = model.block_of[reader.index()];
        if (block >= 0) readers.insert(unit_of[static_cast<size_t>(block)]);
      }
      const TensorType& type = model.graph.value(v).type;
      auto bytes = static_cast<double>(ByteCount(type));
      for (size_t to : readers) flows[from * units + to] += to > from ? bytes : 0;
    }
  }
  return flows;
}

}  // namespace

std::unique_ptr<Prior> UniformPrior() { return std::make_unique<Uniform>(); }

PlacementGraph GraphOf(const Placements& space) {
  const std::vector<DeviceGroup>& groups = space.groups();
  const std::vector<PlacementUnit>& units = space.units();
  const Cluster& cluster = space.task().cluster;
  auto batch = static_cast<double>(BatchSize(space.task().model));
  PlacementGraph out;
  out.units = units.size();
  out.groups = groups.size();
  out.decisions = space.decisions().size();
  out.actions = space.actions();
  std::vector<double> places;  // seconds
  double norm = 0;
  for (const PlacementUnit& unit : units) {
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
  for (double bytes : FlowsOf(space)) out.flows.push_back(static_cast<float>(bytes / size));
  for (double seconds : places) out.places.push_back(static_cast<float>(seconds / norm));
  for (size_t u = 0; u < units.size(); ++u) {
    for (size_t p = 0; p < 4; ++p) {
      double mean = 0;
      for (size_t g = 0; g < groups.size(); ++g) {
        mean += places[(u * groups.size() + g) * 4 + p] / static_cast<double>(groups.size());
      }
      out.unit_times.push_back(static_cast<float>(mean / norm));
    }
    auto element = static_cast<double>(SizeOf(space.task().gradients));
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
