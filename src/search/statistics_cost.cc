#include "search/statistics_cost.h"

#include <algorithm>

#include "search/expansion.h"

namespace heddle {
namespace {

struct StatisticsNode {
  NodeId node;
  int factor = -1;  // of the batch
};

std::vector<StatisticsNode> NodesWithStatistics(const Model& model) {
  std::vector<StatisticsNode> nodes;
  if (!model.batch) return nodes;
  for (size_t n = 0; n < model.graph.nodes.size(); ++n) {
    const std::vector<Factor>& factors = model.rules[n].factors;
    for (size_t f = 0; f < factors.size() && f < model.batch->factors[n].size(); ++f) {
      if (factors[f].kind == FactorKind::kExpanded && model.batch->factors[n][f]) {
        nodes.push_back({NodeId::FromIndex(n), static_cast<int>(f)});
      }
    }
  }
  return nodes;
}

// Per node: those that it comes after, however many are between.
std::vector<std::vector<bool>> NodesBefore(const Graph& graph) {
  std::vector<std::vector<bool>> before(graph.nodes.size(),
                                        std::vector<bool>(graph.nodes.size(), false));
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    for (ValueId operand : graph.nodes[n].operands) {
      NodeId producer = graph.value(operand).producer;
      if (!producer.valid()) continue;
      before[n][producer.index()] = true;
      for (size_t p = 0; p < producer.index(); ++p) {
        if (before[producer.index()][p]) before[n][p] = true;
      }
    }
  }
  return before;
}

// Does every other node that computes come before or after it?
bool IsExposed(const Model& model, const StageCosts& costs,
               const std::vector<std::vector<bool>>& before, size_t n) {
  for (size_t other = 0; other < model.graph.nodes.size(); ++other) {
    bool computes = costs.HasKernels(NodeId::FromIndex(other)) && !model.once[other];
    if (other != n && computes && !before[n][other] && !before[other][n]) return false;
  }
  return true;
}

// Of the collectives between the primitives that a node stands for, which one queue takes one after the other.
double LatencyInside(const Model& model, StageCosts& costs, const Mesh& mesh, NodeId node,
                     const Strategy& strategy) {
  double latency = 0;
  ExpandedNode expanded = ExpandNode(model, costs.rule(node), node, mesh, strategy);
  for (const ExpandedValue& value : expanded.values) {
    std::vector<Use> uses;
    for (const auto& [wanted, gradient] : value.uses) {
      uses.push_back({costs.Number(wanted), gradient ? costs.Number(*gradient) : -1});
    }
    latency += costs.RouteSeconds(costs.Number(value.given), uses, 0);
  }
  return latency;
}

}  // namespace

StatisticsCost StatisticsAlong(const Prices& prices, int64_t data_ranks,
                               const std::vector<int64_t>& inner, int64_t microbatches) {
  StatisticsCost out;
  const Model& model = prices.model();
  std::vector<StatisticsNode> nodes = NodesWithStatistics(model);
  if (data_ranks == 1 || nodes.empty()) return out;
  auto repeated = static_cast<double>(microbatches);
  Mesh mesh = MeshOf(inner), wide = mesh;
  wide.axes.insert(wide.axes.begin(), {"dp", data_ranks});
  StageCosts shared(model, prices.cluster(), wide, prices.CostsFor(microbatches, repeated));
  StageCosts alone(model, prices.cluster(), mesh,
                   prices.CostsFor(microbatches * data_ranks, repeated));
  std::vector<std::vector<bool>> before = NodesBefore(model.graph);
  for (const StatisticsNode& at : nodes) {
    Strategy split(wide.axes.size(), kReplicate), whole(mesh.axes.size(), kReplicate);
    split[0] = at.factor;
    ChoiceCost with = shared.OfNode(at.node, split, {}), without = alone.OfNode(at.node, whole, {});
    out.seconds += with.seconds() + with.queued - without.seconds();
    if (!IsExposed(model, shared, before, at.node.index())) continue;
    out.exposed_seconds += LatencyInside(model, shared, wide, at.node, split);
  }
  out.seconds = std::max(0.0, out.seconds);
  return out;
}

}  // namespace heddle
