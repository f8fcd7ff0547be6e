#include "ops/gradient_factors.h"

#include "ops/traits.h"

namespace heddle {

const GradientFactors* FindGradientFactors(const Node& node, size_t operand) {
  for (const GradientFactors& at : TraitsOf(node.op).gradient_factors) {
    if (at.operand != operand) continue;
    return at.holds == nullptr || at.holds(node, operand) ? &at : nullptr;
  }
  return nullptr;
}

}  // namespace heddle
