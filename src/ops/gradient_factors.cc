#include "ops/gradient_factors.h"

#include <algorithm>
#include <string>

namespace heddle {
namespace {

// "bsk,kj->bsj": the gradient of a term is the contraction of the other with that of the result, where every letter of
// it is in one of them.
bool HasFactors(const Node& einsum, size_t operand) {
  std::string equation = StringAttr(einsum.attributes, "equation");
  size_t comma = equation.find(','), arrow = equation.find("->");
  if (einsum.operands.size() != 2 || equation.find("...") != std::string::npos) return false;
  std::string first = equation.substr(0, comma);
  std::string second = equation.substr(comma + 1, arrow - comma - 1);
  const std::string& term = operand == 0 ? first : second;
  std::string others = (operand == 0 ? second : first) + equation.substr(arrow + 2);
  return std::all_of(term.begin(), term.end(),
                     [&](char letter) { return others.find(letter) != std::string::npos; });
}

}  // namespace

std::span<const GradientFactors> AllGradientFactors() {
  static const std::vector<GradientFactors> all = {
      {"Linear", 1, {0}}, {"Linear", 2, {}},  {"MatMul", 0, {1}}, {"MatMul", 1, {0}},
      {"Einsum", 0, {1}}, {"Einsum", 1, {0}}, {"Conv", 1, {0}},   {"Conv", 2, {}},
      {"Gather", 0, {1}}, {"Add", 0, {}},     {"Add", 1, {}},
  };
  return all;
}

const GradientFactors* FindGradientFactors(const Node& node, size_t operand) {
  for (const GradientFactors& at : AllGradientFactors()) {
    if (at.op != node.op || at.operand != operand) continue;
    return node.op == "Einsum" && !HasFactors(node, operand) ? nullptr : &at;
  }
  return nullptr;
}

}  // namespace heddle
