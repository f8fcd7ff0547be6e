#include "search/replicas/stage_cut.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "plan/gradient_sync.h"
#include "program/stage_builder.h"

namespace heddle {
namespace {

constexpr double kAlpha = 1e-6;  // seconds

bool IsIn(const std::vector<int>& list, size_t index) {
  return std::find(list.begin(), list.end(), static_cast<int>(index)) != list.end();
}

// A trained parameter and its readers.
struct Trained {
  std::vector<std::pair<NodeId, size_t>> uses;
  AxisMask partial = 0;
  // Gradient factors are possible; not where other stages read the parameter, because they would
  // need them as well.
  bool factors = false;
};

AxisMask WideAxes(const Mesh& mesh) {
  AxisMask wide = 0;
  for (size_t a = 0; a < mesh.axes.size(); ++a) {
    if (mesh.axes[a].size > 1) wide |= AxisSet(a);
  }
  return wide;
}

std::map<ValueId, Trained> FindTrained(const StageCosts& costs, const Plan& plan, size_t index,
                                       const std::vector<NodeId>& nodes) {
  const Model& model = costs.model();
  const Stage& stage = plan.stages[index];
  SyncRules rules(model, plan.stages);
  std::set<NodeId> inside(nodes.begin(), nodes.end());
  std::map<ValueId, Trained> all;
  for (NodeId id : nodes) {
    const Node& node = model.graph.node(id);
    for (size_t o = 0; o < node.operands.size(); ++o) {
      ValueId value = node.operands[o];
      bool parameter = model.graph.value(value).kind == ValueKind::kParameter;
      if (!parameter || !WantsGradient(model, id, o)) continue;
      Trained& at = all[value];
      at.uses.push_back({id, o});
      const std::vector<NodeId>& readers = model.readers[value.index()];
      bool here = std::all_of(readers.begin(), readers.end(),
                              [&](NodeId reader) { return inside.count(reader) != 0; });
      at.factors = here && rules.WhyNot(index, value, GradientSync::kFactors).empty();
      Sharding gradient =
          OperandGradient(stage.mesh, costs.rule(id), stage.strategies[id.index()], o);
      at.partial |= gradient.partial_axes() & WideAxes(stage.mesh);
    }
  }
  return all;
}

class CutMaker {
 public:
  CutMaker(StageCosts& costs, const Plan& plan, size_t stage, const std::vector<NodeId>& nodes,
           const std::map<ValueId, Trained>& trained, AxisMask axes, Whole what)
      : costs_(costs),
        model_(costs.model()),
        plan_(plan),
        stage_(plan.stages[stage]),
        nodes_(nodes),
        trained_(trained),
        what_(what),
        repeats_(static_cast<double>(plan.microbatches)),
        // A whole node would no longer use the statistics of a replica's own samples.
        replicas_(what == Whole::kNodes && HasOnlyReplicas(model_, stage_) &&
                  !plan.local_batch_statistics),
        forward_(model_.graph.nodes.size(), -1),
        backward_(forward_),
        sums_(model_.graph.values.size(), -1) {
    out_.axes = axes;
  }

  StageCut Run() {
    for (NodeId id : nodes_) AddHalves(id);
    for (const auto& [value, at] : trained_) {
      if (at.partial == out_.axes) AddParameter(value, at);
    }
    for (size_t i = 0; i < out_.operations.size(); ++i) AddReads(static_cast<int>(i));
    if (what_ == Whole::kNodes) Bind();
    return std::move(out_);
  }

 private:
  const Mesh& mesh() const { return stage_.mesh; }
  const Strategy& Given(NodeId id) const { return stage_.strategies[id.index()]; }
  Strategy WholeOf(NodeId id) const { return Without(Given(id), out_.axes); }

  int AddOperation(StageOperation operation, double linear, bool forced) {
    out_.operations.push_back(operation);
    out_.problem.operations.push_back({linear, forced});
    return static_cast<int>(out_.operations.size()) - 1;
  }

  // Does the value depend on samples, so that each replica has a part of it?
  bool Carries(ValueId id) const {
    const Value& value = model_.graph.value(id);
    return value.producer.valid() && !model_.once[value.producer.index()];
  }

