#include "report/block_groups.h"

#include <fmt/format.h>

#include "plan/strategy_text.h"
#include "report/split_words.h"

namespace heddle {
namespace {

struct PlacedBlock {
  int block = 0, stage = 0;
  int layer = -1;  // counted over all chains
  RecomputePolicy recompute = RecomputePolicy::kNone;
};

class Grouper {
 public:
  Grouper(const Model& model, const Plan& plan, const std::vector<NodeCost>& costs)
      : model_(model), plan_(plan), costs_(costs), words_(model) {}

  std::vector<BlockGroup> Run() {
    std::vector<BlockGroup> groups;
    std::vector<PlacedBlock> run;
    for (const PlacedBlock& at : Placed()) {
      if (!run.empty() && !Continues(run.back(), at)) {
        groups.push_back(GroupOf(run));
        run.clear();
      }
      run.push_back(at);
    }
    if (!run.empty()) groups.push_back(GroupOf(run));
    AddSideNodes(groups);
    return groups;
  }

 private:
  const ModelBlock& block(const PlacedBlock& at) const {
    return model_.blocks[static_cast<size_t>(at.block)];
  }
  const Stage& stage(const PlacedBlock& at) const {
    return plan_.stages[static_cast<size_t>(at.stage)];
  }

  std::vector<PlacedBlock> Placed() const {
    std::vector<PlacedBlock> all;
    int layers = 0;
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      const Stage& stage = plan_.stages[s];
      for (int b = stage.first_block; b < stage.last_block; ++b) {
        bool layer = model_.blocks[static_cast<size_t>(b)].chain >= 0;
        all.push_back({b, static_cast<int>(s), layer ? layers++ : -1,
                       stage.recompute[static_cast<size_t>(b - stage.first_block)]});
      }
    }
    return all;
  }

  bool Continues(const PlacedBlock& a, const PlacedBlock& b) const {
    if (block(a).chain != block(b).chain || stage(a).mesh.axes != stage(b).mesh.axes) return false;
    if (a.layer < 0) return a.stage == b.stage;
    if (a.recompute != b.recompute) return false;
    for (size_t n = 0; n < block(a).nodes.size(); ++n) {
      if (stage(a).strategies[block(a).nodes[n].index()] !=
          stage(b).strategies[block(b).nodes[n].index()]) {
        return false;
      }
    }
    return true;
  }

  // A group of layers has a row per node of one block; a group of single-node blocks has a row per block.
  BlockGroup GroupOf(const std::vector<PlacedBlock>& run) const {
    const PlacedBlock& first = run.front();
    BlockGroup group;
    group.first_block = first.block;
    group.last_block = run.back().block + 1;
    group.first_layer = first.layer;
    group.first_stage = first.stage;
    group.last_stage = run.back().stage;
    group.mesh = stage(first).mesh;
    group.recompute = first.recompute;
    std::vector<std::pair<NodeId, NodeCost>> nodes;
    if (first.layer < 0) {
      for (const PlacedBlock& at : run) {
        for (NodeId id : block(at).nodes) nodes.push_back({id, costs_[id.index()]});
      }
    } else {
      nodes = MeanOf(run);
    }
    AddNodes(stage(first), nodes, group);
    return group;
  }

  std::vector<std::pair<NodeId, NodeCost>> MeanOf(const std::vector<PlacedBlock>& run) const {
    std::vector<std::pair<NodeId, NodeCost>> nodes;
    for (size_t n = 0; n < block(run.front()).nodes.size(); ++n) {
      NodeCost mean;
      for (const PlacedBlock& at : run) mean += costs_[block(at).nodes[n].index()];
      mean *= 1 / static_cast<double>(run.size());
      nodes.push_back({block(run.front()).nodes[n], std::move(mean)});
    }
    return nodes;
  }

  // Several stages may compute the same side node; it is shown as in the first of them.
  void AddSideNodes(std::vector<BlockGroup>& groups) const {
    BlockGroup group;
    std::vector<std::pair<NodeId, NodeCost>> nodes;
    const Stage* holder = nullptr;
    for (size_t s = 0; s < plan_.stages.size() && holder == nullptr; ++s) {
      const Stage& stage = plan_.stages[s];
      for (NodeId id : SideNodesOf(model_, NodesOf(model_, stage))) {
        nodes.push_back({id, costs_[id.index()]});
      }
      if (nodes.empty()) continue;
      holder = &stage;
      group.first_stage = group.last_stage = static_cast<int>(s);
    }
    if (holder == nullptr) return;
    group.mesh = holder->mesh;
    AddNodes(*holder, nodes, group);
    if (!group.rows.empty()) groups.push_back(std::move(group));
  }

  void AddNodes(const Stage& stage, const std::vector<std::pair<NodeId, NodeCost>>& nodes,
                BlockGroup& group) const {
    constexpr double kShare =
        0.05;  // a node with more of the computation than this has its own row
    double all = 0;
    for (const auto& [id, cost] : nodes) all += cost.compute();
    for (const auto& [id, cost] : nodes) {
      bool shown = Matters(model_, id) || !cost.traffic.empty() || cost.compute() > kShare * all;
      if (shown) {
        AddRow(stage, id, cost, group);
      } else {
        group.rest += cost;
        ++group.others;
      }
    }
  }

  void AddRow(const Stage& stage, NodeId id, const NodeCost& cost, BlockGroup& group) const {
    const Node& node = model_.graph.node(id);
    const Strategy& strategy = stage.strategies[id.index()];
    NodeRow row;
    row.node = id;
    row.op = node.op;
    row.name = model_.graph.value(node.results[0]).name;
    for (AxisChoice choice : strategy) row.splits.push_back(words_.Of(id, choice));
    row.strategy = ToText(stage.mesh, model_.rules[id.index()], strategy);
    row.cost = cost;
    group.rows.push_back(std::move(row));
  }

  const Model& model_;
  const Plan& plan_;
  const std::vector<NodeCost>& costs_;
  SplitWords words_;
};

}  // namespace

NodeCost BlockGroup::total() const {
  NodeCost sum = rest;
  for (const NodeRow& row : rows) sum += row.cost;
  return sum;
}

std::string BlockGroup::label() const {
  if (blocks() == 0) return "side nodes";
  bool layers = first_layer >= 0;
  int first = layers ? first_layer : first_block;
  std::string_view what = layers ? "layer" : "block";
  if (blocks() == 1) return fmt::format("{} {}", what, first);
  return fmt::format("{}s {}..{}", what, first, first + blocks() - 1);
}

std::vector<BlockGroup> GroupBlocks(const Model& model, const Plan& plan,
                                    const std::vector<NodeCost>& costs) {
  return Grouper(model, plan, costs).Run();
}

}  // namespace heddle
