#include "plan/expand.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/error.h"
#include "base/integers.h"
#include "ops/dim_part.h"
#include "ops/op.h"

namespace heddle {
namespace {

// Follows one node's strategy through its expansion: which axes split which dimension of each value.
class Follower {
 public:
  Follower(const Graph& expansion, size_t axes)
      : expansion_(expansion), axes_(axes), marks_(expansion.values.size()) {
    for (size_t v = 0; v < marks_.size(); ++v)
      marks_[v].resize(expansion.values[v].type.shape.size(), 0);
  }

  void MarkOperand(ValueId id, const Dims& dims, const Strategy& strategy) {
    for (size_t d = 0; d < dims.size(); ++d) {
      for (size_t a = 0; a < axes_; ++a) {
        if (strategy[a].is_split() && Has({dims[d]}, strategy[a].factor()))
          marks_[id.index()][d] |= AxisSet(a);
      }
    }
  }

  Strategy Follow(const Node& node, const Rule& rule) {
    Strategy strategy(axes_, kReplicate);
    for (size_t a = 0; a < axes_; ++a) {
      for (size_t o = 0; o < node.operands.size(); ++o) {
        ValueId operand = node.operands[o];
        const Shape& shape = expansion_.value(operand).type.shape;
        int factor = SplitFactor(rule, rule.operands[o], shape, marks_[operand.index()], a);
        if (factor >= 0) strategy[a] = Split(factor);
      }
    }
    for (size_t r = 0; r < node.results.size(); ++r)
      MarkOperand(node.results[r], rule.results[r], strategy);
    for (size_t a = 0; a < axes_; ++a) {
      if (!strategy[a].is_split()) continue;
      FactorKind kind = rule.factors[strategy[a].factor_index()].kind;
      HEDDLE_CHECK(kind != FactorKind::kExpanded && kind != FactorKind::kWhole,
                   "the expansion's {} cannot be split along {}", node.op,
                   rule.factors[strategy[a].factor_index()].name);
    }
    return strategy;
  }

 private:
  // The factor of the operand's dimension that the axis splits, which is one factor as a whole; -1: it splits none.
  static int SplitFactor(const Rule& rule, const Dims& dims, const Shape& shape,
                         const std::vector<AxisMask>& marks, size_t axis) {
    for (size_t d = 0; d < dims.size(); ++d) {
      if (!Contains(marks[d], axis)) continue;
      HEDDLE_CHECK_EQ(dims[d].terms.size(), size_t{1});
      std::optional<FactorPart> found =
          FindInProduct(rule, dims[d].terms[0], {1, shape[d], 1}, PartFit::kWhole);
      HEDDLE_CHECK(found, "dimension {} of an operand is no factor of its own", d);
      return found->factor;
    }
    return -1;
  }

  const Graph& expansion_;
  size_t axes_;
  std::vector<std::vector<AxisMask>> marks_;
};

class Expander {
 public:
  Expander(const Model& model, const Plan& plan)
      : model_(model), plan_(plan), moved_(model.graph.values.size()) {
    for (const Stage& stage : plan.stages) {
      Stage& made = out_.stages.emplace_back();
      made.first_block = stage.first_block;
      made.last_block = stage.last_block;
      made.mesh = stage.mesh;
      made.recompute = stage.recompute;
      made.times = stage.times;
      made.shard_starts = stage.shard_starts;
    }
    out_.model.graph.name = model.graph.name;
  }

  ExpandedPlan Run() {
    Graph& graph = out_.model.graph;
    for (size_t v = 0; v < model_.graph.values.size(); ++v) {
      const Value& value = model_.graph.values[v];
      if (value.producer.valid()) continue;
      moved_[v] = graph.AddValue(value.name, value.type, value.kind, value.data);
      graph.value(moved_[v]).data_hash = value.data_hash;
    }
    for (size_t n = 0; n < model_.graph.nodes.size(); ++n) {
      const Stage* stage = StageThatExpands(n);
      if (stage != nullptr) {
        AddExpansion(n, *stage);
      } else {
        AddPlain(n);
      }
    }
    PlaceStrategies();
    for (ValueId id : model_.graph.outputs) graph.outputs.push_back(moved_[id.index()]);
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      for (auto [id, sync] : plan_.stages[s].sync) out_.stages[s].sync[moved_[id.index()]] = sync;
    }
    Finish();
    return std::move(out_);
  }

 private:
  // A node with an expanded factor is on one stage: only side nodes are on several.
  const Stage* StageThatExpands(size_t n) const {
    const std::vector<Factor>& factors = model_.rules[n].factors;
    bool may = std::any_of(factors.begin(), factors.end(), [](const Factor& factor) {
      return factor.kind == FactorKind::kExpanded;
    });
    if (!may) return nullptr;
    for (const Stage& stage : plan_.stages) {
      if (IsExpanded(model_, NodeId::FromIndex(n), stage.strategies[n],
                     plan_.local_batch_statistics)) {
        return &stage;
      }
    }
    return nullptr;
  }

