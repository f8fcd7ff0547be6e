// The strategies of a node that are worth considering.
//
// Per axis: a factor that is split, a linear set whose operands come as partial sums, or replication. Left out are
//   - factors that are smaller than the number of devices that would share them
//   - partial sums of operands that no node makes: these are available as a whole, and so is their sum
//   - expansions that would pass partial sums
//   - strategies with the same blocks and shardings everywhere as an earlier one
// The order is fixed: by axis; factors first, then linear sets, then replication.
#pragma once

#include <string_view>
#include <vector>

#include "plan/sharding.h"

namespace heddle {

struct StrategyScope {
  bool expand = true;               // side nodes cannot be expanded
  std::vector<bool> made_by_nodes;  // per operand
};

// The shardings that a strategy implies for a node's values.
struct StrategyEffect {
  std::vector<Sharding> operands, gradients;  // per operand; `gradients` are those of the operands
  std::vector<Sharding> results;
  bool operator==(const StrategyEffect&) const = default;
};
StrategyEffect EffectOf(const Mesh& mesh, const Rule& rule, const Strategy& strategy);

// `effects`: if not null, receives those of the strategies.
std::vector<Strategy> StrategiesOf(const Mesh& mesh, std::string_view op, const Rule& rule,
                                   const StrategyScope& scope,
                                   std::vector<StrategyEffect>* effects = nullptr);

}  // namespace heddle