  bool GivesGradient(NodeId id) const {
    const Node& node = model_.graph.node(id);
    for (size_t o = 0; o < node.operands.size(); ++o) {
      if (WantsGradient(model_, id, o) && Carries(node.operands[o])) return true;
    }
    return false;
  }

  bool MayBeWhole(NodeId id) const {
    if (what_ != Whole::kNodes) return what_ == Whole::kHalves;
    if (!replicas_) return false;
    for (ValueId operand : model_.graph.node(id).operands) {
      auto at = trained_.find(operand);
      if (at != trained_.end() && at->second.partial != out_.axes) return false;
    }
    return true;
  }

  ChoiceCost Cost(NodeId id, const Strategy& strategy) {
    ChoiceCost cost = costs_.OfNode(id, strategy, {});
    cost *= repeats_;
    return cost;
  }

  void AddHalves(NodeId id) {
    if (model_.once[id.index()]) return;
    ChoiceCost part = Cost(id, Given(id)), whole = Cost(id, WholeOf(id));
    bool forced = !MayBeWhole(id);
    double forward = whole.forward + whole.queued - part.forward - part.queued;
    int self = AddOperation({OperationKind::kForward, id}, forward + kAlpha, forced);
    forward_[id.index()] = self;
    bool gives = GivesGradient(id);
    if (gives) {
      backward_[id.index()] = AddOperation({OperationKind::kBackward, id, 0, {}, self},
                                           whole.backward - part.backward + kAlpha, forced);
    }
    const Node& node = model_.graph.node(id);
    for (size_t o = 0; o < node.operands.size(); ++o) {
      auto at = trained_.find(node.operands[o]);
      if (at == trained_.end() || at->second.partial != out_.axes) continue;
      if (!WantsGradient(model_, id, o)) continue;
      // The present cost: a sum beside B is assumed to be free; without B it is the whole half.
      double now = IsProduct(id, o) ? part.weight : gives ? 0 : part.backward;
      double linear = repeats_ * costs_.FactorSeconds(id, WholeOf(id), o) - now;
      int weight = AddOperation({OperationKind::kWeight, id, o, node.operands[o], self},
                                linear + kAlpha, forced && !at->second.factors);
      weights_[node.operands[o]].push_back(weight);
    }
  }

  // Is the gradient of the operand a product with another operand, that is, a kernel of W?
  bool IsProduct(NodeId id, size_t operand) const {
    const Rule& rule = costs_.rule(id);
    bool contraction = std::any_of(rule.work.begin(), rule.work.end(),
                                   [](const WorkTerm& term) { return term.contraction; });
    return contraction && IsIn(rule.keep.crossed, operand);
  }

  // The operands that another operand's gradient is computed from.
  std::vector<size_t> WeightReads(NodeId id, size_t operand) const {
    const Keep& keep = costs_.rule(id).keep;
    std::vector<size_t> reads;
    for (size_t o = 0; o < model_.graph.node(id).operands.size(); ++o) {
      bool crossed = IsIn(keep.crossed, o) && IsIn(keep.crossed, operand);
      if (o != operand && (crossed || IsIn(keep.operands, o))) reads.push_back(o);
    }
    return reads;
  }

  double BytesOf(const Sharding& sharding, ValueId value) const {
    double bytes = static_cast<double>(SizeOf(model_.graph.value(value).type.dtype));
    for (int64_t size : PaddedShape(mesh(), sharding)) bytes *= static_cast<double>(size);
    return bytes;
  }

  // The saved reduction is credited to W, or with several readers to an operation that needs all of
  // them.
  void AddParameter(ValueId value, const Trained& at) {
    double saved = Saved(value, at);
    const std::vector<int>& weights = weights_[value];
    if (weights.size() < at.uses.size()) return;  // others read it once per step
    if (weights.size() == 1) {
      out_.problem.operations[static_cast<size_t>(weights[0])].linear -= saved;
      return;
    }
    int all = AddOperation({OperationKind::kParameter, {}, 0, value}, -saved, false);
    for (int weight : weights) out_.problem.values.push_back({weight, kForbidden, {all}});
  }

