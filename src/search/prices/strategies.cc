#include "search/prices/strategies.h"

#include <algorithm>
#include <map>

#include "ops/op.h"

namespace heddle {
namespace {

std::vector<AxisChoice> ChoicesOf(std::string_view op, const Rule& rule,
                                  const StrategyScope& scope) {
  std::vector<AxisChoice> choices;
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    FactorKind kind = rule.factors[f].kind;
    if (kind == FactorKind::kWhole) continue;
    if (kind == FactorKind::kExpanded && (!scope.expand || !FindOp(op)->expansion)) continue;
    choices.push_back(Split(static_cast<int>(f)));
  }
  for (size_t k = 0; k < rule.linear.size(); ++k) {
    bool made = std::any_of(rule.linear[k].begin(), rule.linear[k].end(),
                            [&](int o) { return scope.made_by_nodes[static_cast<size_t>(o)]; });
    if (made) choices.push_back(PassPartial(static_cast<int>(k)));
  }
  choices.push_back(kReplicate);
  return choices;
}

bool SplitsExpanded(const Rule& rule, const Strategy& strategy) {
  return std::any_of(strategy.begin(), strategy.end(), [&](AxisChoice choice) {
    return choice.is_split() && rule.factors[choice.factor_index()].kind == FactorKind::kExpanded;
  });
}

bool Fits(const Mesh& mesh, const Rule& rule, const Strategy& strategy) {
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    int64_t devices = 1;
    for (size_t a = 0; a < strategy.size(); ++a) {
      if (strategy[a].splits(static_cast<int>(f))) devices *= mesh.axes[a].size;
    }
    if (devices > rule.factors[f].size && devices > 1) return false;
  }
  bool partial = std::any_of(strategy.begin(), strategy.end(),
                             [](AxisChoice choice) { return choice.is_partial(); });
  return !partial || !SplitsExpanded(rule, strategy);
}

}  // namespace

StrategyEffect EffectOf(const Mesh& mesh, const Rule& rule, const Strategy& strategy) {
  StrategyEffect effect;
  for (size_t o = 0; o < rule.operands.size(); ++o) {
    effect.operands.push_back(OperandSharding(mesh, rule, strategy, o));
    effect.gradients.push_back(OperandGradient(mesh, rule, strategy, o));
  }
  for (size_t r = 0; r < rule.results.size(); ++r) {
    effect.results.push_back(ResultSharding(mesh, rule, strategy, r));
  }
  return effect;
}

std::vector<Strategy> StrategiesOf(const Mesh& mesh, std::string_view op, const Rule& rule,
                                   const StrategyScope& scope,
                                   std::vector<StrategyEffect>* effects) {
  std::vector<AxisChoice> choices = ChoicesOf(op, rule, scope);
  std::vector<Strategy> all = {{}};
  for (const MeshAxis& axis : mesh.axes) {
    std::vector<Strategy> longer;
    for (const Strategy& strategy : all) {
      for (AxisChoice choice : choices) {
        if (axis.size == 1 && choice != kReplicate) continue;
        longer.push_back(strategy);
        longer.back().push_back(choice);
      }
    }
    all = std::move(longer);
  }
  std::vector<Strategy> kept;
  std::vector<StrategyEffect> of_kept;
  // Indices of kept strategies, by block sizes.
  std::map<std::vector<int64_t>, std::vector<size_t>> seen;
  for (Strategy& strategy : all) {
    if (!Fits(mesh, rule, strategy)) continue;
    std::vector<int64_t> sizes;
    for (Block block : LocalBlocks(mesh, rule, strategy, Position(mesh.axes.size(), 0))) {
      sizes.push_back(block.size());
    }
    std::vector<size_t>& alike = seen[sizes];
    StrategyEffect effect = EffectOf(mesh, rule, strategy);
    auto same = [&](size_t other) { return of_kept[other] == effect; };
    if (std::any_of(alike.begin(), alike.end(), same)) continue;
    alike.push_back(kept.size());
    of_kept.push_back(std::move(effect));
    kept.push_back(std::move(strategy));
  }
  if (effects != nullptr) *effects = std::move(of_kept);
  return kept;
}

}  // namespace heddle