  // Copies the strategies of the nodes that stay as they are. Most nodes have none on most stages.
  void PlaceStrategies() {
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      std::vector<Strategy>& strategies = out_.stages[s].strategies;
      strategies.resize(out_.origin.size());
      for (size_t n = 0; n < strategies.size(); ++n) {
        const Strategy& from = plan_.stages[s].strategies[out_.origin[n].index()];
        if (!from.empty() && !primitive_[n]) strategies[n] = from;
      }
    }
    for (PlacedPrimitive& at : placed_) {
      out_.stages[at.stage].strategies[at.node.index()] = std::move(at.strategy);
    }
  }

  void AddPlain(size_t n) {
    const Node& node = model_.graph.nodes[n];
    std::vector<ValueId> operands;
    for (ValueId id : node.operands) operands.push_back(moved_[id.index()]);
    NodeId made = out_.model.graph.AddNode(node.op, node.attributes, std::move(operands));
    for (ValueId id : node.results) {
      const Value& value = model_.graph.value(id);
      moved_[id.index()] = out_.model.graph.AddResult(made, value.name, value.type);
    }
    Record(n, model_.rules.shared(n), false);
  }

  void AddExpansion(size_t n, const Stage& stage) {
    const Node& node = model_.graph.nodes[n];
    std::vector<TensorType> types;
    for (ValueId id : node.operands) types.push_back(model_.graph.value(id).type);
    Graph expansion = FindOp(node.op)->expansion(OpContext{node.attributes, types});
    const std::string& name = model_.graph.value(node.results[0]).name;
    std::vector<ValueId> inner(expansion.values.size());
    Follower follower(expansion, stage.mesh.axes.size());
    std::vector<ValueId> inputs = expansion.ValuesOf(ValueKind::kInput);
    for (size_t o = 0; o < inputs.size(); ++o) {
      inner[inputs[o].index()] = moved_[node.operands[o].index()];
      follower.MarkOperand(inputs[o], model_.rules[n].operands[o], stage.strategies[n]);
    }
    for (ValueId id : expansion.ValuesOf(ValueKind::kConstant)) {
      const Value& value = expansion.value(id);
      inner[id.index()] = out_.model.graph.AddValue(fmt::format("{}.{}", name, value.name),
                                                    value.type, ValueKind::kConstant, value.data);
    }
    for (const Node& primitive : expansion.nodes)
      AddPrimitive(n, stage, expansion, primitive, name, inner, follower);
    for (size_t r = 0; r < node.results.size(); ++r) {
      moved_[node.results[r].index()] = inner[expansion.outputs[r].index()];
    }
  }

  void AddPrimitive(size_t n, const Stage& stage, const Graph& expansion, const Node& primitive,
                    const std::string& name, std::vector<ValueId>& inner, Follower& follower) {
    std::vector<ValueId> operands;
    for (ValueId id : primitive.operands) operands.push_back(inner[id.index()]);
    NodeId made = out_.model.graph.AddNode(primitive.op, primitive.attributes, std::move(operands));
    for (ValueId id : primitive.results) {
      const Value& value = expansion.value(id);
      inner[id.index()] =
          out_.model.graph.AddResult(made, fmt::format("{}.{}", name, value.name), value.type);
    }
    auto rule = std::make_shared<const Rule>(MakeRule(expansion, primitive));
    Strategy strategy = follower.Follow(primitive, *rule);
    Record(n, std::move(rule), true);
    placed_.push_back({ToSize(&stage - plan_.stages.data()), made, std::move(strategy)});
  }

  void Record(size_t n, SharedRule rule, bool primitive) {
    primitive_.push_back(primitive);
    out_.model.rules.push_back(std::move(rule));
    out_.model.block_of.push_back(model_.block_of[n]);
    out_.model.once.push_back(model_.once[n]);
    out_.origin.push_back(NodeId::FromIndex(n));
  }

  void Finish() {
    Model& model = out_.model;
    model.flow = FindGradients(model.graph, model.rules);
    model.readers = Readers(model.graph);
    if (model_.batch) model.batch = FindBatch(model.graph, model.rules);
    model.no_batch = model_.no_batch;
    for (const ModelBlock& block : model_.blocks)
      model.blocks.push_back({{}, block.chain, block.copy});
    for (size_t n = 0; n < model.graph.nodes.size(); ++n) {
      int block = model.block_of[n];
      if (block >= 0) model.blocks[ToSize(block)].nodes.push_back(NodeId::FromIndex(n));
    }
  }

  const Model& model_;
  const Plan& plan_;
  std::vector<ValueId> moved_;
  std::vector<bool> primitive_;  // per node of the result: does it come from an expansion?
  struct PlacedPrimitive {
    size_t stage = 0;
    NodeId node;
    Strategy strategy;
  };
  std::vector<PlacedPrimitive> placed_;
  ExpandedPlan out_;
};

}  // namespace

bool IsExpanded(const Model& model, NodeId node, const Strategy& strategy, bool local_statistics) {
  return std::any_of(strategy.begin(), strategy.end(), [&](AxisChoice choice) {
    if (!choice.is_split()) return false;
    size_t factor = choice.factor_index();
    if (model.rules[node.index()].factors[factor].kind != FactorKind::kExpanded) return false;
    bool carries_batch = model.batch && model.batch->factors[node.index()][factor].has_value();
    return !(local_statistics && carries_batch);
  });
}

ExpandedPlan Expand(const Model& model, const Plan& plan) { return Expander(model, plan).Run(); }

}  // namespace heddle
