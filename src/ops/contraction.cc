// Matrix products.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "ops/families.h"
#include "ops/spec.h"

namespace heddle {
namespace {

Rule Contraction(Rule rule) {
  SetWork(rule, 2, AllFactors(rule), /*contraction=*/true);
  return rule;
}

Rule MatMulRule(const OpContext& c) {
  RequireSameTypes(c);
  Rule rule = Contraction(Spec("b* i k+, b* k j -> b* i j", c));
  rule.linear = {{0}, {1}};
  rule.keep.crossed = {0, 1};
  return rule;
}

// The bias is one term of the sum over k: it is added by the block of k that begins at 0.
Rule LinearRule(const OpContext& c) {
  RequireSameTypes(c);
  bool transposed = IntAttr(c.attributes, "transpose_weight", 0) != 0;
  Rule rule = Contraction(
      Spec(transposed ? "i* k+, j k, j -> i* j" : "i* k+, k j, j -> i* j", c));
  FinishBiased(rule, c);
  return rule;
}

// "btec,btd->ebcd" in the notation of rules: letters are factors; those missing on the right are summed,
// and so are dots.
std::string EinsumSpec(std::string_view equation) {
  size_t arrow = equation.find("->");
  if (arrow == std::string_view::npos) ThrowInput("equation \"{}\" has no '->'", equation);
  std::string_view right = equation.substr(arrow + 2);
  std::string spec, term;
  for (size_t at = 0; at < equation.size(); ++at) {
    char letter = equation[at];
    if (at == arrow || letter == ',') {
      spec += letter == ',' ? "," : " -> ";
      if (at == arrow) ++at;
      term.clear();
    } else if (equation.substr(at).starts_with("...")) {
      if (term.find('.') != std::string::npos) {
        ThrowInput("equation \"{}\" repeats '...' within one term", equation);
      }
      term += '.';
      spec += right.find("...") != std::string_view::npos ? " dots*" : " dots*+";
      at += 2;
    } else if (std::isalpha(static_cast<unsigned char>(letter))) {
      if (term.find(letter) != std::string::npos) {
        ThrowInput("equation \"{}\" repeats '{}' within one term", equation, letter);
      }
      term += letter;
      bool kept = right.find(letter) != std::string_view::npos;
      spec += fmt::format(" {}{}", letter, kept ? "" : "+");
      if (at > arrow && equation.substr(0, arrow).find(letter) == std::string_view::npos) {
        ThrowInput("equation \"{}\" has '{}' on the right only", equation, letter);
      }
    } else {
      ThrowInput("equation \"{}\" has an unexpected '{}'", equation, letter);
    }
  }
  return spec;
}

Rule EinsumRule(const OpContext& c) {
  RequireSameTypes(c);
  std::string equation = StringAttr(c.attributes, "equation");
  size_t terms = 1 + static_cast<size_t>(std::count(equation.begin(), equation.end(), ','));
  if (terms != c.operands.size()) {
    ThrowInput("equation \"{}\" has {} terms for {} operands", equation, terms, c.operands.size());
  }
  Rule rule = Contraction(Spec(EinsumSpec(equation), c));
  if (c.operands.size() == 1) SetWork(rule, 1, AllFactors(rule));
  for (size_t o = 0; o < c.operands.size(); ++o) {
    rule.linear.push_back({static_cast<int>(o)});
    rule.keep.crossed.push_back(static_cast<int>(o));
  }
  return rule;
}

}  // namespace

std::vector<OpDef> ContractionOps() {
  return {
      {"MatMul", 2, 2, {}, MatMulRule},
      {"Linear", 2, 3, {"transpose_weight"}, LinearRule},
      {"Einsum", 1, -1, {"equation"}, EinsumRule},
  };
}

}  // namespace heddle
