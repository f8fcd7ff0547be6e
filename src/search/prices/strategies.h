// The strategies of a node that are worth considering.
//
// Per axis: a factor that may be split, a linear set whose operands come as partial sums, or nothing. Left out are
//   - factors smaller than the devices that would share them
//   - partial sums of operands that no node makes: what is there is there as a whole, and its sum too
//   - expansions that would pass partial sums
//   - those that do what an earlier one does: the same blocks, the same shardings everywhere
// In a fixed order: by axis, factors first, then linear sets, then nothing.
#pragma once

#include <string_view>
#include <vector>

#include "plan/sharding.h"

namespace heddle {

struct StrategyScope {
  bool expand = true;               // side nodes cannot
  std::vector<bool> made_by_nodes;  // per operand
};

// What a strategy makes of a node's values.
struct StrategyEffect {
  std::vector<Sharding> operands, gradients;  // per operand; gradients: of operands
  std::vector<Sharding> results;
  bool operator==(const StrategyEffect&) const = default;
};
StrategyEffect EffectOf(const Mesh& mesh, const Rule& rule, const Strategy& strategy);

// `effects`: if not null, becomes those of the strategies.
std::vector<Strategy> StrategiesOf(const Mesh& mesh, std::string_view op, const Rule& rule,
                                   const StrategyScope& scope,
                                   std::vector<StrategyEffect>* effects = nullptr);

}  // namespace heddle
