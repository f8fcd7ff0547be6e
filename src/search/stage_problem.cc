#include "search/stage_problem.h"

#include <algorithm>
#include <map>

#include "base/check.h"
#include "plan/plan.h"
#include "program/stage_builder.h"
#include "search/node_choices.h"
#include "search/value_states.h"

namespace heddle {
namespace {

// A value as its readers find it: which variable decides its sharding, and how.
struct Supply {
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
  Maker(StageCosts& costs, int first_block, int last_block)
      : costs_(costs),
        model_(costs.model()),
        choices_(costs),
        uses_(model_.graph.values.size()),
        supplies_(model_.graph.values.size()),
        sole_(model_.graph.nodes.size()),
        kept_(model_.graph.nodes.size()),
        made_by_(model_.graph.nodes.size()) {
    Stage stage;
    stage.first_block = first_block;
    stage.last_block = last_block;
    nodes_ = NodesOf(model_, stage);
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
    AddUnary();
    FindChains();
    return std::move(out_);
  }

 private:
  const Node& node(NodeId id) const { return model_.graph.node(id); }
  const Value& value(ValueId id) const { return model_.graph.value(id); }
  bool IsHere(NodeId id) const { return std::binary_search(nodes_.begin(), nodes_.end(), id); }
  int64_t ElementBytes(ValueId id) const { return SizeOf(value(id).type.dtype); }
  double Repeats(ValueId id) const {
    if (value(id).kind == ValueKind::kParameter) return 1;
    NodeId producer = value(id).producer;
    return producer.valid() ? costs_.Repeats(producer) : 1;
  }

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

  // Whoever keeps a value first is charged for it, as it sees it.
  void FindKeepers() {
    std::vector<ValueId> storages = Storages(model_.graph, model_.rules);
    std::vector<bool> charged(model_.graph.values.size(), false);
    for (NodeId id : nodes_) {
      const Node& at = node(id);
      for (ValueId kept : KeptBy(at, model_.rules[id.index()], model_.flow).values) {
        ValueId storage = storages[kept.index()];
        if (value(storage).kind != ValueKind::kActivation || charged[storage.index()]) continue;
        charged[storage.index()] = true;
        auto operand = std::find(at.operands.begin(), at.operands.end(), kept);
        auto result = std::find(at.results.begin(), at.results.end(), kept);
        if (operand != at.operands.end()) {
          kept_[id.index()].operands.push_back(static_cast<size_t>(operand - at.operands.begin()));
        } else {
          kept_[id.index()].results.push_back(static_cast<size_t>(result - at.results.begin()));
        }
      }
    }
  }

  std::shared_ptr<const NodeChoices> Choices(NodeId id) {
    return choices_.Of(id, sole_[id.index()], kept_[id.index()]);
  }

  int AddVariable(UnaryRef unary, NodeId maker) {
    int variable = static_cast<int>(out_.problem.unary.size());
    out_.problem.unary.push_back(std::move(unary));
    made_by_[maker.index()].push_back(variable);
    return variable;
  }

  void AddNode(NodeId id) {
    const Node& at = node(id);
    NodeVariable& entry = out_.nodes[id.index()];
    entry.choices = Choices(id);
    for (ValueId operand : at.operands) Provide(operand, id);
    if (!Follow(id, entry)) {
      entry.variable = AddVariable(entry.choices->unary, id);
      for (size_t o = 0; o < at.operands.size(); ++o) Connect(id, o);
    }
    for (size_t r = 0; r < at.results.size(); ++r) {
      Supply& supply = supplies_[at.results[r].index()];
      supply.variable = entry.variable;
      supply.given = entry.choices->results[r];
      if (entry.follows.empty()) continue;
      supply.given.clear();
      for (int x : entry.follows) {
        supply.given.push_back(entry.choices->results[r][static_cast<size_t>(x)]);
      }
    }
    for (ValueId result : at.results) {
      if (uses_[result.index()].size() > 1) AddCopy(result, id);
    }
  }

  // A relabeling whose operand it can take in every sharding that it may come in.
  bool Follow(NodeId id, NodeVariable& entry) {
    if (!costs_.rule(id).view) return false;
    const Supply& supply = supplies_[node(id).operands[0].index()];
    if (supply.variable < 0 || supply.given.empty()) return false;
    if (value(node(id).operands[0]).kind != ValueKind::kActivation) return false;
    for (size_t o = 1; o < node(id).operands.size(); ++o) {
      if (value(node(id).operands[o]).kind != ValueKind::kConstant) return false;
    }
    const NodeChoices& own = *entry.choices;
    std::vector<int> follows;
    for (ShardingId given : supply.given) {
      size_t x = 0;
      for (; x < own.strategies.size(); ++x) {
        ShardingId back = own.gradients[0][x];
        if (own.operands[0][x] == given && (back < 0 || back == costs_.Complete(given))) break;
      }
      if (x == own.strategies.size()) return false;
      follows.push_back(static_cast<int>(x));
    }
    // What it keeps is charged to what it follows.
    entry.variable = supply.variable;
    entry.follows = std::move(follows);
    Unary& extra = extra_[entry.variable];
    for (size_t i = 0; i < entry.follows.size(); ++i) {
      size_t x = static_cast<size_t>(entry.follows[i]);
      extra.Resize(entry.follows.size());
      extra.Add(i, own.unary->At(x));
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
    Supply& supply = supplies_[id.index()];
    if (supply.variable >= 0 || uses_[id.index()].size() < 2) return;
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
      Unary unary;
      for (size_t x = 0; x < states.given.size(); ++x) {
        unary.Push(costs_.OfParameter(id, states.given[x], states.sums[x]));
      }
      SetStates(supply, states, AddVariable(std::make_shared<Unary>(unary), KeeperOf(id, reader)));
    } else if (kind == ValueKind::kActivation && !IsHere(value(id).producer)) {
      ValueStates states = CopyStates(costs_, {}, ReadersOf(id));
      Unary unary;
      for (size_t x = 0; x < states.given.size(); ++x) {
        ShardingId back = costs_.Partial(states.given[x], states.sums[x]);
        unary.Push({Repeats(id) *
                    costs_.WayBetween(back, costs_.Complete(back), ElementBytes(id)).seconds});
      }
      SetStates(supply, states, AddVariable(std::make_shared<Unary>(unary), KeeperOf(id, reader)));
    }
  }

