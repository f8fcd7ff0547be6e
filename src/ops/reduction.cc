// Reductions: sums and means over a split factor are partial sums; maxima are whole, or maxed where no
// gradient is asked of them.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "ops/families.h"
#include "ops/spec.h"

namespace heddle {
namespace {

std::vector<bool> ReducedDims(const OpContext& c, const std::vector<int64_t>& axes) {
  std::vector<bool> reduced(c.shape().size(), false);
  for (int64_t axis : axes) {
    size_t dim = static_cast<size_t>(NormaliseAxis(axis, c.rank()));
    if (reduced[dim]) ThrowInput("axis {} is given twice", axis);
    reduced[dim] = true;
  }
  return reduced;
}

// d0 d1+ d2 -> d0 1 d2, with `mark` on what is reduced.
Rule ReduceSpec(const OpContext& c, const std::vector<int64_t>& axes, std::string_view mark) {
  std::vector<bool> reduced = ReducedDims(c, axes);
  bool keep = IntAttr(c.attributes, "keepdims", 1) != 0;
  std::string operand, result;
  for (size_t d = 0; d < reduced.size(); ++d) {
    operand += fmt::format(" d{}{}", d, reduced[d] ? mark : "");
    if (!reduced[d]) result += fmt::format(" d{}", d);
    if (reduced[d] && keep) result += " 1";
  }
  Rule rule = Spec(operand + " -> " + result, c);
  SetWork(rule, 1, AllFactors(rule));
  return rule;
}

Rule SumRule(const OpContext& c) {
  Rule rule = ReduceSpec(c, IntsAttr(c.attributes, "axes"), "+");
  rule.linear = {{0}};
  return rule;
}

Rule ExtremeRule(const OpContext& c) {
  bool detached = IntAttr(c.attributes, "detached", 0) != 0;
  Rule rule = ReduceSpec(c, IntsAttr(c.attributes, "axes"), detached ? "^" : "!");
  rule.keep.operands = {0};
  rule.keep.results = {0};
  if (detached) NoGradient(rule);
  return rule;
}

Rule ArgRule(const OpContext& c) {
  Rule rule = ReduceSpec(c, {AxisAttr(c, c.rank())}, "!");
  rule.result_dtypes = {DType::kI64};
  return rule;
}

Rule TopKRule(const OpContext& c) {
  int64_t axis = AxisAttr(c, c.rank(), -1);
  int64_t k = IntAttr(c.attributes, "k");
  if (k < 0 || k > c.dim(0, axis)) ThrowInput("k={} of {} elements", k, c.dim(0, axis));
  Rule rule =
      Spec("a* c! z* -> a* k! z*, a* k z*", c, {.lengths = {{"a", axis}}, .sizes = {{"k", k}}});
  rule.result_dtypes = {c.operands[0].dtype, DType::kI64};
  SetWork(rule, 1, Factors(rule, {"a*", "c", "z*"}));
  rule.keep.results = {1};
  return rule;
}

Rule CumSumRule(const OpContext& c) {
  Rule rule =
      Spec("a* c! z* -> a* c z*", c, {.lengths = {{"a", AxisAttr(c, c.rank())}}, .sizes = {}});
  rule.linear = {{0}};
  return rule;
}

}  // namespace

std::vector<OpDef> ReductionOps() {
  return {
      {"ReduceSum", 1, 1, {"axes", "keepdims"}, SumRule},
      {"ReduceMean", 1, 1, {"axes", "keepdims"}, SumRule},
      {"ReduceMax", 1, 1, {"axes", "keepdims", "detached"}, ExtremeRule},
      {"ReduceMin", 1, 1, {"axes", "keepdims"}, ExtremeRule},
      {"ReduceProd", 1, 1, {"axes", "keepdims"}, ExtremeRule},
      {"ArgMax", 1, 1, {"axis", "keepdims"}, ArgRule},
      {"ArgMin", 1, 1, {"axis", "keepdims"}, ArgRule},
      {"TopK", 1, 1, {"k", "axis", "largest", "sorted"}, TopKRule},
      {"CumSum", 1, 1, {"axis", "exclusive", "reverse"}, CumSumRule},
  };
}

}  // namespace heddle
