// Matrix products.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <numeric>

#include "base/error.h"
#include "ops/families.h"
#include "ops/pieces.h"
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

// Of work over a dimension in pieces, which is j times their sum over j: the rest of a piece is whole.
void CountPieces(Rule& rule, const std::vector<int64_t>& pieces) {
  int j = FindFactor(rule, "j");
  int64_t total = std::accumulate(pieces.begin(), pieces.end(), int64_t{0});
  int64_t points = j < 0 ? total : total / rule.factors[static_cast<size_t>(j)].size;
  for (WorkTerm& term : rule.work) {
    term.flops *= static_cast<double>(points);
    std::erase_if(term.factors, [&](int f) {
      return rule.factors[static_cast<size_t>(f)].kind == FactorKind::kWhole;
    });
  }
}

// The bias is one term of the sum over k: it is added by the block of k that begins at 0. The attribute
// `pieces` says that the features are several projections in one, q|k|v, and by what they can be split:
//   {pieces=[32, 8, 8]}   [i0,k] x [k,(j a0)|j|j] -> [i0,(j a0)|j|j]
Rule LinearRule(const OpContext& c) {
  RequireSameTypes(c);
  bool transposed = IntAttr(c.attributes, "transpose_weight", 0) != 0;
  std::vector<int64_t> pieces = IntsAttr(c.attributes, "pieces", std::vector<int64_t>{});
  SpecArgs args;
  if (!pieces.empty()) {
    if (c.rank(1) == 2) RequireSum("pieces", pieces, c.dim(1, transposed ? 0 : 1));
    args.pieces["j"] = pieces;
  }
  Rule rule =
      Contraction(Spec(transposed ? "i* k+, j k, j -> i* j" : "i* k+, k j, j -> i* j", c, args));
  FinishBiased(rule, c);
  if (!pieces.empty()) CountPieces(rule, pieces);
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

// "bsk,kj->bsj": the gradient of a term is the contraction of the other with that of the result, where every letter of
// it is in one of them.
bool EinsumHasFactors(const Node& einsum, size_t operand) {
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

std::vector<OpDef> ContractionOps() {
  OpTraits product = {
      .kind = OpKind::kMatrixProduct,
      .gradient_factors = {{.operand = 0, .operands = {1}}, {.operand = 1, .operands = {0}}}};
  OpTraits linear = {.kind = OpKind::kMatrixProduct,
                     .bias = 2,
                     .gradient_factors = {{.operand = 1, .operands = {0}}, {.operand = 2}}};
  OpTraits einsum = product;
  for (GradientFactors& factors : einsum.gradient_factors) factors.holds = EinsumHasFactors;
  return {
      {"MatMul", 2, 2, {}, MatMulRule, product},
      {"Linear", 2, 3, {"transpose_weight", "pieces"}, LinearRule, linear},
      {"Einsum", 1, -1, {"equation"}, EinsumRule, einsum},
  };
}

}  // namespace heddle
