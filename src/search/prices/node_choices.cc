#include "search/prices/node_choices.h"

#include <algorithm>

#include "program/stage_builder.h"
#include "search/prices/strategies.h"

namespace heddle {

ChoiceMaker::ChoiceMaker(StageCosts& costs) : costs_(costs) {
  const Model& model = costs.model();
  for (size_t n = 0; n < model.graph.nodes.size(); ++n) alike_.push_back(static_cast<int>(n));
  for (const Chain& chain : model.folding.chains) {
    for (const std::vector<NodeId>& copy : chain.copies) {
      for (size_t i = 0; i < copy.size(); ++i) {
        alike_[copy[i].index()] = chain.copies[0][i].value;
      }
    }
  }
}

std::shared_ptr<const NodeChoices> ChoiceMaker::Of(NodeId id, const std::vector<bool>& sole,
                                                   const KeptParts& kept) {
  const Model& model = costs_.model();
  const Node& node = model.graph.node(id);
  std::vector<int> key = {alike_[id.index()], model.once[id.index()],
                          model.block_of[id.index()] < 0};
  for (size_t o = 0; o < node.operands.size(); ++o) {
    ValueId value = node.operands[o];
    key.push_back(sole[o]);
    key.push_back(MustBeWhole(value));
    key.push_back(model.flow.needed[value.index()]);
    key.push_back(model.flow.weight[value.index()]);
    key.push_back(model.graph.value(value).producer.valid());
  }
  for (ValueId value : node.results) key.push_back(model.flow.needed[value.index()]);
  key.push_back(static_cast<int>(kept.operands.size()));
  key.push_back(kept.recomputed);
  for (size_t o : kept.operands) key.push_back(static_cast<int>(o));
  for (size_t r : kept.results) key.push_back(static_cast<int>(r));
  std::shared_ptr<const NodeChoices>& made = made_[key];
  if (!made) made = Make(id, sole, kept);
  return made;
}

bool ChoiceMaker::MustBeWhole(ValueId id) const {
  const Value& value = costs_.model().graph.value(id);
  const std::vector<std::string>& whole = costs_.options().whole;
  return value.kind == ValueKind::kParameter &&
         std::find(whole.begin(), whole.end(), value.name) != whole.end();
}

std::shared_ptr<const NodeChoices> ChoiceMaker::Make(NodeId id, const std::vector<bool>& sole,
                                                     const KeptParts& kept) {
  const Model& model = costs_.model();
  const Node& node = model.graph.node(id);
  const Rule& rule = costs_.rule(id);
  StrategyScope scope;
  scope.expand = model.block_of[id.index()] >= 0;
  for (ValueId value : node.operands) {
    scope.made_by_nodes.push_back(model.graph.value(value).producer.valid());
  }
  auto choices = std::make_shared<NodeChoices>();
  std::vector<StrategyEffect> effects;  // per strategy
  if (const std::vector<Strategy>* only = costs_.options().only) {
    choices->strategies = {(*only)[id.index()]};
    effects = {EffectOf(costs_.mesh(), rule, (*only)[id.index()])};
  } else {
    choices->strategies = StrategiesOf(costs_.mesh(), node.op, rule, scope, &effects);
  }
  choices->operands.resize(node.operands.size());
  choices->gradients.resize(node.operands.size());
  choices->results.resize(node.results.size());
  auto costs = std::make_shared<ChoiceCosts>();
  for (size_t x = 0; x < effects.size(); ++x) {
    const StrategyEffect& effect = effects[x];
    ChoiceCost cost = costs_.OfNode(id, choices->strategies[x], kept);
    for (size_t o = 0; o < node.operands.size(); ++o) {
      ShardingId wanted = costs_.Number(effect.operands[o]);
      const Sharding& gradient = effect.gradients[o];
      bool given = WantsGradient(model, id, o);
      choices->operands[o].push_back(wanted);
      choices->gradients[o].push_back(given ? costs_.Number(gradient) : -1);
      if (MustBeWhole(node.operands[o]) && costs_.sharding(wanted).split_axes() != 0) {
        cost.waited = kForbidden;
      }
      if (!sole[o]) continue;
      AxisMask reduced = given ? gradient.partial_axes() : 0;
      cost += costs_.OfParameter(node.operands[o], costs_.Complete(wanted), reduced);
    }
    for (size_t r = 0; r < node.results.size(); ++r) {
      choices->results[r].push_back(costs_.Number(effect.results[r]));
    }
    costs->push_back(cost);
  }
  choices->costs = std::move(costs);
  return choices;
}

}  // namespace heddle
