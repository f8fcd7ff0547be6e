#include "search/prices/stage_problem.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/check.h"
#include "plan/plan.h"
#include "program/stage_builder.h"
#include "search/prices/node_choices.h"
#include "search/prices/value_states.h"

namespace heddle {
namespace {

// A value as its readers find it: which variable decides its sharding, and how.
struct ValueVariables {
  int variable = -1;  // -1: from another stage, or there in any sharding
  std::vector<ShardingId> given;
  // Of a copy or storage: the axes along which gradients may be partial there, by choice.
  std::vector<AxisMask> sums;
  bool shared = false;  // a copy or storage
};

struct UseAt {
  NodeId node;
  size_t operand = 0;
};

class Maker {
 public:
  Maker(StageCosts& costs, ChoiceMaker& choices, TableMaker& tables, int first_block,
        int last_block, RecomputePolicy recompute)
      : costs_(costs),
        model_(costs.model()),
        choices_(choices),
        tables_(tables),
        recompute_(recompute),
        uses_(model_.graph.values.size()),
        of_value_(model_.graph.values.size()),
        sole_(model_.graph.nodes.size()),
        kept_(model_.graph.nodes.size()),
        choices_of_(model_.graph.nodes.size()),
        made_by_(model_.graph.nodes.size()) {
    Stage stage;
    stage.first_block = first_block;
    stage.last_block = last_block;
    nodes_ = NodesOf(model_, stage);
    FindOrder();
    std::vector<NodeId> side = SideNodesOf(model_, nodes_);
    nodes_.insert(nodes_.end(), side.begin(), side.end());
    std::sort(nodes_.begin(), nodes_.end());
    out_.nodes.resize(model_.graph.nodes.size());
  }

  StageProblem Run() {
    FindUses();
    FindKeepers();
    for (NodeId id : nodes_) AddNode(id);
    for (size_t v = 0; v < uses_.size(); ++v) CompleteForOthers(ValueId::FromIndex(v));
    AddExtra();
    FindChains();
    out_.problem = Weighed(out_, {});
    return std::move(out_);
  }

 private:
  const Node& node(NodeId id) const { return model_.graph.node(id); }
  const Value& value(ValueId id) const { return model_.graph.value(id); }
  bool IsHere(NodeId id) const { return std::binary_search(nodes_.begin(), nodes_.end(), id); }
  int64_t ElementBytes(ValueId id) const { return SizeOf(value(id).type.dtype); }
  double Repeats(ValueId id) const {
    NodeId producer = value(id).producer;
    if (producer.valid()) return costs_.Repeats(producer);
    return value(id).kind == ValueKind::kParameter ? 1 / costs_.options().microbatches : 1;
  }

  // Of nodes of blocks: how many kernels' nodes come before them.
  void FindOrder() {
    kernels_before_.assign(model_.graph.nodes.size(), -1);
    int kernels = 0;
    for (NodeId id : nodes_) {
      kernels_before_[id.index()] = kernels;
      if (costs_.HasKernels(id)) ++kernels;
    }
  }

  // Nothing is computed between the two, so what must pass from one to the other can only be waited for: lowering cuts
  // segments in the order of the nodes (program/segments.h).
  bool IsWaited(ValueId id, NodeId reader) const {
    NodeId producer = value(id).producer;
    if (!producer.valid() || !IsHere(producer)) return false;
    int made = kernels_before_[producer.index()], read = kernels_before_[reader.index()];
    if (made < 0 || read < 0) return false;
    return read - made <= (costs_.HasKernels(producer) ? 1 : 0);
  }

  Scale ScaleOf(ValueId id, NodeId reader) const {
    Scale scale{ElementBytes(id), Repeats(id), Repeats(id), IsWaited(id, reader), false, false};
    bool activation = value(id).kind == ValueKind::kActivation && !model_.once[reader.index()];
    if (!activation) return scale;
    scale.recomputed = IsRecomputed(reader);
    scale.regathered = !scale.recomputed && model_.flow.needed[id.index()];
    return scale;
  }

  bool IsInUnit(NodeId id) const {
    return model_.block_of[id.index()] >= 0 && heddle::IsRecomputed(model_, id, recompute_);
  }
  // What gives no gradient may be left out of what runs again; it is not charged for it.
  bool IsRecomputed(NodeId id) const { return IsInUnit(id) && costs_.HasGradient(id); }