  double Saved(ValueId value, const Trained& at) {
    auto [id, o] = at.uses[0];
    ShardingId stored =
        costs_.Complete(costs_.Number(OperandSharding(mesh(), costs_.rule(id), Given(id), o)));
    ChoiceCost cost = costs_.OfParameter(value, stored, out_.axes);
    if (plan_.zero.level == 0) return cost.step_queued;
    // Half of an all-reduce; the other half gathers weights in their own type.
    double gradient = static_cast<double>(SizeOf(plan_.precision.gradients));
    double weight = static_cast<double>(SizeOf(plan_.precision.compute));
    double members = static_cast<double>(GroupSize(mesh(), out_.axes));
    double update =
        costs_.UpdateSeconds(cost.parameters) - costs_.UpdateSeconds(cost.parameters / members);
    return cost.step_queued * (gradient + weight) / (2 * gradient) - update;
  }

  // ---- What operations read.

  void AddReads(int index) {
    StageOperation at = out_.operations[static_cast<size_t>(index)];
    if (at.kind == OperationKind::kSum || at.kind == OperationKind::kParameter) return;
    const Node& node = model_.graph.node(at.node);
    const Keep& keep = costs_.rule(at.node).keep;
    if (at.kind == OperationKind::kForward) {
      for (size_t o = 0; o < node.operands.size(); ++o) ReadOperand(index, at.node, o);
      return;
    }
    if (at.kind == OperationKind::kWeight) {
      for (size_t o : WeightReads(at.node, at.operand)) ReadOperand(index, at.node, o);
    } else {
      for (size_t o = 0; o < node.operands.size(); ++o) {
        if (IsIn(keep.operands, o) || IsCrossed(at.node, o)) ReadOperand(index, at.node, o);
      }
    }
    for (int r : keep.results) ReadResult(index, at.node, static_cast<size_t>(r));
    for (size_t r = 0; r < node.results.size(); ++r) ReadGradient(index, at.node, r);
  }

  // Is the gradient of another operand, not of a weight, computed from this operand?
  bool IsCrossed(NodeId id, size_t operand) const {
    const Node& node = model_.graph.node(id);
    const std::vector<int>& crossed = costs_.rule(id).keep.crossed;
    if (!IsIn(crossed, operand)) return false;
    return std::any_of(crossed.begin(), crossed.end(), [&](int other) {
      size_t o = static_cast<size_t>(other);
      return o != operand && WantsGradient(model_, id, o) && Carries(node.operands[o]);
    });
  }

  void ReadOperand(int reader, NodeId id, size_t o) {
    ValueId value = model_.graph.node(id).operands[o];
    if (!Carries(value)) return;
    const Rule& rule = costs_.rule(id);
    Read(reader, {value, -1}, forward_[model_.graph.value(value).producer.index()],
         OperandSharding(mesh(), rule, Given(id), o),
         OperandSharding(mesh(), rule, WholeOf(id), o));
  }

  void ReadResult(int reader, NodeId id, size_t r) {
    const Rule& rule = costs_.rule(id);
    Read(reader, {model_.graph.node(id).results[r], -1}, forward_[id.index()],
         ResultSharding(mesh(), rule, Given(id), r), ResultSharding(mesh(), rule, WholeOf(id), r));
  }

  void ReadGradient(int reader, NodeId id, size_t r) {
    ValueId value = model_.graph.node(id).results[r];
    std::vector<NodeId> givers;
    for (NodeId node : model_.readers[value.index()]) {
      const std::vector<ValueId>& operands = model_.graph.node(node).operands;
      for (size_t o = 0; o < operands.size(); ++o) {
        if (operands[o] != value || !WantsGradient(model_, node, o)) continue;
        givers.push_back(node);
        break;
      }
    }
    // The gradient of the loss is available, and values without gradient need none.
    if (givers.empty()) return;
    const Rule& rule = costs_.rule(id);
    Sharding part = ResultGradient(mesh(), rule, Given(id), r);
    Sharding whole = ResultGradient(mesh(), rule, WholeOf(id), r);
    int from = backward_[givers[0].index()];
    if (givers.size() > 1) from = SumOf(value, id, givers, part, whole);
    Read(reader, {value, 0}, from, part, whole);
  }

