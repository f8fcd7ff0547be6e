#include "search/prices/statistics_cost.h"

#include <algorithm>

#include "plan/axes.h"
#include "search/prices/expansion.h"
#include "search/prices/strategies.h"

namespace heddle {
namespace {

struct StatisticsNode {
  NodeId node;
  int factor = -1;  // the batch factor
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

// Per node: the nodes that it depends on, directly or not.
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

// The seconds of these latencies that other nodes may hide. A node hides at most its own work,
// including a repeated forward, and only latencies of nodes that neither precede nor follow it.
double HiddenBehindOthers(const Model& model, StageCosts& alone,
                          const std::vector<StatisticsNode>& nodes,
                          const std::vector<double>& latencies) {
  std::vector<std::vector<bool>> before = NodesBefore(model.graph);
  Strategy whole(alone.mesh().axes.size(), kReplicate);
  double hidden = 0;
  for (size_t other = 0; other < model.graph.nodes.size(); ++other) {
    NodeId id = NodeId::FromIndex(other);
    if (!alone.HasKernels(id) || model.once[other]) continue;
    double beside = 0;
    for (size_t i = 0; i < nodes.size(); ++i) {
      size_t n = nodes[i].node.index();
      if (other != n && !before[n][other] && !before[other][n]) beside += latencies[i];
    }
    if (beside == 0) continue;
    ChoiceCost work = alone.OfNode(id, whole, {});
    hidden += std::min(beside, work.seconds() + work.forward);
  }
  return hidden;
}

// The latency of the collectives between the primitives of an expanded node, which one queue
// executes one after the other.
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

// The extra seconds of kernels on a data rank, compared with a node that normalises its own part,
// for the best strategy along the other axes.
double MoreKernels(const Model& model, StageCosts& shared, StageCosts& alone,
                   const StatisticsNode& at) {
  const Node& node = model.graph.node(at.node);
  StrategyScope scope;
  scope.made_by_nodes.assign(node.operands.size(), true);
  double least = kForbidden;
  for (const Strategy& inner : StrategiesOf(alone.mesh(), node.op, alone.rule(at.node), scope)) {
    Strategy split = {Split(at.factor)};
    split.insert(split.end(), inner.begin(), inner.end());
    double more =
        shared.OfNode(at.node, split, {}).seconds() - alone.OfNode(at.node, inner, {}).seconds();
    least = std::min(least, more);
  }
  return least == kForbidden ? 0 : std::max(0.0, least);
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
  wide.axes.insert(wide.axes.begin(), DataAxis(data_ranks));
  StageCosts shared(model, prices.cluster(), wide, prices.CostsFor(microbatches, repeated));
  StageCosts alone(model, prices.cluster(), mesh,
                   prices.CostsFor(microbatches * data_ranks, repeated));
  std::vector<double> latencies;
  for (const StatisticsNode& at : nodes) {
    Strategy split(wide.axes.size(), kReplicate), whole(mesh.axes.size(), kReplicate);
    split[0] = Split(at.factor);
    ChoiceCost with = shared.OfNode(at.node, split, {}), without = alone.OfNode(at.node, whole, {});
    out.seconds += with.seconds() + with.queued - without.seconds();
    latencies.push_back(LatencyInside(model, shared, wide, at.node, split));
    out.exposed_seconds += latencies.back() + MoreKernels(model, shared, alone, at);
  }
  out.exposed_seconds -= HiddenBehindOthers(model, alone, nodes, latencies);
  out.exposed_seconds = std::max(0.0, out.exposed_seconds);
  out.seconds = std::max(0.0, out.seconds);
  return out;
}

}  // namespace heddle