  void FindUses() {
    for (NodeId id : nodes_) {
      for (size_t o = 0; o < node(id).operands.size(); ++o) {
        uses_[node(id).operands[o].index()].push_back({id, o});
      }
    }
    for (NodeId id : nodes_) {
      for (ValueId operand : node(id).operands) {
        sole_[id.index()].push_back(value(operand).kind == ValueKind::kParameter &&
                                    uses_[operand.index()].size() == 1);
      }
    }
  }

  // A value that is kept is charged where it is made, or, where it comes from elsewhere, to its first reader.
  void FindKeepers() {
    std::vector<ValueId> storages = Storages(model_.graph, model_.rules);
    std::vector<bool> charged(model_.graph.values.size(), false);
    for (NodeId id : nodes_) {
      const Node& at = node(id);
      kept_[id.index()].recomputed = IsRecomputed(id);
      for (ValueId kept : KeptFor(id)) {
        ValueId storage = storages[kept.index()];
        if (value(storage).kind != ValueKind::kActivation || charged[storage.index()]) continue;
        charged[storage.index()] = true;
        NodeId producer = value(storage).producer;
        if (IsHere(producer)) {
          const std::vector<ValueId>& results = node(producer).results;
          auto result = std::find(results.begin(), results.end(), storage);
          kept_[producer.index()].results.push_back(static_cast<size_t>(result - results.begin()));
          continue;
        }
        auto operand = std::find(at.operands.begin(), at.operands.end(), kept);
        if (operand == at.operands.end()) continue;
        kept_[id.index()].operands.push_back(static_cast<size_t>(operand - at.operands.begin()));
      }
    }
  }

  // What backward of a node needs; of one that is recomputed, what that reads from outside.
  std::vector<ValueId> KeptFor(NodeId id) const {
    const Node& at = node(id);
    if (!IsRecomputed(id)) return KeptBy(at, model_.rules[id.index()], model_.flow).values;
    std::vector<ValueId> kept;
    for (ValueId operand : at.operands) {
      NodeId producer = value(operand).producer;
      if (!producer.valid() || model_.once[producer.index()]) continue;
      bool together =
          model_.block_of[producer.index()] == model_.block_of[id.index()] && IsInUnit(producer);
      if (!together) kept.push_back(operand);
    }
    return kept;
  }

  std::shared_ptr<const NodeChoices> Choices(NodeId id) {
    std::shared_ptr<const NodeChoices>& known = choices_of_[id.index()];
    if (!known) known = choices_.Of(id, sole_[id.index()], kept_[id.index()]);
    return known;
  }

  int AddVariable(std::shared_ptr<const ChoiceCosts> costs, NodeId maker) {
    int variable = static_cast<int>(out_.costs.size());
    out_.costs.push_back(std::move(costs));
    out_.makers.push_back(maker);
    made_by_[maker.index()].push_back(variable);
    return variable;
  }

  void AddNode(NodeId id) {
    const Node& at = node(id);
    NodeVariable& entry = out_.nodes[id.index()];
    entry.choices = Choices(id);
    for (ValueId operand : at.operands) Provide(operand, id);
    if (!Follow(id, entry)) {
      entry.variable = AddVariable(entry.choices->costs, id);
      for (size_t o = 0; o < at.operands.size(); ++o) Connect(id, o);
    }
    for (size_t r = 0; r < at.results.size(); ++r) {
      ValueVariables& variables = of_value_[at.results[r].index()];
      variables.variable = entry.variable;
      variables.given = entry.choices->results[r];
      if (entry.follows.empty()) continue;
      variables.given.clear();
      for (int x : entry.follows) {
        variables.given.push_back(entry.choices->results[r][static_cast<size_t>(x)]);
      }
    }
    for (ValueId result : at.results) {
      if (uses_[result.index()].size() > 1) AddCopy(result, id);
    }
  }

