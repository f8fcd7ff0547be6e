// Between the choices of a stage's problem and the strategies of its nodes.
#include <algorithm>

#include "search/prices/stage_problem.h"

namespace heddle {

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

namespace {

// Does choice `x` mean the same shardings at all operands and results as the strategy?
bool DoesTheSame(StageCosts& costs, const Rule& rule, const NodeChoices& choices, size_t x,
                 const Strategy& strategy) {
  for (size_t o = 0; o < rule.operands.size(); ++o) {
    Sharding wanted = OperandSharding(costs.mesh(), rule, strategy, o);
    if (costs.Number(wanted) != choices.operands[o][x]) return false;
    Sharding gradient = OperandGradient(costs.mesh(), rule, strategy, o);
    bool given = choices.gradients[o][x] >= 0;
    if (given && costs.Number(gradient) != choices.gradients[o][x]) return false;
  }
  for (size_t r = 0; r < rule.results.size(); ++r) {
    Sharding result = ResultSharding(costs.mesh(), rule, strategy, r);
    if (costs.Number(result) != choices.results[r][x]) return false;
  }
  return true;
}

}  // namespace

std::optional<std::vector<int>> ChoicesOf(StageCosts& costs, const StageProblem& stage,
                                          const std::vector<Strategy>& strategies) {
  std::vector<int> fixed(stage.costs.size(), -1);
  for (size_t n = 0; n < stage.nodes.size(); ++n) {
    const NodeVariable& node = stage.nodes[n];
    if (node.variable < 0 || !node.follows.empty()) continue;
    const NodeChoices& choices = *node.choices;
    const Rule& rule = costs.rule(NodeId::FromIndex(n));
    size_t x = static_cast<size_t>(
        std::find(choices.strategies.begin(), choices.strategies.end(), strategies[n]) -
        choices.strategies.begin());
    if (x == choices.strategies.size()) {
      x = 0;
      while (x < choices.strategies.size() &&
             !DoesTheSame(costs, rule, choices, x, strategies[n])) {
        ++x;
      }
    }
    if (x == choices.strategies.size()) return std::nullopt;
    fixed[static_cast<size_t>(node.variable)] = static_cast<int>(x);
  }
  return fixed;
}

}  // namespace heddle