  // A variable that one block alone reads is that block's; one of several is nobody's: a side node stands for that.
  NodeId KeeperOf(ValueId id, NodeId reader) {
    int block = model_.block_of[reader.index()];
    for (const UseAt& use : uses_[id.index()]) {
      if (model_.block_of[use.node.index()] != block) {
        loose_.push_back(static_cast<int>(out_.problem.unary.size()));
        break;
      }
    }
    return reader;
  }

  static void SetStates(Supply& supply, ValueStates& states, int variable) {
    supply.variable = variable;
    supply.given = std::move(states.given);
    supply.sums = std::move(states.sums);
    supply.shared = true;
  }

  void AddCopy(ValueId id, NodeId maker) {
    Supply& supply = supplies_[id.index()];
    int producer = supply.variable;
    std::vector<ShardingId> given = supply.given;
    ValueStates states = CopyStates(costs_, given, ReadersOf(id));
    auto unary = std::make_shared<Unary>();
    unary->Resize(states.given.size());
    TableRef table = tables_.ToCopy(costs_, given, states, {ElementBytes(id), Repeats(id)},
                                    model_.flow.needed[id.index()]);
    SetStates(supply, states, AddVariable(std::move(unary), maker));
    out_.problem.pairs.push_back({producer, supply.variable, std::move(table), {}});
  }

  void Connect(NodeId id, size_t o) {
    ValueId operand = node(id).operands[o];
    const Supply& supply = supplies_[operand.index()];
    const NodeVariable& entry = out_.nodes[id.index()];
    ReaderStates reader{entry.choices->operands[o], entry.choices->gradients[o]};
    Scale scale{ElementBytes(operand), Repeats(operand)};
    if (supply.variable < 0) {
      bool received = value(operand).kind == ValueKind::kActivation;
      if (received) ReturnGradient(entry.variable, reader, scale);
      return;
    }
    TableRef table;
    if (supply.shared) {
      auto stored = stored_for_.find(operand);
      bool first =
          stored != stored_for_.end() && stored->second.node == id && stored->second.operand == o;
      table = tables_.FromCopy(costs_, {supply.given, supply.sums}, reader, scale, first);
    } else {
      table = tables_.Direct(costs_, supply.given, reader, scale);
    }
    out_.problem.pairs.push_back({supply.variable, entry.variable, std::move(table), {}});
  }

  // Of a value of another stage that is read once: complete, in the sharding it came in.
  void ReturnGradient(int variable, const ReaderStates& reader, Scale scale) {
    Unary& extra = extra_[variable];
    extra.Resize(reader.wanted.size());
    for (size_t x = 0; x < reader.wanted.size(); ++x) {
      if (reader.gradients[x] < 0) continue;
      ShardingId to = costs_.Complete(reader.wanted[x]);
      extra.seconds[x] +=
          scale.repeats * costs_.WayBetween(reader.gradients[x], to, scale.element_bytes).seconds;
    }
  }

  // Nothing crosses stages partial.
  void CompleteForOthers(ValueId id) {
    NodeId producer = value(id).producer;
    if (!producer.valid() || !IsHere(producer) || model_.block_of[producer.index()] < 0) return;
    const std::vector<NodeId>& readers = model_.readers[id.index()];
    if (std::all_of(readers.begin(), readers.end(), [&](NodeId at) { return IsHere(at); })) return;
    const Supply& supply = supplies_[id.index()];
    Unary& extra = extra_[supply.variable];
    extra.Resize(supply.given.size());
    for (size_t x = 0; x < supply.given.size(); ++x) {
      extra.seconds[x] +=
          Repeats(id) *
          costs_.WayBetween(supply.given[x], costs_.Complete(supply.given[x]), ElementBytes(id))
              .seconds;
    }
  }

  void AddUnary() {
    for (const auto& [variable, extra] : extra_) {
      Unary sum = *out_.problem.unary[static_cast<size_t>(variable)];
      bool any = false;
      for (size_t x = 0; x < sum.size(); ++x) {
        any = any || extra.At(x) != Cost{};
        sum.Add(x, extra.At(x));
      }
      if (any) {
        out_.problem.unary[static_cast<size_t>(variable)] = std::make_shared<Unary>(std::move(sum));
      }
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
  ChoiceMaker choices_;
  TableMaker tables_;
  std::vector<NodeId> nodes_;  // ascending
  std::vector<std::vector<UseAt>> uses_;
  std::vector<Supply> supplies_;         // per value
  std::vector<std::vector<bool>> sole_;  // per node and operand
  std::vector<KeptParts> kept_;          // per node
  std::vector<std::vector<int>> made_by_;
  std::map<ValueId, UseAt> stored_for_;
  std::map<int, Unary> extra_;  // by variable
  std::vector<int> loose_;      // variables of no block
  StageProblem out_;
};

}  // namespace

StageProblem MakeStageProblem(StageCosts& costs, int first_block, int last_block) {
  return Maker(costs, first_block, last_block).Run();
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
  std::vector<int> fixed(stage.problem.unary.size(), -1);
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