  // A relabeling whose operand it can take in every sharding that it may come in.
  bool Follow(NodeId id, NodeVariable& entry) {
    if (!costs_.rule(id).view) return false;
    const ValueVariables& variables = of_value_[node(id).operands[0].index()];
    if (variables.variable < 0 || variables.given.empty()) return false;
    if (value(node(id).operands[0]).kind != ValueKind::kActivation) return false;
    for (size_t o = 1; o < node(id).operands.size(); ++o) {
      if (value(node(id).operands[o]).kind != ValueKind::kConstant) return false;
    }
    const NodeChoices& own = *entry.choices;
    std::vector<int> follows;
    for (ShardingId given : variables.given) {
      size_t x = 0;
      for (; x < own.strategies.size(); ++x) {
        ShardingId back = own.gradients[0][x];
        if (own.operands[0][x] == given && (back < 0 || back == costs_.Complete(given))) break;
      }
      if (x == own.strategies.size()) return false;
      follows.push_back(static_cast<int>(x));
    }
    // What it keeps is charged to what it follows.
    entry.variable = variables.variable;
    entry.follows = std::move(follows);
    ChoiceCosts& extra = extra_[entry.variable];
    extra.resize(entry.follows.size());
    for (size_t i = 0; i < entry.follows.size(); ++i) {
      extra[i] += (*own.costs)[static_cast<size_t>(entry.follows[i])];
    }
    return true;
  }

  std::vector<ReaderStates> ReadersOf(ValueId id) {
    std::vector<ReaderStates> readers;
    for (const UseAt& use : uses_[id.index()]) {
      std::shared_ptr<const NodeChoices> choices = Choices(use.node);
      readers.push_back({choices->operands[use.operand], choices->gradients[use.operand]});
    }
    return readers;
  }

  // Parameters read more than once, and values that come from elsewhere, get their variable at their first reader.
  void Provide(ValueId id, NodeId reader) {
    ValueVariables& variables = of_value_[id.index()];
    if (variables.variable >= 0 || uses_[id.index()].size() < 2) return;
    ValueKind kind = value(id).kind;
    if (kind == ValueKind::kParameter) {
      const std::vector<UseAt>& uses = uses_[id.index()];
      auto first = std::find_if(uses.begin(), uses.end(), [&](const UseAt& use) {
        return model_.block_of[use.node.index()] >= 0;
      });
      if (first == uses.end()) first = uses.begin();
      stored_for_[id] = *first;
      ReaderStates as_first = ReadersOf(id)[static_cast<size_t>(first - uses.begin())];
      ValueStates states = StorageStates(costs_, as_first, ReadersOf(id));
      ChoiceCosts costs;
      for (size_t x = 0; x < states.given.size(); ++x) {
        costs.push_back(costs_.OfParameter(id, states.given[x], states.sums[x]));
      }
      SetStates(variables, states,
                AddVariable(std::make_shared<ChoiceCosts>(costs), KeeperOf(id, reader)));
    } else if (kind == ValueKind::kActivation && !IsHere(value(id).producer)) {
      ValueStates states = CopyStates(costs_, {}, ReadersOf(id));
      ChoiceCosts costs;
      for (size_t x = 0; x < states.given.size(); ++x) {
        ShardingId back = costs_.Partial(states.given[x], states.sums[x]);
        costs.push_back(Completed(back, id));
      }
      SetStates(variables, states,
                AddVariable(std::make_shared<ChoiceCosts>(costs), KeeperOf(id, reader)));
    }
  }

  // A variable that one block alone reads is that block's; one of several is nobody's: a side node stands for that.
  NodeId KeeperOf(ValueId id, NodeId reader) {
    int block = model_.block_of[reader.index()];
    for (const UseAt& use : uses_[id.index()]) {
      if (model_.block_of[use.node.index()] != block) {
        loose_.push_back(static_cast<int>(out_.costs.size()));
        break;
      }
    }
    return reader;
  }

  static void SetStates(ValueVariables& variables, ValueStates& states, int variable) {
    variables.variable = variable;
    variables.given = std::move(states.given);
    variables.sums = std::move(states.sums);
    variables.shared = true;
  }

  void AddCopy(ValueId id, NodeId maker) {
    ValueVariables& variables = of_value_[id.index()];
    int producer = variables.variable;
    std::vector<ShardingId> given = variables.given;
    ValueStates states = CopyStates(costs_, given, ReadersOf(id));
    auto costs = std::make_shared<ChoiceCosts>(states.given.size());
    Tables tables = tables_.ToCopy(costs_, given, states, ScaleOf(id, uses_[id.index()][0].node),
                                   model_.flow.needed[id.index()]);
    SetStates(variables, states, AddVariable(std::move(costs), maker));
    out_.problem.pairs.push_back({producer, variables.variable, tables.seconds, tables.queued});
  }