  int SumOf(ValueId value, NodeId id, const std::vector<NodeId>& givers, const Sharding& part,
            const Sharding& whole) {
    int& sum = sums_[value.index()];
    if (sum >= 0) return sum;
    double moved = static_cast<double>(givers.size()) + 1;
    double linear = costs_.MoveSeconds(moved * BytesOf(whole, value)) -
                    costs_.MoveSeconds(moved * BytesOf(part, value));
    sum = AddOperation({OperationKind::kSum, {}, 0, value}, repeats_ * linear, !MayBeWhole(id));
    for (NodeId giver : givers) {
      Read(sum, {value, 1 + static_cast<int>(giver.index())}, backward_[giver.index()], part,
           whole);
    }
    return sum;
  }

  // `what`: a value (-1), its gradient (0), or the part of it that one of its readers returns.
  void Read(int reader, std::pair<ValueId, int> what, int producer, const Sharding& part,
            const Sharding& whole) {
    ShardingId from = costs_.Number(part), to = costs_.Number(whole);
    if (from == to) return;
    auto [at, fresh] =
        gathered_.try_emplace({what.first, what.second, from, to}, out_.problem.values.size());
    if (fresh) {
      int64_t bytes = SizeOf(model_.graph.value(what.first).type.dtype);
      double seconds = costs_.WayBetween(from, to, bytes).seconds();
      out_.problem.values.push_back({producer, repeats_ * seconds, {}});
    }
    std::vector<int>& readers = out_.problem.values[at->second].readers;
    if (std::find(readers.begin(), readers.end(), reader) == readers.end()) {
      readers.push_back(reader);
    }
  }

  // A node has one strategy, so F, B and W are decided together, except for the W of parameters
  // with gradient factors.
  void Bind() {
    auto implies = [&](int one, int other) {
      out_.problem.values.push_back({other, kForbidden, {one}});
    };
    for (size_t i = 0; i < out_.operations.size(); ++i) {
      const StageOperation& at = out_.operations[i];
      int self = static_cast<int>(i);
      if (at.forward < 0) continue;
      implies(at.forward, self);
      bool alone = at.kind == OperationKind::kWeight && trained_.at(at.value).factors;
      if (!alone) implies(self, at.forward);
    }
  }

  StageCosts& costs_;
  const Model& model_;
  const Plan& plan_;
  const Stage& stage_;
  const std::vector<NodeId>& nodes_;
  const std::map<ValueId, Trained>& trained_;
  Whole what_;
  double repeats_;                               // micro-batches
  bool replicas_;                                // nodes may be whole
  std::vector<int> forward_, backward_, sums_;   // operations by node, and by value
  std::map<ValueId, std::vector<int>> weights_;  // W by parameter
  std::map<std::tuple<ValueId, int, ShardingId, ShardingId>, size_t> gathered_;
  StageCut out_;
};

}  // namespace

Strategy Without(Strategy strategy, AxisMask axes) {
  for (size_t a = 0; a < strategy.size(); ++a) {
    if (Contains(axes, a)) strategy[a] = kReplicate;
  }
  return strategy;
}

bool HasOnlyReplicas(const Model& model, const Stage& stage) {
  AxisMask wide = WideAxes(stage.mesh);
  for (NodeId id : NodesAndSideNodesOf(model, stage)) {
    const Node& node = model.graph.node(id);
    const Strategy& strategy = stage.strategies[id.index()];
    for (size_t o = 0; o < node.operands.size(); ++o) {
      if (model.graph.value(node.operands[o]).kind != ValueKind::kParameter) continue;
      Sharding gradient = OperandGradient(stage.mesh, model.rules[id.index()], strategy, o);
      AxisMask partial = gradient.partial_axes() & wide;
      bool all = partial == wide || (partial == 0 && model.once[id.index()]);
      if ((gradient.split_axes() & wide) != 0 || !all) return false;
    }
  }
  return wide != 0;
}

std::vector<StageCut> StageCuts(StageCosts& costs, const Plan& plan, size_t stage, Whole what) {
  std::vector<StageCut> cuts;
  if (plan.zero.level >= 2) return cuts;
  std::vector<NodeId> nodes = NodesAndSideNodesOf(costs.model(), plan.stages[stage]);
  std::map<ValueId, Trained> trained = FindTrained(costs, plan, stage, nodes);
  std::set<AxisMask> sets;
  for (const auto& [value, at] : trained) sets.insert(at.partial);
  sets.erase(0);
  for (AxisMask axes : sets) {
    cuts.push_back(CutMaker(costs, plan, stage, nodes, trained, axes, what).Run());
  }
  return cuts;
}

}  // namespace heddle
