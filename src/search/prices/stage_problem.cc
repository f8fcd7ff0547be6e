#include "search/prices/stage_problem.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/check.h"
#include "plan/plan.h"
#include "search/prices/node_choices.h"
#include "search/prices/stage_values.h"
#include "search/prices/value_states.h"

namespace heddle {
namespace {

// A value as its readers find it: the variable that determines its sharding, and how.
struct ValueVariables {
  int variable = -1;  // -1: it comes from another stage, or is available in any sharding
  std::vector<ShardingId> given;
  // For a copy or storage: per choice, the axes along which gradients may be partial sums there.
  std::vector<AxisMask> sums;
  bool shared = false;  // a copy or storage
};

class Maker {
 public:
  Maker(StageCosts& costs, ChoiceMaker& choices, TableMaker& tables, int first_block,
        int last_block, RecomputePolicy recompute)
      : costs_(costs),
        model_(costs.model()),
        choices_(choices),
        tables_(tables),
        stage_(costs, first_block, last_block, recompute),
        of_value_(model_.graph.values.size()),
        choices_of_(model_.graph.nodes.size()),
        made_by_(model_.graph.nodes.size()) {
    out_.nodes.resize(model_.graph.nodes.size());
  }

  StageProblem Run() {
    for (NodeId id : stage_.nodes()) AddNode(id);
    for (size_t v = 0; v < model_.graph.values.size(); ++v)
      CompleteForOthers(ValueId::FromIndex(v));
    AddExtra();
    FindChains();
    out_.problem = Weighed(out_, {});
    return std::move(out_);
  }

 private:
  const Node& node(NodeId id) const { return model_.graph.node(id); }
  const Value& value(ValueId id) const { return model_.graph.value(id); }
  std::shared_ptr<const NodeChoices> Choices(NodeId id) {
    std::shared_ptr<const NodeChoices>& known = choices_of_[id.index()];
    if (!known) known = choices_.Of(id, stage_.sole(id), stage_.kept(id));
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
      if (stage_.uses(result).size() > 1) AddCopy(result, id);
    }
  }

  // A relabeling follows its operand if it accepts every sharding that the operand may have.
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
    // What the relabeling keeps is charged to the variable that it follows.
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
    for (const UseAt& use : stage_.uses(id)) {
      std::shared_ptr<const NodeChoices> choices = Choices(use.node);
      readers.push_back({choices->operands[use.operand], choices->gradients[use.operand]});
    }
    return readers;
  }

  // Parameters that are read more than once, and values from other stages, get their variable at
  // their first reader.
  void Provide(ValueId id, NodeId reader) {
    ValueVariables& variables = of_value_[id.index()];
    if (variables.variable >= 0 || stage_.uses(id).size() < 2) return;
    ValueKind kind = value(id).kind;
    if (kind == ValueKind::kParameter) {
      const std::vector<UseAt>& uses = stage_.uses(id);
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
    } else if (kind == ValueKind::kActivation && !stage_.IsHere(value(id).producer)) {
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

  // A variable that only one block reads belongs to that block. One that several blocks read
  // belongs to none.
  NodeId KeeperOf(ValueId id, NodeId reader) {
    int block = model_.block_of[reader.index()];
    for (const UseAt& use : stage_.uses(id)) {
      if (model_.block_of[use.node.index()] != block) {
        unassigned_.push_back(static_cast<int>(out_.costs.size()));
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
    Tables tables =
        tables_.ToCopy(costs_, given, states, stage_.ScaleOf(id, stage_.uses(id)[0].node),
                       model_.flow.needed[id.index()]);
    SetStates(variables, states, AddVariable(std::move(costs), maker));
    out_.problem.pairs.push_back({producer, variables.variable, tables.seconds, tables.queued});
  }

  void Connect(NodeId id, size_t o) {
    ValueId operand = node(id).operands[o];
    const ValueVariables& variables = of_value_[operand.index()];
    const NodeVariable& entry = out_.nodes[id.index()];
    ReaderStates reader{entry.choices->operands[o], entry.choices->gradients[o]};
    Scale scale = stage_.ScaleOf(operand, id);
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

  // The gradient of a value from another stage that is read once returns complete, in the sharding
  // in which the value came.
  void ReturnGradient(int variable, const ReaderStates& reader, ValueId id) {
    ChoiceCosts& extra = extra_[variable];
    extra.resize(reader.wanted.size());
    for (size_t x = 0; x < reader.wanted.size(); ++x) {
      if (reader.gradients[x] >= 0) extra[x] += Completed(reader.gradients[x], id);
    }
  }

  // The cost of completing a value or gradient beside computation.
  ChoiceCost Completed(ShardingId from, ValueId id) {
    ChoiceCost cost;
    cost.queued = stage_.Repeats(id) *
                  costs_.WayBetween(from, costs_.Complete(from), stage_.ElementBytes(id)).seconds();
    return cost;
  }

  // Nothing crosses stages as a partial sum.
  void CompleteForOthers(ValueId id) {
    NodeId producer = value(id).producer;
    if (!producer.valid() || !stage_.IsHere(producer) || model_.block_of[producer.index()] < 0)
      return;
    const std::vector<NodeId>& readers = model_.readers[id.index()];
    if (std::all_of(readers.begin(), readers.end(), [&](NodeId at) { return stage_.IsHere(at); }))
      return;
    const ValueVariables& variables = of_value_[id.index()];
    ChoiceCosts& extra = extra_[variables.variable];
    extra.resize(variables.given.size());
    for (size_t x = 0; x < variables.given.size(); ++x)
      extra[x] += Completed(variables.given[x], id);
  }

  // Equal costs stay one shared object.
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
        if (copy.empty() || !stage_.IsHere(copy[0])) continue;
        variables.copies.emplace_back();
        for (NodeId id : copy) {
          for (int variable : made_by_[id.index()]) {
            if (std::find(unassigned_.begin(), unassigned_.end(), variable) == unassigned_.end()) {
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
  StageValues stage_;
  std::vector<ValueVariables> of_value_;                        // per value
  std::vector<std::shared_ptr<const NodeChoices>> choices_of_;  // per node, made on demand
  std::vector<std::vector<int>> made_by_;
  std::map<ValueId, UseAt> stored_for_;
  std::map<int, ChoiceCosts> extra_;  // by variable
  std::vector<int> unassigned_;       // variables that belong to no block
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

}  // namespace heddle