  void Connect(NodeId id, size_t o) {
    ValueId operand = node(id).operands[o];
    const ValueVariables& variables = of_value_[operand.index()];
    const NodeVariable& entry = out_.nodes[id.index()];
    ReaderStates reader{entry.choices->operands[o], entry.choices->gradients[o]};
    Scale scale = ScaleOf(operand, id);
    if (variables.variable < 0) {
      bool received = value(operand).kind == ValueKind::kActivation;
      if (received) ReturnGradient(entry.variable, reader, operand);
      return;
    }
    Tables tables;
    if (variables.shared) {
      auto stored = stored_for_.find(operand);
      bool first = stored != stored_for_.end() &&
                   (costs_.options().tied_alike ||
                    (stored->second.node == id && stored->second.operand == o));
      tables = tables_.FromCopy(costs_, {variables.given, variables.sums}, reader, scale, first);
    } else {
      tables = tables_.Direct(costs_, variables.given, reader, scale);
    }
    out_.problem.pairs.push_back(
        {variables.variable, entry.variable, tables.seconds, tables.queued});
  }

  // Of a value of another stage that is read once: complete, in the sharding it came in.
  void ReturnGradient(int variable, const ReaderStates& reader, ValueId id) {
    ChoiceCosts& extra = extra_[variable];
    extra.resize(reader.wanted.size());
    for (size_t x = 0; x < reader.wanted.size(); ++x) {
      if (reader.gradients[x] >= 0) extra[x] += Completed(reader.gradients[x], id);
    }
  }

  // What it takes to make a value, or a gradient, complete, beside computation.
  ChoiceCost Completed(ShardingId from, ValueId id) {
    ChoiceCost cost;
    cost.queued =
        Repeats(id) * costs_.WayBetween(from, costs_.Complete(from), ElementBytes(id)).seconds();
    return cost;
  }

  // Nothing crosses stages partial.
  void CompleteForOthers(ValueId id) {
    NodeId producer = value(id).producer;
    if (!producer.valid() || !IsHere(producer) || model_.block_of[producer.index()] < 0) return;
    const std::vector<NodeId>& readers = model_.readers[id.index()];
    if (std::all_of(readers.begin(), readers.end(), [&](NodeId at) { return IsHere(at); })) return;
    const ValueVariables& variables = of_value_[id.index()];
    ChoiceCosts& extra = extra_[variables.variable];
    extra.resize(variables.given.size());
    for (size_t x = 0; x < variables.given.size(); ++x)
      extra[x] += Completed(variables.given[x], id);
  }

  // What was alike stays one object.
  void AddExtra() {
    std::map<std::pair<const ChoiceCosts*, std::vector<double>>, std::shared_ptr<const ChoiceCosts>>
        made;
    for (const auto& [variable, extra] : extra_) {
      std::shared_ptr<const ChoiceCosts>& costs = out_.costs[static_cast<size_t>(variable)];
      std::vector<double> key;
      for (const ChoiceCost& c : extra) {
        key.insert(key.end(), {c.forward, c.backward, c.weight, c.queued, c.activations, c.held});
      }
      if (std::all_of(key.begin(), key.end(), [](double k) { return k == 0; })) continue;
      std::shared_ptr<const ChoiceCosts>& sum = made[{costs.get(), key}];
      if (!sum) {
        auto added = std::make_shared<ChoiceCosts>(*costs);
        for (size_t x = 0; x < added->size(); ++x) (*added)[x] += extra[x];
        sum = std::move(added);
      }
      costs = sum;
    }
  }

  void FindChains() {
    for (const Chain& chain : model_.folding.chains) {
      VariableChain variables;
      for (const std::vector<NodeId>& copy : chain.copies) {
        if (copy.empty() || !IsHere(copy[0])) continue;
        variables.copies.emplace_back();
        for (NodeId id : copy) {
          for (int variable : made_by_[id.index()]) {
            if (std::find(loose_.begin(), loose_.end(), variable) == loose_.end()) {
              variables.copies.back().push_back(variable);
            }
          }
        }
      }
      if (variables.copies.size() > 2) out_.problem.chains.push_back(std::move(variables));
    }
  }

  StageCosts& costs_;
  const Model& model_;
  ChoiceMaker& choices_;
  TableMaker& tables_;
  RecomputePolicy recompute_;
  std::vector<NodeId> nodes_;        // ascending
  std::vector<int> kernels_before_;  // per node; -1: of no block of the stage
  std::vector<std::vector<UseAt>> uses_;
  std::vector<ValueVariables> of_value_;                        // per value
  std::vector<std::vector<bool>> sole_;                         // per node and operand
  std::vector<KeptParts> kept_;                                 // per node
  std::vector<std::shared_ptr<const NodeChoices>> choices_of_;  // per node, where it was asked for
  std::vector<std::vector<int>> made_by_;
  std::map<ValueId, UseAt> stored_for_;
  std::map<int, ChoiceCosts> extra_;  // by variable
  std::vector<int> loose_;            // variables of no block
  StageProblem out_;
};

}  // namespace

struct ProblemMaker::Parts {
  explicit Parts(StageCosts& of) : costs(of), choices(of) {}
  StageCosts& costs;
  ChoiceMaker choices;
  TableMaker tables;
};

ProblemMaker::ProblemMaker(StageCosts& costs) : parts_(std::make_unique<Parts>(costs)) {}
ProblemMaker::~ProblemMaker() = default;
StageCosts& ProblemMaker::costs() { return parts_->costs; }

StageProblem ProblemMaker::Of(int first_block, int last_block, RecomputePolicy recompute) {
  return Maker(parts_->costs, parts_->choices, parts_->tables, first_block, last_block, recompute)
      .Run();
}

StageProblem MakeStageProblem(StageCosts& costs, int first_block, int last_block,
                              RecomputePolicy recompute) {
  return ProblemMaker(costs).Of(first_block, last_block, recompute);
}

std::vector<Strategy> StrategiesOf(const StageProblem& stage, const std::vector<int>& choice) {
  std::vector<Strategy> strategies;
  for (const NodeVariable& node : stage.nodes) {
    strategies.emplace_back();
    if (node.variable < 0) continue;
    size_t x = static_cast<size_t>(choice[static_cast<size_t>(node.variable)]);
    if (!node.follows.empty()) x = static_cast<size_t>(node.follows[x]);
    strategies.back() = node.choices->strategies[x];
  }
  return strategies;
}

std::optional<std::vector<int>> ChoicesOf(StageCosts& costs, const StageProblem& stage,
                                          const std::vector<Strategy>& strategies) {
  std::vector<int> fixed(stage.costs.size(), -1);
  for (size_t n = 0; n < stage.nodes.size(); ++n) {
    const NodeVariable& node = stage.nodes[n];
    if (node.variable < 0 || !node.follows.empty()) continue;
    const NodeChoices& choices = *node.choices;
    const Rule& rule = costs.rule(NodeId::FromIndex(n));
    auto same = [&](size_t x) {
      for (size_t o = 0; o < rule.operands.size(); ++o) {
        Sharding wanted = OperandSharding(costs.mesh(), rule, strategies[n], o);
        if (costs.Number(wanted) != choices.operands[o][x]) return false;
        Sharding gradient = OperandGradient(costs.mesh(), rule, strategies[n], o);
        bool given = choices.gradients[o][x] >= 0;
        if (given && costs.Number(gradient) != choices.gradients[o][x]) return false;
      }
      for (size_t r = 0; r < rule.results.size(); ++r) {
        Sharding result = ResultSharding(costs.mesh(), rule, strategies[n], r);
        if (costs.Number(result) != choices.results[r][x]) return false;
      }
      return true;
    };
    size_t x = static_cast<size_t>(
        std::find(choices.strategies.begin(), choices.strategies.end(), strategies[n]) -
        choices.strategies.begin());
    if (x == choices.strategies.size()) {
      x = 0;
      while (x < choices.strategies.size() && !same(x)) ++x;
    }
    if (x == choices.strategies.size()) return std::nullopt;
    fixed[static_cast<size_t>(node.variable)] = static_cast<int>(x);
  }
  return fixed;
}

}  // namespace heddle
